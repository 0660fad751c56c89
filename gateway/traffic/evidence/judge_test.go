package evidence

import (
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
)

var terms = Terms{MinRequests: 50, SuccessTolerance: 0.01, FirstOutputTolerance: 1.5, Observe: 10 * time.Minute}

func good(first time.Duration) Sample {
	return Sample{OK: true, Valid: true, Class: decision.OK, FirstOutput: first, HasFirstOutput: true}
}

func bad(c decision.Class) Sample { return Sample{Valid: true, Class: c} }

func times(w *Window, n int, s Sample) {
	for range n {
		w.Add(s)
	}
}

// usual is a history: 0.05 % server errors, first outputs from 500 ms to 1 s.
func usual(t testing.TB) Baseline {
	t.Helper()
	return baselineOf(t, func(i int) Sample {
		if i%2000 == 0 {
			return bad(decision.ServerError)
		}
		return good(500*time.Millisecond + time.Duration(i%100)*5*time.Millisecond)
	})
}

// baselineOf makes a history of 100 minutes with 100 requests each.
func baselineOf(t testing.TB, sample func(i int) Sample) Baseline {
	t.Helper()
	var h History
	now := time.Now()
	for m := range 100 {
		for i := range 100 {
			h.Add(sample(m*100+i), true, now)
		}
		now = now.Add(time.Minute)
	}
	h.Tick(true, now)
	b, ok := fromHistory(&h, now)
	if !ok {
		t.Fatal("10 000 requests in 100 minutes are no baseline")
	}
	return b
}

// served is a window of a step that was observed for long enough.
func served(n int) Window {
	w := Window{Share: 5, Served: terms.Observe}
	times(&w, n, good(700*time.Millisecond))
	return w
}

func row(t *testing.T, v Verdict, name string) Row {
	t.Helper()
	i := slices.IndexFunc(v.Rows, func(r Row) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("no row %s in %v", name, v.Rows)
	}
	return v.Rows[i]
}

