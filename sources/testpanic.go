//go:build failback_testkeys

package sources

import "sync/atomic"

var panicNext atomic.Bool

// PanicNext makes the next goroutine that is started here panic, for tests of
// what is left of the terminal then. It is there in a test build only.
func PanicNext() { panicNext.Store(true) }

func mayPanic() {
	if panicNext.CompareAndSwap(true, false) {
		panic("test panic in a goroutine")
	}
}
