// Package health owns the judgement of an upstream: what its signals say, which
// of the states healthy, suspect, degraded and recovering follows, which move of
// its share is due, and whether several upstreams fail for a reason they share.
//
// It never moves a share, never sends a probe or a request and never stores
// anything: Machine says what it wishes and whoever owns the share table does it,
// or does not. What Machine remembers (since when a signal is red, how often a
// breaker opened) may be lost: after a restart suspicion starts again.
package health
