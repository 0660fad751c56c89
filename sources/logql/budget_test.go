package logql

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// asked answers within bounds, and how long that took.
func asked(t *testing.T, src Source, query string, r Request) (*Result, time.Duration, error) {
	t.Helper()
	var err error
	if r.Query, err = Parse(query); err != nil {
		t.Fatal(err)
	}
	if r.End == 0 {
		r.End = 100_000 * sec
	}
	began := time.Now()
	res, err := Eval(t.Context(), src, r)
	return res, time.Since(began), err
}

// refused fails unless the query was refused as Loki refuses what is too much,
// and names the bound.
func refused(t *testing.T, err error, bound string) {
	t.Helper()
	var q *QueryError
	if !errors.As(err, &q) || q.Status != 400 || !strings.Contains(q.Message, bound) || !strings.Contains(q.Message, "the most that is allowed") {
		t.Errorf("%v", err)
	}
}

// What templates make is bounded though no line of it is in the answer.
func TestWhatTemplatesMakeIsBounded(t *testing.T) {
	src := many(20_000, 700)
	double := strings.Repeat(` | line_format "{{__line__}}{{__line__}}"`, 9)
	for name, query := range map[string]string{
		"line_format":       `{app="x"}` + double + ` |= "nothing"`,
		"line_format, json": `{app="x"} | json | line_format "{{repeat 300 .pad}}" |= "nothing"`,
		"label_format":      `{app="x"} | json | label_format a="` + strings.Repeat("{{.pad}}", 300) + `" | a="nothing"`,
		"functions":         `{app="x"} | line_format "{{len (` + strings.Repeat("ToUpper (", 100) + `repeat 100 __line__` + strings.Repeat(")", 101) + `}}" |= "nothing"`,
		"variadic":          `{app="x"} | line_format "{{$x := repeat 100 __line__}}{{len (print $x $x $x $x)}}" |= "nothing"`,
		"numbers":           `sum(count_over_time({app="x"}` + double + ` [99999s]))`,
	} {
		t.Run(name, func(t *testing.T) {
			const most = 64 << 20
			res, _, err := asked(t, src, query, Request{Limit: 5000, MaxMade: most, Instant: strings.HasPrefix(query, "sum")})
			refused(t, err, "the templates of the query make more than 67108864 bytes")
			if res != nil {
				t.Error("there is an answer beside the error")
			}
		})
	}
	// The same within the bound, and what makes little.
	if _, _, err := asked(t, many(20, 700), `{app="x"}`+double, Request{MaxMade: 64 << 20, MaxWork: time.Minute}); err != nil {
		t.Error(err)
	}
	if res, _, err := asked(t, src, `{app="x"} | line_format "{{__line__}}"`, Request{MaxMade: 64 << 20, MaxWork: time.Minute, Limit: 5000}); err != nil || res.Stats.Found != 5000 {
		t.Error(err)
	}
}

// series makes lines of n series, a line a second.
func series(n int) *Lines {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{TS: int64(i) * sec, Labels: Labels{{"app", "x"}}, Line: []byte(`{"id":"` + time.Duration(i).String() + `","v":"1.5"}`)}
	}
	return NewLines(entries)
}

