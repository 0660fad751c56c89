package sources

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// lineStore answers query_range as a Loki does: from start on, before end, no
// more than limit, and none over most.
type lineStore struct {
	most    int
	warning string // comes with every page but the first
	fails   int    // which question is not answered, from 1; 0: none

	mu      sync.Mutex
	lines   []LogRow    // guarded by mu; in order of arrival
	asked   []*pageWant // guarded by mu
	tooMuch int         // guarded by mu; how often more than most was asked for
	given   int64       // guarded by mu; the bytes that it says it searched: one a line
}

type pageWant struct {
	start, end int64
	limit      int
	forward    bool
}

// add appends lines of one stream.
func (s *lineStore) add(ts int64, lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lines {
		s.lines = append(s.lines, LogRow{TS: ts, Line: l, Labels: map[string]string{"a": "b"}})
	}
}

func (s *lineStore) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *lineStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	p := &pageWant{forward: v.Get("direction") == "forward"}
	p.start, _ = strconv.ParseInt(v.Get("start"), 10, 64)
	p.end, _ = strconv.ParseInt(v.Get("end"), 10, 64)
	p.limit, _ = strconv.Atoi(v.Get("limit"))
	s.mu.Lock()
	s.asked = append(s.asked, p)
	rows := slices.Clone(s.lines)
	if s.most > 0 && p.limit > s.most {
		s.tooMuch++
	}
	s.mu.Unlock()
	if s.most > 0 && p.limit > s.most {
		http.Error(w, fmt.Sprintf("max entries limit per query exceeded, limit > max_entries_limit_per_query (%d > %d)", p.limit, s.most), http.StatusBadRequest)
		return
	}
	rows = slices.DeleteFunc(rows, func(r LogRow) bool { return r.TS < p.start || r.TS >= p.end })
	slices.SortStableFunc(rows, func(x, y LogRow) int { return cmp.Compare(x.TS, y.TS) })
	if !p.forward {
		slices.Reverse(rows)
	}
	if len(rows) > p.limit {
		rows = rows[:p.limit]
	}
	s.mu.Lock()
	said := []string{}
	if n := len(s.asked); n == s.fails {
		s.mu.Unlock()
		http.Error(w, "gone", http.StatusInternalServerError)
		return
	} else if n > 2 && s.warning != "" { // of a later page
		said = append(said, s.warning)
	}
	s.given += int64(len(rows))
	s.mu.Unlock()
	byLabels := map[string]*wireStreamOut{}
	streams := []*wireStreamOut{}
	for _, row := range rows {
		k := labelKey(row.Labels)
		if byLabels[k] == nil {
			byLabels[k] = &wireStreamOut{Stream: row.Labels}
			streams = append(streams, byLabels[k])
		}
		byLabels[k].Values = append(byLabels[k].Values, [2]string{strconv.FormatInt(row.TS, 10), row.Line})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "streams", "result": streams,
		"stats": map[string]any{"summary": map[string]any{"totalBytesProcessed": len(rows)}}}, "warnings": said})
}

type wireStreamOut struct {
	Stream map[string]string `json:"stream"`
	Values [][2]string       `json:"values"`
}

// readPages asks page after page and returns what the lines say, and the
// warnings; it fails the test if there is no end.
func readPages(t *testing.T, l Logs, q LogQuery) (pages [][]string, warnings []string) {
	t.Helper()
	for range 100 {
		a := l.Query(t.Context(), 1, q)
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		var page []string
		for _, r := range a.Value.Rows {
			page = append(page, r.Line)
		}
		pages = append(pages, page)
		for _, w := range a.Value.Warnings {
			warnings = warn(warnings, w)
		}
		if a.Value.CutOff != (a.Value.More != nil) {
			t.Fatalf("cut off %t, more %v", a.Value.CutOff, a.Value.More)
		}
		if q.From = a.Value.More; q.From == nil {
			return pages, warnings
		}
	}
	t.Fatal("the pages have no end")
	return nil, nil
}

