package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// smallHeap is how much memory the heap of a gateway may take before it is
// collected. What lives of it is some 15 MB, each request leaves 14 KB behind,
// and the collector by itself runs whenever the heap has doubled: for every
// thousand requests, at a tenth of what they cost.
const smallHeap = 64 << 20

const (
	usualPercent = 100 // of what lives may be added before a collection
	mostPercent  = 400
)

// collectLater lets the heap of this process grow to smallHeap before it is
// collected. Above half of that the collector does as it always does, and with
// GOGC set it does as it is told. It ends with stop.
func collectLater() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	p := &pace{percent: usualPercent}
	p.afterNext()
	return func() { p.stopped.Store(true) }
}

// pace sets the collector's percentage anew after each collection. Its percent
// belongs to whoever runs after one, and they follow each other.
type pace struct {
	stopped atomic.Bool
	percent int
}

// afterNext has adjust called after the next collection.
func (p *pace) afterNext() {
	type sentinel [64]byte // nobody holds it: it goes with the next collection
	runtime.AddCleanup(new(sentinel), (*pace).adjust, p)
}

func (p *pace) adjust() {
	percent := usualPercent
	if !p.stopped.Load() {
		defer p.afterNext()
		percent = percentFor(liveBytes())
	}
	// Setting it stops the world for a moment: not for small differences.
	if d := percent - p.percent; percent != usualPercent && d > -p.percent/8 && d < p.percent/8 || d == 0 {
		return
	}
	p.percent = percent
	debug.SetGCPercent(percent)
}

// percentFor is the percentage that lets a heap of which live bytes are in use
// grow to smallHeap.
func percentFor(live uint64) int {
	if live >= smallHeap/2 {
		return usualPercent
	}
	return int(min(smallHeap*100/max(live, 1)-100, mostPercent))
}

// liveBytes is what the last collection found in use.
func liveBytes() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return smallHeap // not told by this runtime: as usual
	}
	return s[0].Value.Uint64()
}
