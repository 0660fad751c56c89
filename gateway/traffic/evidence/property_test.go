package evidence

import (
	"math/rand/v2"
	"testing"
	"time"

	"failback/gateway/decision"
)

func TestAFailureNeverTurnsFailIntoPass(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	b := usual(t)
	seen := map[string]int{}
	for range 3000 {
		w := served(r.IntN(4000))
		for range r.IntN(4) {
			times(&w, r.IntN(12), bad(decision.Classes[1+r.IntN(16)]))
		}
		for range r.IntN(15) {
			w.Probe("m", r.IntN(8) > 0)
		}
		rate := r.Float64() * 5
		before := Judge(w, nil, b, terms, rate).Verdict
		worse := w.Clone()
		for range 1 + r.IntN(5) {
			worse.Add(bad(decision.Classes[1+r.IntN(16)]))
		}
		after := Judge(worse, nil, b, terms, rate).Verdict
		seen[before+" to "+after]++
		if before == Fail && after != Fail {
			t.Fatalf("a failure made %s of fail: %+v", after, Judge(worse, nil, b, terms, rate).Rows)
		}
	}
	if seen["fail to fail"] < 100 || seen["pass to pass"] < 100 || seen["pass to fail"] == 0 {
		t.Errorf("the cases do not reach all verdicts: %v", seen)
	}
}

// More of everything that is wrong in a window that fails keeps it failing.
func TestTripsAndProbesNeverHelp(t *testing.T) {
	b := usual(t)
	w := served(2000)
	w.Trip()
	for range 20 {
		w.Probe("m", true)
		if v := Judge(w, nil, b, terms, 5).Verdict; v != Fail {
			t.Fatalf("probes made %s of an open breaker", v)
		}
	}
}

// No window passes that has neither MinRequests good requests nor ten passed
// probes.
func TestTRF08NothingPassesWithoutValidPassingSamples(t *testing.T) {
	baselines := map[string]Baseline{
		FromMinutes: usual(t),
		FromSLO:     FromObjective(Objective{Availability: 0.999, Under: 5 * time.Second, Ratio: 0.99}, 12*time.Second),
		FromDefault: FromObjective(Objective{}, 12*time.Second),
	}
	invalid := Sample{OK: true, Class: decision.OK, FirstOutput: time.Second, HasFirstOutput: true}
	unmeasured := Sample{OK: true, Valid: true, Class: decision.OK}
	windows := map[string]struct {
		fill func(*Window)
		none map[string]bool // baselines it may pass with
	}{
		"empty":                     {fill: func(*Window) {}},
		"every measurement invalid": {fill: func(w *Window) { times(w, 10000, invalid) }},
		"mostly invalid, few good":  {fill: func(w *Window) { times(w, 10000, invalid); times(w, 49, good(time.Second)) }},
		"callers' mistakes and ours": {fill: func(w *Window) {
			times(w, 5000, SampleOf(decision.Outcome{Class: decision.InvalidRequest}, true, false))
		}},
		"error, error, over the limit":   {fill: func(w *Window) { times(w, 2, bad(decision.Connect)); w.Add(good(time.Hour)) }},
		"nine probes":                    {fill: func(w *Window) { *w = probed(9); w.Served = terms.Observe * 10 }},
		"ten probes, a request failed":   {fill: func(w *Window) { *w = probed(10); w.Served = terms.Observe * 10; w.Add(bad(decision.TLS)) }},
		"ten probes, not observed":       {fill: func(w *Window) { *w = probed(10); w.Served = terms.Observe - 1 }},
		"first outputs lost, no probe":   {fill: func(w *Window) { times(w, 20000, unmeasured) }},
		"only slow ones, few, no probes": {fill: func(w *Window) { times(w, 60, good(time.Minute)) }},
		"ten probes, few answers, slow":  {fill: func(w *Window) { *w = probed(10); w.Served = terms.Observe * 10; times(w, 3, good(time.Minute)) }},
	}
	for name, c := range windows {
		for source, b := range baselines {
			for _, rate := range []float64{0, 0.01, 5, 1e9, -1} {
				w := Window{Served: 10 * terms.Observe}
				c.fill(&w)
				if v := Judge(w, nil, b, terms, rate); v.Verdict == Pass {
					t.Errorf("%s passes against %s at %v/s: %v", name, source, rate, v.Rows)
				}
			}
		}
	}
	// First outputs that the history had and the window lost are no little traffic.
	w := probed(10)
	w.Served = terms.Observe
	times(&w, 20000, unmeasured)
	if v := Judge(w, nil, baselines[FromMinutes], terms, 30); v.Verdict != NoData {
		t.Errorf("lost measurements are %s: %v", v.Verdict, v.Rows)
	}
	// And the same with everything measured passes: the gate is not just shut.
	if v := Judge(served(2000), nil, baselines[FromMinutes], terms, 3); v.Verdict != Pass {
		t.Errorf("a good window is %s: %v", v.Verdict, v.Rows)
	}
}
