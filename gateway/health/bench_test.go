package health

import (
	"fmt"
	"testing"
	"time"

	"failback/gateway/decision"
)

func BenchmarkStep200(b *testing.B) {
	for _, c := range []struct {
		name           string
		traffic, probe Colour
	}{{"healthy", Green, Green}, {"suspect", Red, Green}} {
		b.Run(c.name, func(b *testing.B) {
			machines := make([]Machine, 200)
			f := Facts{Settings: settings, Upstream: "a", Share: full, OtherAdmits: true, Last: true, Signals: signals(c.traffic, c.probe, Green)}
			now := time.Now()
			for i := range machines {
				machines[i].Step(now, f)
				machines[i].Step(now.Add(1), f)
			}
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Second)
				for i := range machines {
					machines[i].Step(now, f)
				}
			}
		})
	}
}

func BenchmarkSignals200(b *testing.B) {
	now := time.Now()
	m := Measures{
		OK: 900, Failed: 12, LastAttempt: now,
		Breakers:   []Breaker{{Capability: "tools", State: "closed", Samples: 9}, {Capability: "stream", State: "closed", Samples: 900}, {Capability: "text", State: "closed", Samples: 3}},
		Probes:     []ProbeResult{{Model: "m", Capability: "text", Class: decision.OK, At: now}},
		Credential: Credential{Expires: now.Add(900 * time.Hour)},
	}
	b.ReportAllocs()
	for b.Loop() {
		for range 200 {
			Signals(now, m, settings)
		}
	}
}

func many(n int) *Detector {
	d := NewDetector(nil)
	var l []Member
	for i := range n {
		l = append(l, Member{Upstream: fmt.Sprintf("upstream-%d", i), Cloud: fmt.Sprint(i)})
	}
	d.Configure(l, time.Minute, time.Now())
	return d
}

func BenchmarkObserveSuccess(b *testing.B) {
	d, now := many(200), time.Now()
	o := decision.Outcome{Class: decision.OK, Status: 200}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			now = now.Add(time.Microsecond)
			d.Observe("upstream-7", o, now)
		}
	})
	b.Run("together", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			at := now
			for pb.Next() {
				at = at.Add(time.Microsecond)
				d.Observe("upstream-7", o, at)
			}
		})
	})
}

// Failures with answers in between: partly failing, no fault.
func BenchmarkObserveFailure(b *testing.B) {
	d, now := many(200), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		d.Observe("upstream-7", decision.Outcome{Class: decision.Connect}, now)
		now = now.Add(time.Microsecond)
		d.Observe("upstream-8", decision.Outcome{Class: decision.OK}, now)
	}
}

func BenchmarkActive(b *testing.B) {
	d := many(2)
	b.ReportAllocs()
	for b.Loop() {
		if d.Active().Covers("upstream-1") {
			b.Fatal("covered")
		}
	}
}

// What the benchmarks show of memory, as a test.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	d, now := many(3), time.Now()
	o := decision.Outcome{Class: decision.OK, Status: 200}
	if n := testing.AllocsPerRun(100, func() { d.Observe("upstream-1", o, now); d.Active() }); n != 0 {
		t.Errorf("an answer: %v allocations", n)
	}
	f := Facts{Settings: settings, Last: true, Signals: signals(Red, Red, Green)}
	var m Machine
	m.Step(now, f)
	m.Step(now, f)
	if n := testing.AllocsPerRun(100, func() { now = now.Add(time.Second); m.Step(now, f) }); n != 0 {
		t.Errorf("a step: %v allocations", n)
	}
}
