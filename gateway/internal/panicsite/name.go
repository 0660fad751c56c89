package panicsite

import (
	"fmt"
	"runtime"
	"strings"
)

// deepest is how many frames are looked at from the recovering one up.
const deepest = 32

// Name is the file and line of the panic that is being recovered from; "unknown"
// outside of a deferred function that recovered from one.
func Name() string {
	pcs := make([]uintptr, deepest)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for after := false; ; {
		f, more := frames.Next()
		if after && !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		after = after || f.Function == "runtime.gopanic"
		if !more {
			return "unknown"
		}
	}
}
