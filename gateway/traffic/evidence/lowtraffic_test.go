package evidence

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
)

// quiet is a step with n good requests and so many passed probes, served for a
// time.
func quiet(n, probes int, served time.Duration) Window {
	w := probed(probes)
	w.Served = served
	times(&w, n, good(700*time.Millisecond))
	return w
}

func TestProbesStandInWhereTooFewRequestsCome(t *testing.T) {
	b := usual(t)
	for _, c := range []struct {
		name string
		w    Window
		rate float64
		want string
	}{
		{"none, ten probes", quiet(0, 10, terms.Observe), 0, Pass},
		{"none, nine probes", quiet(0, 9, terms.Observe), 0, NoData},
		{"one a minute, ten probes", quiet(10, 10, terms.Observe), 1. / 60, Pass},
		{"one a minute, not observed", quiet(10, 10, terms.Observe-1), 1. / 60, NoData},
		{"ten a minute: they come in time", quiet(100, 10, terms.Observe), 10. / 60, NoData},
		{"ten a minute, in a pause", quiet(100, 10, terms.Observe), 0, NoData},
		{"one a minute, just now many", quiet(10, 10, terms.Observe), 1, NoData},
	} {
		v := Judge(c.w, nil, b, terms, c.rate)
		if v.Verdict != c.want {
			t.Errorf("%s: %s, not %s: %v", c.name, v.Verdict, c.want, v.Rows)
		}
		if c.want == Pass && !strings.Contains(row(t, v, RowRequests).Text, "stand in") {
			t.Errorf("%s: the row does not say that probes stand in: %v", c.name, v.Rows)
		}
	}
	w := quiet(10, 30, terms.Observe)
	w.Add(bad(decision.ServerError))
	if v := Judge(w, nil, b, terms, 0); v.Verdict != NoData {
		t.Errorf("with a failed request: %s", v.Verdict)
	}
	w = quiet(10, 30, terms.Observe)
	w.Probe("other", false)
	if v := Judge(w, nil, b, terms, 0); v.Verdict != NoData {
		t.Errorf("with the last probe of a candidate failed: %s", v.Verdict)
	}
	w.Probe("other", true)
	if v := Judge(w, nil, b, terms, 0); v.Verdict != Pass {
		t.Errorf("when it passed again: %s", v.Verdict)
	}
}

// An upstream of which nothing streams can come back.
func TestNothingStreams(t *testing.T) {
	unary := Sample{OK: true, Valid: true, Class: decision.OK}
	w := Window{Served: terms.Observe}
	times(&w, 2000, unary)
	b := baselineOf(t, func(int) Sample { return unary })
	if b.HasFirstOutput {
		t.Fatal("a history without first outputs has one")
	}
	if v := Judge(w, nil, b, terms, 3); v.Verdict != Pass {
		t.Errorf("%s: %v", v.Verdict, v.Rows)
	}
	// Without a history nobody knows that; probes settle it.
	b = FromObjective(Objective{}, 12*time.Second)
	if v := Judge(w, nil, b, terms, 3); v.Verdict != NoData {
		t.Errorf("%s: %v", v.Verdict, v.Rows)
	}
	for range standInProbes {
		w.Probe("m", true)
	}
	if v := Judge(w, nil, b, terms, 3); v.Verdict != Pass {
		t.Errorf("%s: %v", v.Verdict, v.Rows)
	}
}

func TestEstimate(t *testing.T) {
	b := usual(t)
	// What comes in the estimated time is enough, and far less is not. The
	// estimate reckons with the usual failures, of which none come here.
	for _, n := range []int{0, 60, 100, 200} {
		v := Judge(served(n), nil, b, terms, 1)
		if v.Verdict != NoData || v.EnoughIn <= 0 {
			t.Fatalf("%d requests: %s in %s", n, v.Verdict, v.EnoughIn)
		}
		come := int(v.EnoughIn.Seconds())
		if early := Judge(served(n+come*6/10), nil, b, terms, 1); early.Verdict != NoData {
			t.Errorf("%d requests: %s long before %s", n, early.Verdict, v.EnoughIn)
		}
		if then := Judge(served(n+come), nil, b, terms, 1); then.Verdict != Pass || then.EnoughIn != 0 {
			t.Errorf("%d requests: %s after %s, %s more", n, then.Verdict, v.EnoughIn, then.EnoughIn)
		}
	}
	for _, c := range []struct {
		name string
		w    Window
		t    Terms
		rate float64
		want time.Duration
	}{
		{"only time lacks", func() Window { w := served(2000); w.Served -= 90 * time.Second; return w }(), terms, 5, 90 * time.Second},
		{"nobody can tell", Window{Served: time.Minute}, terms, 0, 0},
		{"probes lack", quiet(0, 8, 40*time.Minute), terms, 0, 10 * time.Minute},
		{"probes alone are asked", quiet(0, 5, 5*time.Minute), Terms{PrimaryOfNothing: true}, 0, 5 * time.Minute},
		{"fails", func() Window { w := served(2000); w.Trip(); return w }(), terms, 5, 0},
	} {
		if got := Judge(c.w, nil, b, c.t, c.rate).EnoughIn; got != c.want {
			t.Errorf("%s: %s, not %s", c.name, got, c.want)
		}
	}
}

func TestTolerancesAtTheirEnds(t *testing.T) {
	b := usual(t)
	for _, c := range []struct {
		success, first float64
		want           string
	}{
		{1, 1000, Pass},  // everything is borne
		{0, 1.5, NoData}, // at least as good as ever can hardly be shown
	} {
		tt := terms
		tt.SuccessTolerance, tt.FirstOutputTolerance = c.success, c.first
		if v := Judge(served(2000), nil, b, tt, 5); v.Verdict != c.want {
			t.Errorf("%v: %s, not %s: %v", c, v.Verdict, c.want, v.Rows)
		}
	}
	flawless := baselineOf(t, func(int) Sample { return good(time.Second) })
	tt := terms
	tt.SuccessTolerance = 0
	w := served(2000)
	if v := Judge(w, nil, flawless, tt, 5); v.Verdict != NoData {
		t.Errorf("flawless as ever, no tolerance: %s", v.Verdict)
	}
	times(&w, fewestFailures, bad(decision.TLS))
	if v := Judge(w, nil, flawless, tt, 5); v.Verdict != Fail {
		t.Errorf("worse than flawless, no tolerance: %s", v.Verdict)
	}
}

func TestTextForPeople(t *testing.T) {
	for r, want := range map[float64]string{1: "100%", 0.991: "99.1%", 0.9895: "98.95%", 0.999999: ">99.99%", 0: "0%", -0.5: "0%"} {
		if got := percent(r); got != want {
			t.Errorf("%v is %s, not %s", r, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		820 * time.Millisecond: "820ms", 1830 * time.Millisecond: "1.8s", 42 * time.Second: "42s",
		10 * time.Minute: "10m", 90 * time.Second: "1m30s", 0: "0s",
	} {
		if got := span(d); got != want {
			t.Errorf("%d is %s, not %s", d, got, want)
		}
	}
}
