package breaker

import (
	"sync/atomic"
	"testing"
	"time"

	"failback/gateway/decision"
)

func benchGroup(b *testing.B, caps decision.CapabilitySet) *Group {
	b.Helper()
	s := New(nil)
	s.Configure("a", "r", decision.SetOf(decision.Capabilities...), defaults())
	return s.Group("a", caps)
}

// The common attempt: a closed bucket, a success. Done takes the sample, the
// weight and the window along.
func BenchmarkPermitAndRecord(b *testing.B) {
	g := benchGroup(b, decision.Needed(false, false, false))
	var p Permit
	a := Ask{Model: "m", Elsewhere: true, Lot: 1}
	o := decision.Outcome{Class: decision.OK, Status: 200}
	b.ReportAllocs()
	for b.Loop() {
		if why := g.Acquire(&p, a); why != "" {
			b.Fatal(why)
		}
		p.Done(o)
	}
}

func BenchmarkPermitAndRecordStreamWithTools(b *testing.B) {
	g := benchGroup(b, decision.Needed(false, true, true))
	var p Permit
	a := Ask{Model: "m", Stream: true, Elsewhere: true, Lot: 1, OnOpen: func() {}, Deadline: time.Now().Add(time.Hour)}
	o := decision.Outcome{Class: decision.OK, Status: 200}
	b.ReportAllocs()
	for b.Loop() {
		if why := g.Acquire(&p, a); why != "" {
			b.Fatal(why)
		}
		p.Output()
		p.Done(o)
	}
}

// Two thousand attempts wait meanwhile, as when two thousand streams are open.
func BenchmarkPermitAndRecordAmongMany(b *testing.B) {
	g := benchGroup(b, decision.Needed(false, true, false))
	waiting := make([]Permit, 2000)
	for i := range waiting {
		g.Acquire(&waiting[i], Ask{Model: "m", Stream: true})
	}
	var p Permit
	a := Ask{Model: "m", Stream: true, Elsewhere: true, Lot: 1}
	o := decision.Outcome{Class: decision.OK, Status: 200}
	b.ReportAllocs()
	for b.Loop() {
		if why := g.Acquire(&p, a); why != "" {
			b.Fatal(why)
		}
		p.Done(o)
	}
}

func BenchmarkRefused(b *testing.B) {
	g := benchGroup(b, decision.Needed(false, true, false))
	g.Trip(decision.Slow, "")
	var p Permit
	a := Ask{Model: "m", Stream: true, Elsewhere: true, Lot: 1}
	b.ReportAllocs()
	for b.Loop() {
		if g.Acquire(&p, a) == "" {
			p.Release()
			g.Trip(decision.Slow, "")
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	g := benchGroup(b, decision.Needed(false, true, false))
	a := Ask{Model: "m", Stream: true, Elsewhere: true, Lot: 1}
	b.ReportAllocs()
	for b.Loop() {
		g.Check(a)
	}
}

func BenchmarkFirstOutputP99(b *testing.B) {
	g := benchGroup(b, decision.Needed(false, true, false))
	var p Permit
	o := decision.Outcome{Class: decision.OK, Status: 200}
	b.ReportAllocs()
	for b.Loop() {
		g.Acquire(&p, Ask{Model: "m", Stream: true})
		p.Done(o)
		g.FirstOutputP99("m")
	}
}

// Contended: all on one upstream.
func BenchmarkPermitAndRecordParallel(b *testing.B) {
	g := benchGroup(b, decision.Needed(false, true, false))
	var refused atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		p := new(Permit)
		a := Ask{Model: "m", Stream: true, Elsewhere: true, Lot: 1}
		o := decision.Outcome{Class: decision.OK, Status: 200}
		for pb.Next() {
			if g.Acquire(p, a) != "" {
				refused.Add(1)
				continue
			}
			p.Done(o)
		}
	})
	if refused.Load() > 0 {
		b.Fatal("refused")
	}
}
