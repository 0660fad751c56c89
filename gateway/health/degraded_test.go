package health

import (
	"testing"
	"time"
)

func lowered(t *testing.T) *one {
	o := start(t)
	o.f.Condition, o.f.Share, o.f.Next, o.f.Machine = IsDegraded, 0, 5, true
	o.f.Reason = "41% failed, probe failing"
	return o
}

func TestDegradedComesBackByItselfOnlyIfAuto(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(f *Facts)
		want Move
	}{
		{"auto", func(*Facts) {}, Recover},
		{"one retreat", func(f *Facts) { f.Retreats = 1 }, Recover},
		{"two retreats", func(f *Facts) { f.Retreats = 2 }, Stay},
		{"manual", func(f *Facts) { f.Advance = Manual }, Stay},
		{"plan", func(f *Facts) { f.Advance = Plan }, Stay},
		{"plan approved", func(f *Facts) { f.Advance, f.Plan = Plan, true }, Stay},
		{"two retreats and a plan", func(f *Facts) { f.Retreats, f.Plan = 2, true }, Stay},
		{"by an operator", func(f *Facts) { f.Machine = false }, Stay},
		{"probes do not pass", func(f *Facts) { f.Probed = false }, Stay},
		{"shared fault", func(f *Facts) { f.SharedFault = true }, Stay},
		{"no step", func(f *Facts) { f.Next = 0 }, Stay},
		{"last", func(f *Facts) { f.Last = true }, Recover},
		{"red signals of before", func(f *Facts) { f.Signals = signals(Red, Red, Red) }, Recover},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := lowered(t)
			o.f.Advance, o.f.Probed = Auto, true
			c.set(&o.f)
			o.step(time.Second).is(Degraded, c.want)
			if c.want == Recover && (o.wish.To != 5 || o.wish.Reason != ReasonProbed) {
				t.Fatalf("%+v", o.wish)
			}
		})
	}
}

func TestDegradedExplains(t *testing.T) {
	o := lowered(t)
	const why = "41% failed, probe failing; "
	o.step(0).says(why + "waits for an operator: failback step a 5 (needs two passed probes in a row of each candidate and capability, or an override)")
	o.f.Probed = true
	o.step(0).says(why + "waits for an operator: failback step a 5 (its probes pass)")
	o.f.Advance, o.f.Probed = Auto, false
	o.step(0).says(why + "comes back by itself once the last two probes of each candidate and capability passed")
	o.f.SharedFault = true
	o.step(0).says(why + "held while the fault is shared")
	o.f.SharedFault, o.f.Probed = false, true
	o.step(0).says(why + "begins to come back at 5%")
	o.f.Settings.Shadow = true
	o.step(0).says(why + "would begin to come back at 5%, but health.mode is shadow")
	o.f.Settings.Shadow, o.f.Retreats = false, 2
	o.step(0).says(why + "waits for an operator after 2 retreats: failback step a 5 (its probes pass)")
	o.f.Retreats, o.f.Machine, o.f.Reason = 0, false, ""
	o.step(0).says("waits for an operator: failback step a 5 (its probes pass)")
}
