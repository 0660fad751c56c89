package sources

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"
)

const (
	// MaxLogLines is the greatest LogQuery.Limit; more than MaxLogsLimit are asked
	// for by pages.
	MaxLogLines = 100_000
	// maxLogBytes bounds the lines of one answer.
	maxLogBytes = 256 << 20
)

// LogMark is where an answer of lines stopped, for LogQuery.From: the time of
// its last line, and which lines of that time were given. It is never changed.
type LogMark struct {
	ts  int64
	had lineCounts
}

// lineKey stands for a line of a stream: one time, one hash of labels and text.
type lineKey struct {
	ts   int64
	hash uint64
}

// lineCounts says how often each line was given. Lines that are alike in all
// are counted, not folded.
type lineCounts map[lineKey]int

var lineSeed = maphash.MakeSeed()

func keyOf(r *LogRow) lineKey {
	return lineKey{r.TS, maphash.String(lineSeed, labelKey(r.Labels)+"\x00"+r.Line)}
}

// clone is a copy that take may use up.
func (c lineCounts) clone() lineCounts {
	out := make(lineCounts, len(c))
	for k, n := range c {
		out[k] = n
	}
	return out
}

// take reports whether c has the line, and takes one of it out.
func (c lineCounts) take(k lineKey) bool {
	n, ok := c[k]
	switch {
	case !ok:
		return false
	case n == 1:
		delete(c, k)
	default:
		c[k] = n - 1
	}
	return true
}

func (m *LogMark) count() (n int) {
	if m != nil {
		for _, c := range m.had {
			n += c
		}
	}
	return n
}

// news are the rows, in the order of the question, that lie behind m.
func (m *LogMark) news(rows []LogRow, forward bool) []LogRow {
	if m == nil {
		return rows
	}
	had := m.had.clone()
	var fresh []LogRow
	for i := range rows {
		r := &rows[i]
		switch {
		case r.TS != m.ts && (r.TS < m.ts) == forward: // before the page
		case r.TS == m.ts && had.take(keyOf(r)):
		default:
			fresh = append(fresh, *r)
		}
	}
	return fresh
}

// after is the mark behind rows that follow m; without rows it is m.
func (m *LogMark) after(rows []LogRow) *LogMark {
	if len(rows) == 0 {
		return m
	}
	last := &LogMark{ts: rows[len(rows)-1].TS, had: lineCounts{}}
	if m != nil && m.ts == last.ts {
		last.had = m.had.clone()
	}
	for i := len(rows) - 1; i >= 0 && rows[i].TS == last.ts; i-- {
		last.had[keyOf(&rows[i])]++
	}
	return last
}

// behind is the mark behind all lines of m's time.
func (m *LogMark) behind(forward bool) *LogMark {
	if forward {
		return &LogMark{ts: m.ts + 1}
	}
	return &LogMark{ts: m.ts - 1}
}

// from is q for what lies behind m, the lines of m's time included.
func (q LogQuery) from(m *LogMark) LogQuery {
	switch {
	case m == nil:
	case q.Forward:
		q.Start = time.Unix(0, m.ts)
	default:
		q.End = time.Unix(0, m.ts+1)
	}
	return q
}

// askPages asks q, its defaults filled in, by pages: ask asks one, with that
// limit and no other, and tells in the answer's question what it was asked
// with, which may be less. Lines at the edge of a page are neither lost nor given
// twice; where one time has more lines than a page holds the rest of them is
// missing, and a warning says so.
func askPages(ctx context.Context, q LogQuery, ask func(context.Context, LogQuery) (*LogAnswer, error)) (*LogAnswer, error) {
	var (
		out  *LogAnswer
		mark = q.From
		size int
		cut  bool // there may be more than was asked for
	)
	for {
		page := q.from(mark)
		if !page.Start.Before(page.End) && mark != nil {
			if out == nil {
				out = &LogAnswer{Kind: LogLines, SearchedBytes: -1, Unparsed: -1}
			}
			break
		}
		want := q.Limit + 1 // one more tells "the first 500" from "500"
		if out != nil {
			want -= len(out.Rows)
		}
		page.Limit = min(want+mark.count(), MaxLogsLimit)
		a, err := ask(ctx, page)
		switch {
		case err != nil && (out == nil || len(out.Rows) == 0 || ctx.Err() != nil):
			return nil, err
		case err != nil:
			out.Warnings = warn(out.Warnings, "the rest is missing: "+err.Error())
			cut = true
		case a.Kind != LogLines:
			a.Query = q
			return a, nil
		}
		if err != nil {
			break
		}
		fresh := mark.news(a.Rows, q.Forward)
		for i := range fresh {
			size += len(fresh[i].Line)
		}
		full := len(a.Rows) >= a.Query.Limit
		if out == nil {
			out = a
			out.Rows = fresh
		} else {
			out.Rows = append(out.Rows, fresh...)
			if a.SearchedBytes > 0 {
				out.SearchedBytes += a.SearchedBytes
			}
			for _, w := range a.Warnings {
				out.Warnings = warn(out.Warnings, w)
			}
		}
		next := mark.after(fresh)
		switch {
		case !full || len(out.Rows) > q.Limit:
			cut = false
		case size > maxLogBytes:
			out.Warnings = warn(out.Warnings, "the lines are over "+bytesText(maxLogBytes)+" together: what follows is missing")
			cut = true
		case len(fresh) > 0:
			mark = next
			continue
		case next != nil && a.Rows[0].TS == next.ts && a.Rows[len(a.Rows)-1].TS == next.ts:
			out.Warnings = warn(out.Warnings, fmt.Sprintf("more than %d lines at one timestamp, %s: the server gives no more of them at once, and the rest of them is missing",
				a.Query.Limit, time.Unix(0, next.ts).UTC().Format(time.RFC3339Nano)))
			mark = next.behind(q.Forward)
			continue
		default: // it gives what was not asked for, again and again
			cut = true
		}
		break
	}
	out.Query = q
	out.CutOff = cut || len(out.Rows) > q.Limit
	if len(out.Rows) > q.Limit {
		out.Rows = out.Rows[:q.Limit:q.Limit]
	}
	if out.CutOff {
		out.More = q.From.after(out.Rows)
	}
	return out, nil
}