// A query that goes on within one line, or behind all of them, ends where its
// work does, however long its context lasts.
func TestWorkIsBounded(t *testing.T) {
	const most = 50 * time.Millisecond
	for _, c := range []struct {
		name, query string
		src         Source
		step        time.Duration
	}{
		{"patterns", "{app=\"x\"} |~ `(?:x?[a-z\":,_0-9 .{}]*){90}ZQ`", many(20_000, 2000), 0},
		{"patterns of one line", `{app="x"} |~ "` + strings.TrimSuffix(strings.Repeat("(?:x?[a-z]*){40}ZQ\" or \"", 60), `" or "`) + `"`, many(1, 20_000), 0},
		{"patterns of a label", `{app="x"} | json | ` + strings.TrimSuffix(strings.Repeat("pad=~\"(?:x?[a-z]*){40}ZQ\" or ", 60), " or "), many(1, 20_000), 0},
		{"functions of one line", `{app="x"} | line_format "{{$x := repeat 20 __line__}}` + strings.Repeat(`{{count \"(?:x?[a-z]*){40}ZQ\" $x}}`, 100) + `"`, many(1, 2000), 0},
		{"count by the square", `{app="x"} | line_format "{{count \"x*y|x\" (repeat 400000 \"x\")}}"`, many(1, 10), 0},
		{"replace by the square", `{app="x"} | line_format "{{regexReplaceAll \"x*y|x\" (repeat 400000 \"x\") \"\"}}"`, many(1, 10), 0},
		{"replace parts by the square", `{app="x"} | line_format "{{regexReplaceAll \"x*y|(x)\" (repeat 400000 \"x\") \"$1\"}}"`, many(1, 10), 0},
		{"series times steps", `max(count_over_time({app="x"} | json | keep id [1h]))`, series(20_000), 2 * time.Second},
		{"samples times steps", `quantile_over_time(0.9, {app="x"} | json | unwrap v [99999s]) by (app)`, series(20_000), 2 * time.Second},
		{"topk", `topk(3, count_over_time({app="x"} | json | keep id [99999s]))`, series(20_000), 2 * time.Second},
		{"two sides", `count_over_time({app="x"} | json | keep id [99999s]) and count_over_time({app="x"} | json | keep id [99999s]) > 5`, series(20_000), 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, took, err := asked(t, c.src, c.query, Request{End: 20_000 * sec, Step: c.step, MaxWork: most})
			refused(t, err, "the query works longer than 50ms")
			if took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// resting is a source whose lines come after rests that it does not count.
type resting struct{ n int }

func (s resting) Select(ctx context.Context, _ Selection, yield func(Entry) bool) error {
	for i := range s.n {
		if !yield(Entry{TS: int64(i), Labels: Labels{{"app", "x"}}, Line: []byte("line")}) {
			return nil
		}
		if err := Worked(ctx, time.Minute); err != nil {
			return err
		}
	}
	return nil
}

func TestTheSourceSaysWhatWasWorked(t *testing.T) {
	for _, most := range []time.Duration{10 * time.Minute, 9 * time.Minute} {
		_, _, err := asked(t, resting{10}, `{app="x"}`, Request{MaxWork: most})
		if most == 10*time.Minute {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		refused(t, err, "the query works longer than 9m0s")
	}
	if err := Worked(t.Context(), time.Hour); err != nil {
		t.Errorf("of no query: %v", err)
	}
}

// What was worked before the line counts too.
func TestALineDoesNotBeginAnew(t *testing.T) {
	for worked, more := range map[time.Duration]bool{0: true, 59 * time.Minute: false} {
		b := newBudget(Request{MaxWork: time.Hour})
		b.work.Store(int64(worked))
		m := &meter{b: b, ended: new(atomic.Bool), since: time.Now().Add(-2 * time.Minute)}
		if m.look() != more || (b.err() == nil) != more {
			t.Errorf("after %v and 2m in the line: %v", worked, b.err())
		}
	}
}

// turns counts.
type turns struct {
	*Lines
	begun, rests, ended int
}

func (s *turns) Turn() Turn                  { return s }
func (s *turns) Begin(context.Context) error { s.begun++; return nil }
func (s *turns) Rest(context.Context) error  { s.rests++; return nil }
func (s *turns) End(context.Context)         { s.ended++ }

// What is worked behind the lines is in turn with others too.
func TestNumbersAreWorkedOutInTurn(t *testing.T) {
	src := &turns{Lines: series(5000)}
	_, _, err := asked(t, src, `max(count_over_time({app="x"} | json | keep id [1h]))`, Request{End: 5000 * sec, Step: 10 * time.Second})
	if err != nil || src.begun == 0 || src.begun != src.ended || src.rests < 10 {
		t.Errorf("%v: %d began, %d ended, %d rests", err, src.begun, src.ended, src.rests)
	}
}

// A template that asks for some labels gets those, one that may ask for any gets
// all, and what the stage itself sets is not seen by its later templates.
func TestTemplatesSeeTheirLabels(t *testing.T) {
	src := at(`{"a":"1","b":"2"}`)
	for query, want := range map[string]string{
		`{app="x"} | json | line_format "{{if .a}}{{.b}}{{end}}{{.c}}"`:                            "2",
		`{app="x"} | json | line_format "{{index . \"b\"}}{{len .}}"`:                              "23",
		`{app="x"} | json | line_format "{{$x := .}}{{with $x}}{{len .}}{{$.a}}{{end}}"`:           "31",
		`{app="x"} | json | label_format a="3", d="{{.a}}" | line_format "{{.a}}{{.d}}"`:           "31",
		`{app="x"} | json | line_format "<{{__line__}}>" | line_format "{{__line__}}{{.a}}"`:       `<{"a":"1","b":"2"}>1`,
		`{app="x"} | drop app | label_format a="3", d="{{.a}}" | line_format "{{.a}}{{.d}}"`:       "33",
		`{app="x"} | json | line_format "{{add 1 .a}}" | line_format "{{printf \"%s\" __line__}}"`: "2",
	} {
		q, err := Parse(query)
		if err != nil {
			t.Fatal(query, err)
		}
		res, err := Eval(t.Context(), src, Request{Query: q, End: 100_000 * sec, MaxMade: 1 << 20, MaxWork: time.Minute})
		if err != nil || len(res.Streams) != 1 || res.Streams[0].Lines[0].Text != want {
			t.Errorf("%s: %v %+v", query, err, res)
		}
	}
}
