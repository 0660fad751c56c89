package logs

import (
	"context"
	"math"
	"sync"
	"time"

	"failback/sources/logql"
)

// reader is a store that knows which time of it was asked for.
type reader struct {
	*Store
	mu         sync.Mutex // guards everything that follows
	start, end int64
}

func newReader(s *Store) *reader { return &reader{Store: s, start: math.MaxInt64, end: math.MinInt64} }

// Select implements logql.Source.
func (r *reader) Select(ctx context.Context, sel logql.Selection, yield func(logql.Entry) bool) error {
	r.note(sel)
	return r.Store.Select(ctx, sel, yield)
}

// Partitions implements logql.Partitioned.
func (r *reader) Partitions(sel logql.Selection, n int) []logql.Source {
	r.note(sel)
	return r.Store.Partitions(sel, n)
}

func (r *reader) note(sel logql.Selection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start, r.end = min(r.start, sel.Start), max(r.end, sel.End)
}

// lacks is what is known of lines that are not there in the time that was asked
// for; nil: nothing.
func (r *reader) lacks() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end <= r.start {
		return nil
	}
	var all []string
	if r.o.Lacks != nil {
		if text := r.o.Lacks(time.Unix(0, r.start), time.Unix(0, r.end)); text != "" {
			all = append(all, text)
		}
	}
	if text := r.damage(); text != "" {
		all = append(all, text)
	}
	return all
}
