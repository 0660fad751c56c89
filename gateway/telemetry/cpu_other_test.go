//go:build !linux && !darwin

package telemetry

import "testing"

// cpu reports nothing here.
func cpu(*testing.B) (report func()) { return func() {} }
