package health

import (
	"slices"
	"strings"
	"time"
)

// Fault is a shared fault in force. It is not changed once it is shown; the
// methods work on nil, which is no fault.
type Fault struct {
	Since time.Time
	// Path says that several upstreams cannot be reached whatever they share.
	Path bool
	// Dependencies are the failing declared ones that make the fault.
	Dependencies []string
	// Upstreams are those that fail for it, sorted. Requests that only they
	// could serve end at once, but for the probes of Detector.AdmitProbe.
	Upstreams []string
	Detail    string // for people
}

// FaultPath is Fault.Reason where paths fail.
const FaultPath = "path"

// Reason is FaultPath, or the name of a dependency that fails.
func (f *Fault) Reason() string {
	if f.Path {
		return FaultPath
	}
	return strings.Join(f.Dependencies, "+")
}

// Covers reports whether upstream fails for the fault: switching to it is
// pointless.
func (f *Fault) Covers(upstream string) bool {
	if f == nil {
		return false
	}
	_, found := slices.BinarySearch(f.Upstreams, upstream)
	return found
}

// Spares reports whether upstream must not be degraded because of the fault:
// nobody while paths fail, else those that it covers.
func (f *Fault) Spares(upstream string) bool { return f != nil && (f.Path || f.Covers(upstream)) }
