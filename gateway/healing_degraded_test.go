package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// A primary that fails more than health.error_rate of its requests is taken out
// of the traffic by rule, one that fails less never is: nobody sees either.
// Where the other one is as good, requests leave the primary for its weight
// before that; then too a low rate never degrades.
func TestAPartlyFailingPrimary(t *testing.T) {
	for _, how := range []struct {
		part    float64
		weight  int // of B
		rate    float64
		lasts   time.Duration
		removed bool
	}{
		{0.15, 10, 5, 30 * time.Minute, false},
		{0.15, 90, 5, 30 * time.Minute, false},
		{0.22, 10, 10, 20 * time.Minute, true},
		{0.6, 90, 5, 15 * time.Minute, true},
		{1, 90, 5, 5 * time.Minute, true},
	} {
		if testing.Short() && how.lasts > 15*time.Minute {
			continue
		}
		t.Run(fmt.Sprintf("%g_%d", how.part, how.weight), func(t *testing.T) {
			models := fmt.Sprintf("  m: {candidates: [{upstream: A, model: x, capabilities: [text]}, {upstream: B, model: x, weight: %d, capabilities: [text]}]}\n", how.weight)
			inWard(t, illness{rate: how.rate, models: models}, func(w *ward) {
				w.passes(2 * time.Minute)
				ill := w.now()
				w.up["A"].plays(w.sick(how.part, 500))
				w.passes(how.lasts)
				if f := failedPart(w.since(0)); f > 0.001 {
					t.Errorf("%.2f %% of the clients saw a failure", 100*f)
				}
				steps := w.events.of(decision.KindTrafficStep, "")
				changes := w.transitions("A")
				if l := w.transitions("B"); len(l) > 0 {
					t.Errorf("B: %v", l)
				}
				if !how.removed {
					if len(steps) > 0 {
						t.Errorf("moved: %v", steps)
					}
					// By chance it is looked at now and then, which costs nothing.
					if len(changes) > 40 {
						t.Errorf("%d transitions", len(changes))
					}
					return
				}
				if u := w.upstream("A"); u.Health != api.Degraded || len(steps) != 1 || steps[0].By != "auto" {
					t.Fatalf("not degraded once:\n%s", w.tell())
				}
				at := steps[0].Time.Sub(w.began)
				t.Logf("degraded after %s: %s", at-ill, steps[0].Detail)
				if at-ill > 19*time.Minute {
					t.Errorf("degraded after %s", at-ill)
				}
				if n := w.clientsOf("A", at+time.Second); n > 0 {
					t.Errorf("%d clients' requests reached it after that", n)
				}
			})
		})
	}
}

// degraded makes a machine-degraded A of two candidates.
func (w *ward) degrades(name string) {
	w.Helper()
	w.up[name].plays(status(500, hostErrorBody))
	w.until(name+" is degraded", 10*time.Minute, is(name, api.Degraded))
}

