//go:build failback_testkeys && linux

package ui

import (
	"errors"
	"strings"
	"testing"
)

// TestPanicKeys presses the keys of a test build: the console panics where they
// say and leaves the terminal as it was.
func TestPanicKeys(t *testing.T) {
	for key, where := range map[string]string{"\x1bu": "Update", "\x1bv": "View", "\x1bc": "a command"} {
		t.Run(where, func(t *testing.T) {
			y := newTTY(t)
			o := ptyOptions(t, y)
			done := make(chan error, 1)
			go func() { done <- Run(t.Context(), o) }()
			waitFor(t, func() bool { return strings.Contains(y.written(), "OPEN try in") })
			if _, err := y.master.WriteString(key); err != nil {
				t.Fatal(err)
			}
			err := <-done
			if c, ok := errors.AsType[*CrashError](err); !ok || c.What != "test panic in "+where || c.File == "" {
				t.Errorf("returned %v", err)
			}
			y.restored(t)
		})
	}
}
