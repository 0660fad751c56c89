package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// small is how much memory the heap of a gateway may take before it is
// collected. What lives of it is some 15 MB, each request leaves 14 KB behind,
// and the runtime by itself collects whenever the heap has doubled: for every
// thousand requests, at a tenth of what they cost.
const small = 64 << 20

const (
	usualPercent = 100 // of what lives may be added before a collection
	mostPercent  = 400
)

// CollectLater lets the heap of this process grow to 64 MiB before it is
// collected, an eighth more at most. Where that is less than the runtime would
// let it grow it is collected as always, and with GOGC set as that says. It
// ends with stop. It is to be called once.
func CollectLater() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	p := &pace{percent: usualPercent}
	p.afterNext()
	return func() { p.stopped.Store(true) }
}

// pace sets the runtime's percentage anew after each collection. Its percent
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
		percent = percentFor(lastCollection())
	}
	// Setting it stops the world for a moment: not for small differences.
	if d := percent - p.percent; percent != usualPercent && d > -p.percent/8 && d < p.percent/8 || d == 0 {
		return
	}
	p.percent = percent
	debug.SetGCPercent(percent)
}

// percentFor is the percentage that lets a heap of which live bytes are in use
// grow to small. The runtime takes it of roots too, what is scanned besides the
// heap: see "GOGC" in https://go.dev/doc/gc-guide.
func percentFor(live, roots uint64) int {
	if live >= small {
		return usualPercent
	}
	return int(max(usualPercent, min((small-live)*100/max(live+roots, 1), mostPercent)))
}

// lastCollection is what the last collection found in use, and what else it
// scanned: stacks and globals.
func lastCollection() (live, roots uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(s)
	for _, v := range s {
		if v.Value.Kind() != metrics.KindUint64 {
			return small, 0 // not told by this runtime: as usual
		}
	}
	return s[0].Value.Uint64(), s[1].Value.Uint64() + s[2].Value.Uint64()
}
