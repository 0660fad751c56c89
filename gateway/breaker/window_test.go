package breaker

import (
	"math/rand/v2"
	"testing"
	"time"

	"failback/gateway/decision"
)

// The ring against a list of all that happened.
func TestWindowAgainstAList(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		length := time.Duration(1+rnd.IntN(60)) * time.Second
		var w window
		w.resize(length)
		type event struct {
			at   time.Duration
			what int
		}
		var all []event
		now := 24 * time.Hour
		for range 2000 {
			now += time.Duration(rnd.ExpFloat64() * float64(length) / 50)
			if rnd.IntN(200) == 0 {
				now += time.Duration(rnd.IntN(3)) * length
			}
			e := event{now, rnd.IntN(5)}
			all = append(all, e)
			switch e.what {
			case 0:
				w.addOK(now)
			case 1:
				w.addFailed(now, decision.Connect)
			case 2:
				w.addLimited(now)
			default:
				w.addPace(now, e.what == 3)
			}
			var young, old [5]uint32
			for _, e := range all {
				if now-e.at < length {
					young[e.what]++ // may be in it
				}
				if now-e.at < length-w.width {
					old[e.what]++ // must be in it
				}
			}
			got := [5]uint32{w.sum.ok, w.sum.failed, w.sum.limited, w.sum.slow, w.sum.fast}
			for i := range got {
				if got[i] > young[i] || got[i] < old[i] {
					t.Fatalf("seed %d: kind %d: %d, want %d to %d", seed, i, got[i], old[i], young[i])
				}
			}
			if w.sum.classes[0] != w.sum.failed {
				t.Fatalf("seed %d: classes do not add up", seed)
			}
		}
	}
}

func TestRate(t *testing.T) {
	var r rate
	now := 24*time.Hour + 300*time.Millisecond
	if r.perSecond(now) != 0 {
		t.Error("not 0")
	}
	for range 20 * 60 { // sixty a second, evenly, also across the seconds
		r.add(now)
		now += time.Second / 60
	}
	if got := r.perSecond(now); got < 59 || got > 61 {
		t.Errorf("%v", got)
	}
	now += 5 * time.Second
	if got := r.perSecond(now); got < 29 || got > 31 {
		t.Errorf("after 5 s of nothing: %v", got)
	}
	now += 6 * time.Second
	if got := r.perSecond(now); got != 0 {
		t.Errorf("after 11 s of nothing: %v", got)
	}
	r.add(now + time.Hour)
	if r.first != now+time.Hour || r.sum != 1 {
		t.Errorf("first %v, sum %d", r.first, r.sum)
	}
}

func TestClassCounts(t *testing.T) {
	var c classCounts
	if c.String() != "" {
		t.Error("not empty")
	}
	c.add(decision.Reset)
	c.add(decision.Overloaded)
	c.add(decision.Overloaded)
	c.add(decision.OK) // not one of them
	if got := c.String(); got != "overloaded x2, reset x1" {
		t.Error(got)
	}
}
