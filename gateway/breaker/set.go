package breaker

import (
	"context"
	"time"

	"failback/gateway/decision"
)

// Set holds the buckets of all upstreams. Its methods may be called from any
// goroutine.
type Set struct{ onEvent func(decision.Event) }

// New returns an empty Set. onEvent gets every transition, in order for each
// bucket, without locks held; nil drops them.
func New(onEvent func(decision.Event)) *Set { return &Set{onEvent: onEvent} }

// Configure creates the buckets of an upstream or gives new settings to those
// that exist; their state is kept.
func (s *Set) Configure(upstream, region string, caps decision.CapabilitySet, settings Settings) {}

// Remove forgets an upstream. Permits that are still out may be returned.
func (s *Set) Remove(upstream string) {}

// SetReduced says that the upstream's share is below 100: two failed requests
// in a row then open a bucket.
func (s *Set) SetReduced(upstream string, reduced bool) {}

// Run applies the rules that no request triggers (slowness, stalls, due ramps,
// overrides that end) until ctx ends, and returns nil then.
func (s *Set) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Group returns the buckets that must all admit a request which needs caps. The
// same Group is returned each time; it follows later calls of Configure.
func (s *Set) Group(upstream string, caps decision.CapabilitySet) *Group { return &Group{} }

// Force overrides b: action is "open", "close" or "auto"; d is for how long, 1 h
// if not positive.
func (s *Set) Force(b decision.Bucket, action string, d time.Duration, by string) error { return nil }

// Snapshot returns all buckets, upstreams in the order of their first
// Configure, capabilities most specific first.
func (s *Set) Snapshot() []Snapshot { return nil }
