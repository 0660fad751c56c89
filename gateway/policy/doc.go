// Package policy owns the rules of what may happen next to a request and why:
// whether another candidate may take it (MayFallback), whether the same one
// may be asked again (SameAgain), and what a request without an answer comes
// to (End). Each is a pure function that can be read and reviewed alone, and
// each has the whole table of its answers as a test.
//
// It does no I/O, reads no clock, holds no state, and knows nothing of
// upstreams, breakers or bytes.
package policy
