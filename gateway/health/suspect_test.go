package health

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
)

func TestSuspectClearsAfterTenSeconds(t *testing.T) {
	o := start(t).colours(Red, Green, Green).step(1).is(Suspect, Stay)
	o.colours(Unknown, Green, Green).step(time.Second).is(Suspect, Stay) // unknown is clear
	o.says("nothing red for 0s; healthy again in 10s if that lasts")
	o.step(ClearFor-1).is(Suspect, Stay)
	o.step(1).is(Healthy, Stay)
	if o.trans == nil || o.trans.From != Suspect || o.trans.To != Healthy || o.trans.Reason != ReasonClear {
		t.Fatalf("told %+v", o.trans)
	}
}

func TestTwoGroupsDegradeAfterTheWindow(t *testing.T) {
	for _, w := range []time.Duration{time.Second, time.Minute, 17 * time.Minute / 10} {
		o := start(t)
		o.f.Settings.SuspectWindow = w
		o.colours(Red, Red, Green).step(1)
		o.run(w-1).is(Suspect, Stay)
		o.step(1).is(Suspect, Degrade)
		if o.wish.Reason != ReasonTwoGroups || !o.wish.New || o.wish.Would || !strings.Contains(o.wish.Detail, "12/20 failed") {
			t.Fatalf("%+v", o.wish)
		}
		if o.step(time.Second).is(Suspect, Degrade); o.wish.New {
			t.Fatal("new twice")
		}
	}
}

// A gateway that stood still has not seen what it was red for.
func TestTimeThatNobodyWatchedIsInNoWindow(t *testing.T) {
	o := start(t)
	o.m.Unwatched(time.Hour) // longer than the machine runs
	o.step(time.Second)
	o.colours(Red, Red, Green).step(1).run(30 * time.Second)
	o.m.Unwatched(25 * time.Second)
	o.step(26*time.Second).is(Suspect, Stay)
	o.run(29*time.Second-1).is(Suspect, Stay)
	o.step(1).is(Suspect, Degrade)
	o = start(t).colours(Red, Green, Green).step(1).colours(Unknown, Green, Green).step(time.Second)
	o.m.Unwatched(time.Minute)
	o.step(61*time.Second).is(Suspect, Stay)
	o.run(ClearFor-time.Second).is(Healthy, Stay)
}

// Each of the two groups has to be red for the window: one that joins late does
// not borrow the time of the other.
func TestSecondGroupBringsItsOwnTime(t *testing.T) {
	o := start(t).colours(Red, Green, Green).step(1).run(50 * time.Second)
	o.colours(Red, Red, Green).step(time.Second)
	o.says("error_rate: 12/20 failed; probe: 2 of 2 failed: text connect; degraded in 1m if that lasts")
	o.run(time.Minute-1).is(Suspect, Stay)
	o.step(1).is(Suspect, Degrade)
}

func TestOneGroupDegradesAfterFiveMinutes(t *testing.T) {
	for i, c := range [][3]Colour{{Red, Green, Green}, {Unknown, Red, Unknown}, {Green, Green, Red}} {
		o := start(t).colours(c[0], c[1], c[2]).step(1)
		o.run(OneGroupWindow-1).is(Suspect, Stay)
		if o.step(1).is(Suspect, Degrade); o.wish.Reason != ReasonOneGroup {
			t.Fatal(i, o.wish)
		}
	}
}

// A gap shorter than ten seconds does not start a window again, and a group that
// is not red at that moment degrades nobody.
func TestFlapping(t *testing.T) {
	o := start(t).colours(Red, Red, Green).step(1)
	o.run(30 * time.Second)
	o.colours(Red, Unknown, Green).step(1).step(ClearFor - 1)
	o.colours(Red, Red, Green).step(0).run(20*time.Second).is(Suspect, Degrade)
	o.colours(Red, Green, Green).step(1).is(Suspect, Stay)
	o.colours(Red, Red, Green).step(1).is(Suspect, Degrade)

	o = start(t).colours(Red, Red, Green).step(1)
	o.run(30 * time.Second)
	o.colours(Red, Unknown, Green).step(1).step(ClearFor)
	o.colours(Red, Red, Green).step(0).run(time.Minute-1).is(Suspect, Stay)
	o.step(1).is(Suspect, Degrade)
}

