package logs

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"

	"failback/sources/logql"
)

// partLines is how many lines are worth a partition.
const partLines = 4096

// part is the store between two times.
type part struct {
	s          *Store
	start, end int64
	known      map[*segment]*index // so that the parts do not load them again
}

// Select is Store.Select within the part.
func (p *part) Select(ctx context.Context, sel logql.Selection, yield func(logql.Entry) bool) error {
	sel.Start, sel.End = max(sel.Start, p.start), min(sel.End, p.end)
	if sel.Start >= sel.End {
		return ctx.Err()
	}
	return p.s.selectWith(ctx, sel, scope{known: p.known}, 1, yield)
}

// Partitions cuts the time of sel into parts with about as many lines each.
func (s *Store) Partitions(sel logql.Selection, n int) []logql.Source {
	if n = min(n, workers()); n < 2 {
		return []logql.Source{s}
	}
	vs, err := s.views(sel.Start, sel.End)
	if err != nil {
		return []logql.Source{s}
	}
	defer s.letGo(vs)

	known := map[*segment]*index{}
	var all []run
	total := 0
	for _, v := range vs {
		x := v.x
		if x == nil {
			if x, err = s.load(v.g); err != nil {
				return []logql.Source{s} // Select will meet and tell it
			}
			known[v.g] = x
		}
		if r := runOf(x, sel); r.lines() > 0 {
			all = append(all, r)
			total += r.lines()
		}
	}
	n = min(n, total/partLines)
	if n < 2 {
		return []logql.Source{s}
	}
	slices.SortStableFunc(all, func(a, b run) int { return cmp.Compare(a.x.ts[a.from], b.x.ts[b.from]) })

	edges := []int64{math.MinInt64}
	seen := 0
	for _, r := range all {
		for k := len(edges); k < n; k = len(edges) {
			at := total/n*k - seen // of r's lines
			if at >= r.lines() {
				break
			}
			edges = append(edges, max(r.x.ts[r.from+max(at, 0)], edges[k-1]))
		}
		seen += r.lines()
	}
	edges = append(edges, math.MaxInt64)
	var parts []logql.Source
	for i := range len(edges) - 1 {
		parts = append(parts, &part{s: s, start: edges[i], end: edges[i+1], known: known})
	}
	if !sel.Forward {
		slices.Reverse(parts)
	}
	return parts
}

// run is a part of a segment: the lines from from to before to. In one that is
// not sorted, it is about those.
type run struct {
	x        *index
	from, to int
}

func (r run) lines() int { return r.to - r.from }

func runOf(x *index, sel logql.Selection) run {
	if !x.sorted {
		return run{x, 0, len(x.ts)}
	}
	return run{x,
		sort.Search(len(x.ts), func(i int) bool { return x.ts[i] >= sel.Start }),
		sort.Search(len(x.ts), func(i int) bool { return x.ts[i] >= sel.End })}
}
