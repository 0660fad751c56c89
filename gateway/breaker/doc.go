// Package breaker owns the circuit breakers: for each bucket (an upstream's
// capability) whether an attempt may be sent now, learned from how the attempts
// before it ended.
//
// A bucket is closed, open, half-open or ramping. It opens on a failure rate,
// on failed requests in a row, on slowness and stalls, on rate limits, on a
// weight below the next candidate's, or because an operator says so. It comes
// back through a cooldown, a fixed number of probes, and a ramp of attempts in
// flight; never at the full rate at once.
//
// It never sends, retries or chooses anything, knows nothing of shares, keys or
// clients, and does no I/O. Callbacks are called without any lock held.
package breaker
