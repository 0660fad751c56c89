package health

import (
	"testing"
	"time"
)

func climbing(t *testing.T) *one {
	o := start(t)
	o.f.Condition, o.f.Share, o.f.Next, o.f.Passed = IsRecovering, 25, 75, []int{5}
	o.f.Reason, o.f.EvidenceText = "5xx", "12 of 50 requests"
	return o
}

func TestRecoveringClimbs(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(f *Facts)
		want Move
		to   int
	}{
		{"auto", func(f *Facts) { f.Advance = Auto }, Climb, 75},
		{"plan approved", func(f *Facts) { f.Advance, f.Plan = Plan, true }, Climb, 75},
		{"plan not approved", func(f *Facts) { f.Advance = Plan }, Stay, 0},
		{"manual", func(f *Facts) {}, Stay, 0},
		{"manual, plan approved", func(f *Facts) { f.Plan = true }, Climb, 75},
		{"auto, one retreat", func(f *Facts) { f.Advance, f.Retreats = Auto, 1 }, Climb, 75},
		{"auto, two retreats", func(f *Facts) { f.Advance, f.Retreats = Auto, 2 }, Stay, 0},
		{"auto, two retreats, approved since", func(f *Facts) { f.Advance, f.Retreats, f.Plan = Auto, 2, true }, Climb, 75},
		{"no data", func(f *Facts) { f.Advance, f.Evidence = Auto, NoData }, Stay, 0},
		{"shared fault", func(f *Facts) { f.Advance, f.SharedFault = Auto, true }, Stay, 0},
		{"steps collapsed", func(f *Facts) { f.Advance, f.Next = Auto, 100 }, Climb, 100},
		{"no step", func(f *Facts) { f.Advance, f.Next = Auto, 0 }, Stay, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := climbing(t)
			o.f.Evidence = Pass
			c.set(&o.f)
			o.step(time.Second).is(Recovering, c.want)
			if o.wish.To != c.to {
				t.Fatalf("%+v", o.wish)
			}
		})
	}
}

func TestRecoveringRetreats(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(f *Facts)
		want Move
		to   int
	}{
		{"to what passed", func(f *Facts) {}, Retreat, 5},
		{"to the highest that passed below", func(f *Facts) { f.Share, f.Next, f.Passed = 75, 100, []int{25, 5, 75, 100} }, Retreat, 25},
		{"nothing passed", func(f *Facts) { f.Passed = nil }, Retreat, 0},
		{"nothing passed, last", func(f *Facts) { f.Passed, f.Last = nil, true }, Stay, 0},
		{"last", func(f *Facts) { f.Last = true }, Retreat, 5},
		{"nobody else admits", func(f *Facts) { f.OtherAdmits = false }, Stay, 0},
		{"shared fault", func(f *Facts) { f.SharedFault = true }, Stay, 0},
		{"also by a plan", func(f *Facts) { f.Advance, f.Plan = Plan, true }, Retreat, 5},
		{"also if auto is over", func(f *Facts) { f.Advance, f.Retreats = Auto, 5 }, Retreat, 5},
		{"held at 100", func(f *Facts) {
			f.Share, f.Next, f.Passed, f.HeldFull = 100, 0, []int{5, 25, 75}, time.Hour
		}, Retreat, 75},
		{"held at 100, nobody else", func(f *Facts) {
			f.Share, f.Next, f.HeldFull, f.OtherAdmits = 100, 0, time.Hour, false
		}, Stay, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := climbing(t)
			o.f.Evidence = Fail
			c.set(&o.f)
			o.step(time.Second).is(Recovering, c.want)
			if o.wish.To != c.to {
				t.Fatalf("%+v", o.wish)
			}
		})
	}
}

func TestRecoveringSettles(t *testing.T) {
	o := climbing(t)
	o.f.Share, o.f.Next, o.f.HeldFull = 100, 0, 2*time.Minute-1
	o.step(0).is(Recovering, Stay)
	o.f.HeldFull++
	o.f.Settings.Shadow = true // it moves no traffic
	if o.step(0).is(Recovering, Settle); o.wish.Would || o.wish.To != 100 {
		t.Fatalf("%+v", o.wish)
	}
	o.f.SharedFault = true
	o.step(0).is(Recovering, Stay)
}

// Signals move nobody who recovers: the evidence of the step does.
func TestRecoveringIgnoresSignals(t *testing.T) {
	o := climbing(t).colours(Red, Red, Red)
	o.run(10*time.Minute).is(Recovering, Stay)
}

func TestRecoveringExplains(t *testing.T) {
	o := climbing(t)
	const why = "; taken down for: 5xx"
	o.step(0).says("waits for an operator: failback step a 75 (the evidence of 25% does not pass yet)" + why)
	o.f.Advance = Auto
	o.step(0).says("goes on to 75% by itself when the evidence of 25% passes" + why)
	o.f.Evidence = Pass
	o.step(0).says("goes on to 75%" + why)
	o.f.Advance = Plan
	o.step(0).says("waits for an operator: failback step a 75, or approval of the plan (its evidence passes)" + why)
	o.f.Advance = Manual
	o.step(0).says("waits for an operator: failback step a 75 (its evidence passes)" + why)
	o.f.Evidence, o.f.EvidenceText = Fail, "88% of 412 succeeded"
	o.step(0).says("its evidence fails (88% of 412 succeeded): goes back to 5%" + why)
	o.f.OtherAdmits = false
	o.step(0).says("its evidence fails (88% of 412 succeeded), but nobody else could take its requests: it stays" + why)
	o.f.SharedFault = true
	o.step(0).says("held while the fault is shared" + why)
	o.f.SharedFault, o.f.Evidence, o.f.Share, o.f.Next, o.f.HeldFull = false, NoData, 100, 0, 30*time.Second
	o.step(0).says("healthy in 1m30s if 100% holds" + why)
	o.f.Reason = ""
	o.step(0).says("healthy in 1m30s if 100% holds")
}