// Groups that are red in turn are no two groups red.
func TestTakingTurnsIsNotTogether(t *testing.T) {
	o := start(t)
	for range 4 {
		o.colours(Red, Green, Green).run(20*time.Second).is(Suspect, Stay)
		o.colours(Green, Red, Green).run(20*time.Second).is(Suspect, Stay)
	}
}

func TestThreeOpeningsDegrade(t *testing.T) {
	opened := func(o *one, c decision.Capability) *one {
		o.f.Openings.Count(c)
		return o.step(0)
	}
	o := start(t).colours(Red, Green, Green)
	opened(o, decision.Text).is(Suspect, Stay)
	o.step(5 * time.Minute / 2)
	opened(o, decision.Text).is(Suspect, Stay)
	// Red for five minutes would degrade by itself.
	o.colours(Green, Green, Green).step(0).step(OpeningsWindow/2+150*time.Second).is(Healthy, Stay)
	o.colours(Red, Green, Green)
	opened(o, decision.Text).is(Suspect, Degrade)
	if o.wish.Reason != ReasonOpenings {
		t.Fatal(o.wish)
	}
	o.step(1).is(Suspect, Stay) // the first is older than ten minutes now

	// One outage that opens every breaker is one opening of each.
	o = start(t).colours(Red, Green, Green)
	for _, c := range decision.Capabilities {
		o.f.Openings.Count(c)
	}
	o.step(0).is(Suspect, Stay)

	// All at once between two steps.
	o = start(t).colours(Red, Green, Green)
	for range 5 {
		o.f.Openings.Count(decision.Stream)
	}
	o.step(0).is(Suspect, Degrade)
	// Counters that begin again are no openings.
	o = start(t)
	o.f.Openings[0] = 7
	o.step(1).step(OpeningsWindow + 1)
	o.f.Openings[0] = 0
	o.colours(Red, Green, Green).step(1).is(Suspect, Stay)
}

// Openings of before do not degrade while traffic is not red now.
func TestOpeningsNeedRedTraffic(t *testing.T) {
	o := start(t).colours(Green, Red, Green)
	for range 3 {
		o.f.Openings.Count(decision.Text)
	}
	o.step(1).is(Suspect, Stay)
	o.colours(Red, Red, Green).step(1).is(Suspect, Degrade)
}

// Openings of a shared fault are part of it.
func TestOpeningsOfASharedFaultAreForgotten(t *testing.T) {
	o := start(t).colours(Red, Green, Green)
	o.f.Last = true
	for range 3 {
		o.f.Openings.Count(decision.Text)
		o.step(time.Second)
	}
	o.f.Last, o.f.SharedFault = false, true
	o.f.Openings.Count(decision.Text)
	o.step(time.Second).is(Suspect, Stay)
	o.f.SharedFault = false
	o.step(time.Second).is(Suspect, Stay)
}

// Without a window two groups degrade at once, and one still does not.
func TestNoWindow(t *testing.T) {
	o := start(t)
	o.f.Settings.SuspectWindow = 0
	o.colours(Red, Green, Green).step(1).is(Suspect, Stay)
	o.colours(Red, Red, Green).step(1).is(Suspect, Degrade)
}

// What led to a degradation is not held against an upstream that a person made
// whole again.
func TestWholeAgainBeginsAnew(t *testing.T) {
	o := start(t).colours(Red, Red, Green)
	for range 3 {
		o.f.Openings.Count(decision.Text)
	}
	o.step(0).run(time.Minute).is(Suspect, Degrade)
	o.f.Condition, o.f.Share = IsDegraded, 0
	if o.step(time.Second).is(Degraded, Stay); o.trans != nil {
		t.Fatal("the share table tells that")
	}
	o.f.Condition, o.f.Share = Whole, full
	if o.step(time.Second).is(Suspect, Stay); o.trans == nil || o.trans.From != Healthy {
		t.Fatalf("told %+v", o.trans)
	}
	o.run(time.Minute-1).is(Suspect, Stay)
	o.step(1).is(Suspect, Degrade)
}