func TestLQL02Pages(t *testing.T) {
	base := time.Date(2026, 3, 1, 4, 0, 0, 0, time.UTC)
	numberedLines := func(n int, every time.Duration) (s *lineStore, want []string) {
		s = &lineStore{}
		for i := range n {
			l := fmt.Sprintf("line %05d", i)
			s.add(base.Add(time.Duration(i)*every).UnixNano(), l)
			want = append(want, l)
		}
		return s, want
	}
	q := LogQuery{Query: "{}", Start: base.Add(-time.Minute), End: base.Add(time.Hour)}
	for _, c := range []struct {
		name           string
		n              int
		every          time.Duration
		most, limit    int
		pages          int
		complete, told bool
	}{
		{"LQL-02 16 lines by 4", 16, time.Second, 0, 4, 4, true, false},
		{"LQL-02 30 lines of one nanosecond by 10", 30, 0, 0, 10, 3, true, false},
		{"LQL-02 30 lines of one nanosecond from a server of 10 at once", 30, 0, 10, 10, 0, false, true},
		{"LQL-02 three a nanosecond by 4", 17, time.Nanosecond, 0, 4, 5, true, false},
		{"LQL-02 one question of many pages", 30, time.Second, 7, 1000, 1, true, false},
		{"LQL-02 12000 in one question", 12000, time.Millisecond, 0, 20000, 1, true, false},
		{"LQL-02 exactly one page", 4, time.Second, 0, 4, 1, true, false},
	} {
		for _, forward := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s forward=%t", c.name, forward), func(t *testing.T) {
				s, want := numberedLines(c.n, c.every)
				s.most = c.most
				if strings.Contains(c.name, "three") {
					for i := range s.lines {
						s.lines[i].TS = base.UnixNano() + int64(i/3)
					}
				}
				_, l := clients(t, serve(t, s.ServeHTTP))
				q := q
				q.Limit, q.Forward = c.limit, forward
				pages, warnings := readPages(t, l, q)
				got := slices.Concat(pages...)
				if forward && c.complete && !slices.Equal(got, want) {
					t.Errorf("got %q", got)
				}
				slices.Sort(got)
				if n := len(slices.Compact(slices.Clone(got))); n != len(got) {
					t.Errorf("%d lines came twice", len(got)-n)
				}
				if c.complete != slices.Equal(got, want) {
					t.Errorf("complete: %t, %d lines of %d", !c.complete, len(got), len(want))
				}
				if c.complete && len(pages) != c.pages {
					t.Errorf("%d pages, not %d", len(pages), c.pages)
				}
				if told := strings.Contains(strings.Join(warnings, "|"), "more than 10 lines at one timestamp"); told != c.told {
					t.Errorf("warnings %q", warnings)
				}
				if s.questions() > 30 || s.tooMuch > 1 {
					t.Errorf("%d questions, %d of them for more than the server had said that it gives", s.questions(), s.tooMuch)
				}
			})
		}
	}
	t.Run("LQL-02 what is said of a page is said of the whole", func(t *testing.T) {
		s, _ := numberedLines(30, time.Second)
		s.most = 7
		s.warning = "an ingester is missing"
		_, l := clients(t, serve(t, s.ServeHTTP))
		q := q
		q.Limit = 1000
		a := l.Query(t.Context(), 1, q)
		if a.Err != nil || len(a.Value.Rows) != 30 || a.Value.SearchedBytes != s.given || !slices.Equal(a.Value.Warnings, []string{s.warning}) {
			t.Errorf("%+v, %v; %d bytes were given", a.Value, a.Err, s.given)
		}
		// Where a later page fails, what there is is an answer that goes on there.
		s.fails = s.questions() + 3
		a = l.Query(t.Context(), 1, q)
		if a.Err != nil || len(a.Value.Rows) < 7 || !a.Value.CutOff || a.Value.More == nil || !strings.Contains(strings.Join(a.Value.Warnings, "|"), "the rest is missing") {
			t.Fatalf("%+v, %v", a.Value, a.Err)
		}
		s.fails = 0
		first := len(a.Value.Rows)
		q.From = a.Value.More
		if a = l.Query(t.Context(), 1, q); a.Err != nil || first+len(a.Value.Rows) != 30 {
			t.Errorf("%d and %d lines, %v", first, len(a.Value.Rows), a.Err)
		}
	})
	t.Run("LQL-02 a limit beyond all is bounded", func(t *testing.T) {
		s, _ := numberedLines(3, time.Second)
		_, l := clients(t, serve(t, s.ServeHTTP))
		q := q
		q.Limit = MaxLogLines * 10
		a := l.Query(t.Context(), 1, q)
		if a.Err != nil || a.Value.Query.Limit != MaxLogLines || a.Value.CutOff {
			t.Errorf("%+v, %v", a.Value, a.Err)
		}
	})
	t.Run("LQL-02 lines that are alike are all there", func(t *testing.T) {
		s := &lineStore{}
		for range 9 {
			s.add(base.UnixNano(), "same")
		}
		_, l := clients(t, serve(t, s.ServeHTTP))
		q := q
		q.Limit = 2
		if pages, _ := readPages(t, l, q); len(slices.Concat(pages...)) != 9 {
			t.Errorf("pages %q", pages)
		}
	})
}
