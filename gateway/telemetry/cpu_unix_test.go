//go:build linux || darwin

package telemetry

import (
	"syscall"
	"testing"
	"time"
)

// cpu reports the processor time of an operation beside its duration, which says
// little where others use the machine, too. It is called before the loop, and
// what it returns after it.
func cpu(b *testing.B) (report func()) {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}
