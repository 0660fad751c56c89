// Package bubble owns how tests let time pass: in a testing/synctest bubble, where
// that takes none. It never waits in real time, and no program imports it.
package bubble

import "time"

// Sleep lets d pass for the goroutine of a bubble. It panics outside of one, where
// a test waits for a condition instead.
func Sleep(d time.Duration) {
	// A bubble's clock begins at 2000-01-01.
	if time.Now().Year() >= 2020 {
		panic("bubble.Sleep outside of a testing/synctest bubble: wait for a condition")
	}
	time.Sleep(d)
}
