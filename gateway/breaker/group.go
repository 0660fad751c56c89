package breaker

import (
	"context"
	"time"

	"failback/gateway/decision"
)

// Ask is what an attempt asks of its buckets.
type Ask struct {
	Model  string // the upstream's model name
	Stream bool   // waits for its first output; else for its whole answer
	// Elsewhere says that another candidate which admits may serve the request.
	Elsewhere bool
	// LastResort says that nobody else may serve it: openings for weight,
	// retry_budget or slow and the excess after 429s then pass as if closed.
	LastResort bool
	// OnOpen is called at most once, without locks held, if a bucket of the
	// group opens while the attempt waits for output. It may still be called
	// while Done, Output or Release is running, or just after. May be nil.
	OnOpen func()
	// Deadline is when the attempt ends at the latest; a half-open or ramping
	// bucket takes back the permit then. Zero: after 10 minutes.
	Deadline time.Time
	// Lot is a number from 1 to 100 drawn once per request, so that all answers
	// to one request agree where only a part of the requests is bound
	// (Settings.EnforcePercent). 0: the bucket draws each time.
	Lot int
}

// Group is the buckets of one upstream that must all admit a request.
type Group struct{}

// Check says why Acquire would refuse now, empty if it would not. It takes nothing.
func (g *Group) Check(a Ask) decision.Reason { return "" }

// Acquire asks all buckets for a permit. Empty: admitted, and p must come back
// by Done or Release; else the reason, and p is untouched.
func (g *Group) Acquire(p *Permit, a Ask) decision.Reason { return "" }

// Wait is Acquire that waits up to d (0: Settings.Patience) where the only
// obstacle is capacity. It ends early with ctx.
func (g *Group) Wait(ctx context.Context, p *Permit, a Ask, d time.Duration) decision.Reason {
	return ""
}

// RetryIn is how long until the group's latest open bucket is due for a probe,
// 0 if it is; false if none is open.
func (g *Group) RetryIn() (time.Duration, bool) { return 0, false }

// FirstOutputP99 is the 99th percentile of the first output of the model's last
// 1,000 streams in the group's most specific bucket; false before 20.
func (g *Group) FirstOutputP99(model string) (time.Duration, bool) { return 0, false }

// WholeP99 is the same for whole answers of unary attempts.
func (g *Group) WholeP99(model string) (time.Duration, bool) { return 0, false }

// Effective is the configured weight times the model's part of good attempts.
func (g *Group) Effective(model string, configured float64) float64 { return configured }

// TripByWeight opens the most specific bucket if the model's effective weight
// fell below next and enough attempts failed. It says whether it opened.
func (g *Group) TripByWeight(model string, configured, next float64) bool { return false }

// Trip opens the most specific bucket.
func (g *Group) Trip(reason decision.Reason, detail string) {}
