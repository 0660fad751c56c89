// Package probe owns the schedule of the probes: when each candidate and
// capability is asked how it is, independent of traffic, and what came of it
// last.
//
// It never speaks to an upstream itself, knows no breaker and no state of
// health, and decides nothing about traffic: an Attempt is given to it, and
// whoever judges health reads its results.
package probe
