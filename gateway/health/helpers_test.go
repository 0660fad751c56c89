package health

import (
	"math/rand/v2"
	"testing"
	"time"
)

var settings = Settings{
	SuspectWindow: time.Minute, RecoveryWindow: 2 * time.Minute, ErrorRate: 0.2, MinTraffic: 20,
	ExpiryMargin: 168 * time.Hour, ProbeMaxAge: 5 * time.Minute, Window: 30 * time.Second,
}

// signals returns one signal per group, of the given colours.
func signals(traffic, probe, expiry Colour) []Signal {
	return []Signal{
		{Group: Traffic, Name: SignalErrorRate, Colour: traffic, Value: "12/20 failed"},
		{Group: Probes, Name: SignalProbe, Colour: probe, Value: "2 of 2 failed: text connect"},
		{Group: Expiry, Name: SignalCertificate, Colour: expiry, Value: "expired 1h0m ago"},
	}
}

// one is a machine under test with the facts it is told.
type one struct {
	t     *testing.T
	m     Machine
	f     Facts
	now   time.Time
	state State
	wish  Wish
	trans *Transition
}

func start(t *testing.T) *one {
	o := &one{t: t, now: time.Now()}
	o.f = Facts{Settings: settings, Upstream: "a", Share: full, OtherAdmits: true, Signals: signals(Green, Green, Green)}
	o.step(0)
	return o
}

// step lets d pass and judges.
func (o *one) step(d time.Duration) *one {
	o.now = o.now.Add(d)
	o.state, o.wish, o.trans = o.m.Step(o.now, o.f)
	return o
}

// run judges every second for d, which ends it exactly.
func (o *one) run(d time.Duration) *one {
	for ; d > time.Second; d -= time.Second {
		o.step(time.Second)
	}
	return o.step(d)
}

func (o *one) colours(traffic, probe, expiry Colour) *one {
	o.f.Signals = signals(traffic, probe, expiry)
	return o
}

func (o *one) is(state State, move Move) *one {
	o.t.Helper()
	if o.state != state || o.wish.Move != move {
		o.t.Fatalf("%s, %v; want %s, %v (%s)", o.state, o.wish, state, move, o.m.Explain())
	}
	return o
}

// says checks the explanation.
func (o *one) says(want string) *one {
	o.t.Helper()
	if got := o.m.Explain(); got != want {
		o.t.Fatalf("it says\n%q, want\n%q", got, want)
	}
	return o
}

// random returns chance of a seed that a failing test names.
func random(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}