// While the machine has degraded the primary and its probes pass again, it
// takes what nobody else takes, through the ramp; what an operator took away
// stays away.
func TestTheFallbackDiesWhileThePrimaryIsDegraded(t *testing.T) {
	for _, by := range []string{"auto", "ann"} {
		t.Run(by, func(t *testing.T) {
			inWard(t, illness{rate: 10}, func(w *ward) {
				w.passes(time.Minute)
				if by == "auto" {
					w.degrades("A")
				} else if err := w.command("A", by, api.Command{State: api.Degraded, Reason: "drill"}); err != nil {
					t.Fatal(err)
				}
				w.up["A"].plays(ok)
				w.until("the probes of A pass", 15*time.Minute, passed("A"))
				w.passes(5 * time.Second)
				down := w.now()
				w.up["B"].plays(status(503, hostErrorBody))
				w.passes(3 * time.Minute)
				settled := w.since(down + 30*time.Second)
				if by != "auto" {
					if n := w.clientsOf("A", down); n > 0 {
						t.Errorf("%d requests reached what an operator degraded", n)
					}
					silent := 0 // of those that B refused itself, as a probe of its breaker
					for _, e := range settled {
						if e.retryAfter == "" {
							silent++
						}
						if e.status != 503 {
							t.Fatalf("%+v\n%s", e, w.tell())
						}
					}
					if n := w.clientsOf("B", down+30*time.Second); silent > n {
						t.Errorf("%d of %d were not told when to come again; %d reached B", silent, len(settled), n)
					}
					return
				}
				if f := failedPart(settled); f > 0.01 {
					t.Errorf("%.1f %% failed\n%s", 100*f, w.tell())
				}
				over := 0
				for _, e := range settled {
					if e.ok() && e.upstream == "A" && e.reason == string(decision.Overflow) {
						over++
					}
				}
				if float64(over) < 0.95*float64(len(settled)) {
					t.Errorf("%d of %d overflowed: %+v", over, len(settled), settled[:3])
				}
				if u := w.upstream("A"); u.Health != api.Degraded || u.Share != 0 {
					t.Errorf("A is %s at %d%%", u.Health, u.Share)
				}
				if u := w.upstream("B"); u.Health == api.Degraded {
					t.Errorf("the last candidate was degraded:\n%s", w.tell())
				}
				// What overflowed is no evidence, and the way back is as ever.
				w.up["B"].plays(ok)
				w.passes(2 * time.Minute)
				if err := w.share("A", "ann", 25); err != nil {
					t.Fatal(err)
				}
				w.passes(2 * time.Second)
				if e := w.upstream("A").Evidence; e == nil || e.Requests > 60 {
					t.Errorf("evidence: %+v", e)
				}
			})
		})
	}
}

// Nobody but the breaker guards whom nobody else could stand in for.
func TestASingleCandidateIsNeverDegraded(t *testing.T) {
	inWard(t, illness{names: []string{"A"}}, func(w *ward) {
		w.passes(time.Minute)
		w.up["A"].plays(status(500, hostErrorBody))
		w.passes(20 * time.Minute)
		if l := w.events.of(decision.KindTrafficStep, ""); len(l) > 0 {
			t.Errorf("%v", l)
		}
		if u := w.upstream("A"); u.Health != api.Suspect || !strings.Contains(u.HealthReason, "nobody else could serve") {
			t.Errorf("%s: %s", u.Health, u.HealthReason)
		}
		if w.bucket("A:text").State == "closed" {
			t.Error("the breaker is closed")
		}
		w.up["A"].plays(ok)
		w.until("A is healthy", 5*time.Minute, is("A", api.Healthy))
		back := w.now()
		w.passes(10 * time.Second)
		if f := failedPart(w.since(back)); f > 0 {
			t.Errorf("%g failed", f)
		}
	})
}

// An upstream that is primary of nothing has no requests of its own: ten probes
// are its evidence, and its steps are one.
func TestASpareComesBackByProbes(t *testing.T) {
	inWard(t, illness{upstreams: map[string]string{"B": ", probe: {every: 10s}"}}, func(w *ward) {
		w.passes(time.Minute)
		w.degrades("B")
		if f := failedPart(w.since(0)); f > 0 {
			t.Errorf("%g failed", f)
		}
		w.up["B"].plays(ok)
		w.stepsUp("B", 10*time.Minute)
		u := w.upstream("B")
		if u.Share != 100 || u.Health != api.Recovering {
			t.Fatalf("%s at %d%%", u.Health, u.Share)
		}
		w.passes(5 * time.Second)
		e := w.upstream("B").Evidence
		if e == nil || e.Verdict != "no data" {
			t.Fatalf("%+v", e)
		}
		w.until("its evidence passes", 5*time.Minute, func(s api.State) bool {
			e := of(s, "B").Evidence
			return e == nil || e.Verdict == "pass"
		})
		w.until("B is healthy", 5*time.Minute, is("B", api.Healthy))
	})
}
