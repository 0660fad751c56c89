package evidence

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"failback/gateway/decision"
)

// world is an upstream as it really is, while a step is watched.
type world struct {
	failing float64 // part of the requests
	slow    float64 // factor of the first output
	rps     float64
}

// outcome counts the verdicts of many steps in the same world.
type outcome struct{ passed, failed, held int }

func (o outcome) of(runs int) (pass, fail float64) {
	return float64(o.passed) / float64(runs), float64(o.failed) / float64(runs)
}

// firstOf draws a first output: lognormal, median 700 ms.
func firstOf(r *rand.Rand) time.Duration {
	return time.Duration(float64(700*time.Millisecond) * math.Exp(0.5*r.NormFloat64()))
}

func history(t *testing.T, r *rand.Rand, failing float64) Baseline {
	return baselineOf(t, func(int) Sample {
		if r.Float64() < failing {
			return bad(decision.ServerError)
		}
		return good(firstOf(r))
	})
}

// step watches one, judged every second, until there is a verdict or it took too
// long. It returns the verdict and when it came.
func step(r *rand.Rand, b Baseline, wd world, most time.Duration) (string, time.Duration) {
	w := Window{Share: 5}
	for w.Served < most {
		w.Serve(time.Second)
		changed := false
		for n := poisson(r, wd.rps); n > 0; n-- {
			changed = true
			if r.Float64() < wd.failing {
				w.Add(bad(decision.ServerError))
			} else {
				w.Add(good(time.Duration(float64(firstOf(r)) * wd.slow)))
			}
		}
		if !changed && w.Served != terms.Observe {
			continue // nothing that a verdict depends on has changed
		}
		if v := Judge(w, nil, b, terms, wd.rps); v.Verdict != NoData {
			return v.Verdict, w.Served
		}
	}
	return NoData, w.Served
}

func poisson(r *rand.Rand, mean float64) int {
	n, p, limit := 0, r.Float64(), math.Exp(-mean)
	for p > limit {
		n++
		p *= r.Float64()
	}
	return n
}

func simulate(t *testing.T, seed uint64, runs int, b Baseline, wd world, most time.Duration) (o outcome, median time.Duration) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	var took []time.Duration
	for range runs {
		v, at := step(r, b, wd, most)
		took = append(took, at)
		switch v {
		case Pass:
			o.passed++
		case Fail:
			o.failed++
		default:
			o.held++
		}
	}
	slices.Sort(took)
	t.Logf("failing %.4f, slower %.2f, %.2f/s: %+v, median %s", wd.failing, wd.slow, wd.rps, o, took[len(took)/2])
	return o, took[len(took)/2]
}

// Every second of a step is a look at its evidence. The error of the verdicts
// has to hold for all of them together.
func TestErrorOfAWholeStepOverAllLooks(t *testing.T) {
	const runs = 40
	for _, c := range []struct {
		name     string
		baseline float64
		world    world
		most     time.Duration
		pass     [2]float64 // least and most
		fail     [2]float64
		within   time.Duration // of the median
	}{
		{"as ever", 0.01, world{0.01, 1, 5}, time.Hour, [2]float64{0.9, 1}, [2]float64{0, 0.05}, terms.Observe},
		{"as ever, hardly any errors", 0.0005, world{0.0005, 1, 5}, time.Hour, [2]float64{0.95, 1}, [2]float64{0, 0.05}, terms.Observe},
		{"as ever, ten a minute", 0.0005, world{0.0005, 1, 10. / 60}, 90 * time.Minute, [2]float64{0.9, 1}, [2]float64{0, 0.05}, 4 * terms.Observe},
		{"on the bound", 0.01, world{0.02, 1, 5}, 15 * time.Minute, [2]float64{0, 0.05}, [2]float64{0, 0.05}, time.Hour},
		{"three tolerances worse", 0.01, world{0.04, 1, 5}, time.Hour, [2]float64{0, 0.05}, [2]float64{0.95, 1}, 5 * time.Minute},
		{"three tolerances worse than bad", 0.05, world{0.08, 1, 5}, time.Hour, [2]float64{0, 0.05}, [2]float64{0.95, 1}, 15 * time.Minute},
		{"as bad as ever", 0.05, world{0.05, 1, 5}, 2 * time.Hour, [2]float64{0.9, 1}, [2]float64{0, 0.05}, 30 * time.Minute},
		{"down", 0.01, world{1, 1, 5}, time.Hour, [2]float64{0, 0}, [2]float64{1, 1}, 5 * time.Second},
		{"twice as slow", 0.0005, world{0.0005, 2, 5}, time.Hour, [2]float64{0, 0.05}, [2]float64{0.95, 1}, 2 * time.Minute},
		{"a fifth slower", 0.0005, world{0.0005, 1.2, 5}, time.Hour, [2]float64{0.95, 1}, [2]float64{0, 0.05}, terms.Observe},
		{"no traffic", 0.01, world{0, 1, 0}, time.Hour, [2]float64{0, 0}, [2]float64{0, 0}, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := history(t, rand.New(rand.NewPCG(7, 7)), c.baseline)
			o, median := simulate(t, 11, runs, b, c.world, c.most)
			pass, fail := o.of(runs)
			if pass < c.pass[0] || pass > c.pass[1] {
				t.Errorf("passed %.3f of the steps, not %v", pass, c.pass)
			}
			if fail < c.fail[0] || fail > c.fail[1] {
				t.Errorf("failed %.3f of the steps, not %v", fail, c.fail)
			}
			if median > c.within {
				t.Errorf("half of the verdicts took more than %s, not %s", median, c.within)
			}
		})
	}
}

// The ratio's test itself, at its worst: the truth lies on the bound, and it is
// looked at after every request.
func TestSequentialErrorOnTheBound(t *testing.T) {
	const runs, looks = 500, 800
	for _, bound := range []float64{0.0105, 0.05, 0.2} {
		r := rand.New(rand.NewPCG(3, uint64(bound*1e6)))
		wrongPass, wrongFail := 0, 0
		for range runs {
			k, passed, failed := 0., false, false
			for n := 1.; n <= looks && !passed && !failed; n++ {
				if r.Float64() < bound {
					k++
				}
				passed = keptEvidence(k, n, bound, bound/4) >= passAt
				failed = brokenEvidence(k, n, bound, 0.01) >= failAt
			}
			if passed {
				wrongPass++
			}
			if failed {
				wrongFail++
			}
		}
		t.Logf("bound %.4f: %d wrong passes, %d wrong fails of %d", bound, wrongPass, wrongFail, runs)
		// What is promised, and two standard deviations for chance.
		if most := runs*0.05 + 2*math.Sqrt(runs*0.05*0.95); float64(wrongPass) > most {
			t.Errorf("bound %v: %d of %d passed wrongly", bound, wrongPass, runs)
		}
		if most := runs*0.025 + 2*math.Sqrt(runs*0.025*0.975); float64(wrongFail) > most {
			t.Errorf("bound %v: %d of %d failed wrongly", bound, wrongFail, runs)
		}
	}
}