func TestJudge(t *testing.T) {
	b := usual(t)
	window := func(change func(*Window)) Window {
		w := served(2000)
		change(&w)
		return w
	}
	for _, c := range []struct {
		name    string
		w       Window
		terms   Terms
		earlier []Window
		want    string
		row     string // that decides
		text    string
	}{
		{name: "all is well", w: served(2000), want: Pass, row: RowSuccess, text: "100% of 2000, at least 98.95% asked"},
		{name: "not observed yet", w: window(func(w *Window) { w.Served -= time.Nanosecond }), want: NoData, row: RowWindow, text: "10m of 10m"},
		{name: "one request too few", w: served(49), want: NoData, row: RowRequests, text: "49, at least 50 asked"},
		{name: "enough requests, not enough to be sure", w: served(50), want: NoData, row: RowSuccess, text: "sure after"},
		{name: "many failures", w: window(func(w *Window) { times(w, 100, bad(decision.ServerError)) }), want: Fail, row: RowSuccess, text: "95.24% of 2100"},
		{name: "fails before it was observed", w: window(func(w *Window) { w.Served = time.Second; times(w, 100, bad(decision.ServerError)) }), want: Fail, row: RowSuccess},
		{name: "four failures of four are one event", w: window(func(w *Window) { *w = Window{Share: 5}; times(w, 4, bad(decision.ServerError)) }), want: NoData, row: RowSuccess},
		{name: "five of five fail", w: window(func(w *Window) { *w = Window{Share: 5}; times(w, 5, bad(decision.ServerError)) }), want: Fail, row: RowSuccess},
		{name: "new class, four", w: window(func(w *Window) { times(w, 4, bad(decision.RateLimited)) }), want: Pass, row: RowClasses},
		{name: "new class, five", w: window(func(w *Window) { times(w, 5, bad(decision.RateLimited)) }), want: Fail, row: RowClasses, text: "rate_limited is new: 5 of 2005"},
		{name: "new class, five of 2500", w: window(func(w *Window) { *w = served(2495); times(w, 5, bad(decision.Credential)) }), want: Fail, row: RowClasses},
		{name: "new class, five of 2501", w: window(func(w *Window) { *w = served(2496); times(w, 5, bad(decision.Credential)) }), want: Pass, row: RowClasses},
		{name: "usual class, five", w: window(func(w *Window) { times(w, 5, bad(decision.ServerError)) }), want: Pass, row: RowClasses},
		{name: "class of an earlier step", w: window(func(w *Window) { times(w, 5, bad(decision.RateLimited)) }),
			earlier: []Window{window(func(w *Window) { w.Add(bad(decision.RateLimited)) })}, want: Pass, row: RowClasses},
		{name: "breaker", w: window((*Window).Trip), want: Fail, row: RowBreaker, text: "opened once"},
		{name: "two failed probes in a row", w: window(func(w *Window) { w.Probe("m/text", false); w.Probe("m/text", false); w.Probe("m/text", true) }), want: Fail, row: RowProbes},
		{name: "failed probes of two candidates", w: window(func(w *Window) { w.Probe("m/text", false); w.Probe("m/tools", false) }), want: Pass, row: RowProbes},
		{name: "failed probes apart", w: window(func(w *Window) { w.Probe("m/text", false); w.Probe("m/text", true); w.Probe("m/text", false) }), want: Pass, row: RowProbes},
		{name: "failing candidate among passing ones", w: window(func(w *Window) { w.Probe("a", false); w.Probe("b", true); w.Probe("a", false) }), want: Fail, row: RowProbes},
		{name: "twice as slow", w: window(func(w *Window) { *w = Window{Served: terms.Observe}; slower(w, 2000, 2) }), want: Fail, row: RowFirstOutput},
		{name: "a little slower", w: window(func(w *Window) { *w = Window{Served: terms.Observe}; slower(w, 2000, 1.2) }), want: Pass, row: RowFirstOutput},
		{name: "primary of nothing, nine probes", w: probed(9), terms: Terms{MinRequests: 50, PrimaryOfNothing: true}, want: NoData, row: RowProbes, text: "10 passed ones asked"},
		{name: "primary of nothing, ten probes", w: probed(10), terms: Terms{MinRequests: 50, PrimaryOfNothing: true}, want: Pass, row: RowProbes},
		{name: "nothing at all", w: Window{Served: 100 * time.Hour}, want: NoData, row: RowRequests, text: "0 of 10 probes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.terms == (Terms{}) {
				c.terms = terms
			}
			v := Judge(c.w, c.earlier, b, c.terms, 5)
			if strings.HasPrefix(c.name, "nothing") {
				v = Judge(c.w, c.earlier, b, c.terms, 0)
			}
			if v.Verdict != c.want {
				t.Errorf("verdict is %s, not %s: %v", v.Verdict, c.want, v.Rows)
			}
			if r := row(t, v, c.row); r.Verdict != c.want || !strings.Contains(r.Text, c.text) {
				t.Errorf("row is %+v, not %s with %q", r, c.want, c.text)
			}
		})
	}
}

// slower adds n requests that are as the history but for the factor.
func slower(w *Window, n int, factor float64) {
	for i := range n {
		d := 500*time.Millisecond + time.Duration(i*7%100)*5*time.Millisecond
		w.Add(good(time.Duration(float64(d) * factor)))
	}
}

func probed(n int) Window {
	var w Window
	for range n {
		w.Probe("m/text", true)
	}
	return w
}

func TestRowsAreAllThereInOrder(t *testing.T) {
	want := []string{RowWindow, RowRequests, RowSuccess, RowFirstOutput, RowClasses, RowBreaker, RowProbes}
	for _, v := range []Verdict{
		Judge(Window{}, nil, FromObjective(Objective{}, 12*time.Second), Terms{}, 0),
		Judge(served(2000), nil, usual(t), terms, 1),
		Judge(Window{}, nil, usual(t), Terms{PrimaryOfNothing: true}, 1),
	} {
		var got []string
		for _, r := range v.Rows {
			got = append(got, r.Name)
			if r.Text == "" {
				t.Errorf("row %s says nothing", r.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("rows are %v, not %v", got, want)
		}
	}
}