func TestTheLastIsNotDegraded(t *testing.T) {
	o := start(t)
	o.f.Last = true
	for range 3 {
		o.f.Openings.Count(decision.Text)
	}
	o.colours(Red, Red, Red).step(1).run(time.Hour).is(Suspect, Stay)
	if got := o.m.Explain(); !strings.HasSuffix(got, "; not degraded: nobody else could serve what it serves, its breaker alone guards it") {
		t.Fatal(got)
	}
	o.f.Last = false
	o.step(1).is(Suspect, Degrade)
}

// Nobody is degraded for a shared fault, neither while it lasts nor for the time
// it lasted.
func TestSharedFaultDegradesNobody(t *testing.T) {
	o := start(t)
	o.colours(Red, Red, Green).step(1).run(59*time.Second).is(Suspect, Stay)
	o.f.SharedFault = true
	for range 3 {
		o.f.Openings.Count(decision.Text)
	}
	o.run(time.Hour).is(Suspect, Stay)
	if got := o.m.Explain(); !strings.HasSuffix(got, "; not degraded: the fault is shared, another one would fail as well") {
		t.Fatal(got)
	}
	o.f.SharedFault = false
	o.run(time.Minute-1).is(Suspect, Stay)
	o.step(1).is(Suspect, Degrade)
	if o.wish.Reason != ReasonTwoGroups {
		t.Fatal(o.wish)
	}
}

func TestCredentialMakesSuspectOnly(t *testing.T) {
	o := start(t).colours(Green, Red, Red)
	o.f.Signals[1].SuspectOnly, o.f.Signals[2].SuspectOnly = true, true
	o.step(1).run(time.Hour).is(Suspect, Stay)
	if got := o.m.Explain(); !strings.HasSuffix(got, "; it is to be looked at and is not degraded for it") {
		t.Fatal(got)
	}
	// Nor is it half of two.
	o.f.Signals[0].Colour = Red
	o.step(1).run(2*time.Minute).is(Suspect, Stay)
	o.run(3*time.Minute).is(Suspect, Degrade)
	if o.wish.Reason != ReasonOneGroup || strings.Contains(o.wish.Detail, "probe") {
		t.Fatal(o.wish)
	}
}

func TestShadowTellsOnceAndDoesNothing(t *testing.T) {
	o := start(t)
	o.f.Settings.Shadow = true
	o.colours(Red, Red, Green).step(1).run(time.Minute).is(Suspect, Degrade)
	if !o.wish.Would || !o.wish.New {
		t.Fatalf("%+v", o.wish)
	}
	if got := o.m.Explain(); !strings.HasSuffix(got, "; would be degraded, but health.mode is shadow") {
		t.Fatal(got)
	}
	for range 600 {
		if o.step(time.Second); o.wish.Move == Degrade && o.wish.New && o.wish.Reason == ReasonTwoGroups {
			t.Fatal("told again")
		}
	}
	// A breaker that is half-open for a moment is no red signal; that changes
	// nothing of what was told. Gone for long, it is told again.
	o.colours(Green, Green, Green).step(ClearFor-1).is(Suspect, Stay)
	if o.colours(Green, Red, Green).step(1).is(Suspect, Degrade); o.wish.New {
		t.Fatal("told again after a moment")
	}
	// Enforced now, it is another wish.
	o.f.Settings.Shadow = false
	if o.step(1).is(Suspect, Degrade); o.wish.Would || !o.wish.New {
		t.Fatalf("%+v", o.wish)
	}
}

// A clock that is set back neither shortens nor lengthens a window by more than
// the step in which it was set.
func TestClockSetBack(t *testing.T) {
	o := start(t)
	o.now = o.now.Round(0) // no monotonic reading: the worst case
	o.colours(Red, Red, Green).step(1)
	o.run(30 * time.Second)
	o.step(-time.Hour)
	o.run(30*time.Second-2).is(Suspect, Stay)
	o.run(3).is(Suspect, Degrade)
}
