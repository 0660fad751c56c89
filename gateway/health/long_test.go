package health

import (
	"math/rand/v2"
	"testing"
	"time"

	"failback/gateway/decision"
)

// pattern is half an hour of one upstream, second by second.
type pattern struct {
	rps float64
	// fails is the part of the requests that fail in second s, probe whether a
	// probe would.
	fails func(s int) float64
	probe func(s int) bool
	// shared says that a shared fault is found then.
	shared func(s int) bool
	// opens is how often its breaker opens in that second.
	opens func(s int) int
}

// live runs p and returns when and why it was to be degraded, 0 if it never was.
func (p pattern) live(seed uint64) (after time.Duration, reason string, suspected int) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	var (
		m      Machine
		window [30][2]int
		facts  = Facts{Settings: settings, Upstream: "a", Share: full, OtherAdmits: true}
		began  = time.Now()
		probed = -1 << 20
		result decision.Class
		at     time.Time
		last   time.Time
		owed   float64
		state  State
	)
	for s := range 30 * 60 {
		now := began.Add(time.Duration(s) * time.Second)
		slot := &window[s%len(window)]
		*slot = [2]int{}
		for owed += p.rps; owed >= 1; owed-- {
			last = now
			if rnd.Float64() < p.fails(s) {
				slot[1]++
			} else {
				slot[0]++
			}
		}
		every := 90
		if Hurry(state, facts.Signals) {
			every = 15
		}
		if s-probed >= every {
			probed, at, result = s, now, decision.OK
			if p.probe != nil && p.probe(s) {
				result = decision.Connect
			}
		}
		ms := Measures{LastAttempt: last, Probes: []ProbeResult{{Model: "m", Capability: decision.Text, Class: result, At: at}}}
		for _, w := range window {
			ms.OK, ms.Failed = ms.OK+w[0], ms.Failed+w[1]
		}
		if p.opens != nil {
			for range p.opens(s) {
				facts.Openings.Count(decision.Text)
			}
		}
		facts.Signals = Signals(now, ms, settings)
		facts.SharedFault = p.shared != nil && p.shared(s)
		var w Wish
		var tr *Transition
		state, w, tr = m.Step(now, facts)
		if tr != nil && tr.To == Suspect {
			suspected++
		}
		if w.Move == Degrade {
			return time.Duration(s) * time.Second, w.Reason, suspected
		}
	}
	return 0, "", suspected
}

func always(x float64) func(int) float64 { return func(int) float64 { return x } }

func TestHalfAnHourOf(t *testing.T) {
	outage := func(from, to int) (func(int) float64, func(int) bool) {
		in := func(s int) bool { return s >= from && s < to }
		return func(s int) float64 {
			if in(s) {
				return 1
			}
			return 0
		}, in
	}
	long, longProbe := outage(300, 1800)
	brief, briefProbe := outage(300, 345)
	waves := func(s int) float64 {
		if s%120 < 20 {
			return 1
		}
		return 0
	}
	for _, c := range []struct {
		name     string
		p        pattern
		min, max time.Duration // within which it is degraded; 0: never
		reason   string
	}{
		{"22 % errors", pattern{rps: 60, fails: always(0.22)}, OneGroupWindow, 25 * time.Minute, ReasonOneGroup},
		{"22 % errors of much traffic", pattern{rps: 500, fails: always(0.22)}, OneGroupWindow, OneGroupWindow + 30*time.Second, ReasonOneGroup},
		{"15 % errors", pattern{rps: 60, fails: always(0.15)}, 0, 0, ""},
		{"an outage", pattern{rps: 60, fails: long, probe: longProbe}, 360 * time.Second, 480 * time.Second, ReasonTwoGroups},
		{"an outage that probes do not see", pattern{rps: 60, fails: long}, 600 * time.Second, 620 * time.Second, ReasonOneGroup},
		{"an outage that is over before the window", pattern{rps: 60, fails: brief, probe: briefProbe}, 0, 0, ""},
		{"an outage at three requests a minute", pattern{rps: 0.05, fails: long, probe: longProbe}, 600 * time.Second, 700 * time.Second, ReasonOneGroup},
		{"an outage without requests", pattern{fails: long, probe: longProbe}, 600 * time.Second, 700 * time.Second, ReasonOneGroup},
		{"failures at three requests a minute that probes do not see", pattern{rps: 0.05, fails: long}, 0, 0, ""},
		{"waves of 20 s", pattern{rps: 60, fails: waves}, 0, 0, ""},
		{"waves that open its breaker", pattern{rps: 60, fails: waves, opens: func(s int) int {
			if s%120 == 2 {
				return 1
			}
			return 0
		}}, 242 * time.Second, 246 * time.Second, ReasonOpenings},
		{"a shared fault", pattern{rps: 60, fails: long, probe: longProbe, shared: func(s int) bool { return s >= 302 }}, 0, 0, ""},
		{"a shared fault that leaves a wreck", pattern{rps: 60, fails: long, probe: longProbe, shared: func(s int) bool { return s >= 302 && s < 1000 }},
			1059 * time.Second, 1075 * time.Second, ReasonTwoGroups},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(5) {
				after, reason, suspected := c.p.live(seed)
				if after < c.min || after > c.max || reason != c.reason {
					t.Errorf("seed %d: degraded after %v by %q, want %v to %v by %q", seed, after, reason, c.min, c.max, c.reason)
				}
				if c.max > 0 && suspected == 0 {
					t.Errorf("seed %d: degraded without suspicion", seed)
				}
			}
		})
	}
	if _, _, suspected := (pattern{rps: 60, fails: brief, probe: briefProbe}).live(1); suspected != 1 {
		t.Errorf("a brief outage: suspected %d times, want once", suspected)
	}
}
