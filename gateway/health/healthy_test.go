package health

import (
	"testing"
	"time"

	"failback/gateway/decision"
)

func TestHealthyTurnsSuspectAtOnce(t *testing.T) {
	for _, c := range []struct {
		name                   string
		traffic, probe, expiry Colour
		want                   State
		reason                 string
	}{
		{"all green", Green, Green, Green, Healthy, ""},
		{"all unknown", Unknown, Unknown, Unknown, Healthy, ""},
		{"traffic", Red, Green, Green, Suspect, SignalErrorRate},
		{"probe", Unknown, Red, Unknown, Suspect, SignalProbe},
		{"expiry", Green, Green, Red, Suspect, SignalCertificate},
		{"two", Green, Red, Red, Suspect, SignalProbe},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := start(t).colours(c.traffic, c.probe, c.expiry).step(1).is(c.want, Stay)
			if c.reason == "" {
				if o.trans != nil {
					t.Fatalf("told %v", o.trans)
				}
				return
			}
			if o.trans == nil || o.trans.From != Healthy || o.trans.To != Suspect || o.trans.Reason != c.reason || !o.trans.At.Equal(o.now) {
				t.Fatalf("told %+v", o.trans)
			}
			e := o.trans.Event("a", "eu")
			if e.Kind != decision.KindHealthTransition || e.Provider != "a" || e.Region != "eu" || e.From != "healthy" || e.To != "suspect" || e.By != "auto" {
				t.Fatalf("event %+v", e)
			}
			if o.step(time.Second); o.trans != nil {
				t.Fatal("told twice")
			}
		})
	}
}

// A gateway that starts while an upstream is ill suspects it, and says so.
func TestFirstStepMaySuspect(t *testing.T) {
	var m Machine
	if s := m.Explain(); s != "not judged yet" {
		t.Fatal(s)
	}
	state, w, tr := m.Step(time.Now(), Facts{Settings: settings, Signals: signals(Red, Red, Red)})
	if state != Suspect || w.Move != Stay || tr == nil || tr.From != Healthy {
		t.Fatal(state, w, tr)
	}
}

func TestHealthyExplains(t *testing.T) {
	o := start(t)
	o.says("every signal is green")
	o.colours(Green, Unknown, Unknown).step(1).says("1 of 3 signals green, the others unknown")
	o.colours(Unknown, Unknown, Unknown).step(1).says("as far as anybody knows: no signal has anything to go by")
}

func TestSignalsKeepTheTimeOfTheirColour(t *testing.T) {
	o := start(t)
	first := o.now
	o.colours(Green, Red, Green).step(time.Second)
	turned := o.now
	o.step(time.Second)
	l := o.m.Signals()
	if len(l) != 3 || !l[0].Since.Equal(first) || !l[1].Since.Equal(turned) || !l[2].Since.Equal(first) {
		t.Fatalf("%v", l)
	}
	l[0].Colour = Red
	if o.m.Signals()[0].Colour != Green {
		t.Fatal("what Signals returned is the machine's own")
	}
	if !o.f.Signals[0].Since.IsZero() {
		t.Fatal("the facts were written to")
	}
}
