package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/decision"
	"failback/gateway/health"
	"failback/gateway/internal/panicsite"
	"failback/gateway/policy"
	"failback/gateway/traffic"
	"failback/gateway/upstream"
)

// Router is the loop with what it shares between requests. All fields but
// Observe, Alarm and Life are required and must not be changed while requests run.
type Router struct {
	Breakers *breaker.Set
	Traffic  *traffic.Table
	Book     *upstream.Book
	Budget   *RetryBudget
	Bindings *Bindings
	Faults   *health.Detector
	// Observe is told how each attempt ended, by the name of its upstream,
	// besides all of the above. Nil drops it; it must not block.
	Observe func(upstream string, o *decision.Outcome)
	// Alarm is told of our own faults: a panic, an answer no rule names. Nil drops them.
	Alarm func(detail string)
	// Life ends the attempts that run on although their client left; nil: they
	// end by themselves.
	Life context.Context

	passthrough atomic.Pointer[Passthrough]
	drains      atomic.Int64 // attempts that run on although their client left
}

// Route takes q to an end. It fills in d, whose identifying fields the caller
// has set, and writes the answer to out if there is one; an error is left to
// the caller to render from End. It blocks until the request is over, and
// holds no permit, slot or goroutine afterwards.
func (r *Router) Route(ctx context.Context, plan *Plan, q *Request, d *decision.Decision, out Answer) (end End) {
	run := runs.Get().(*run)
	run.router, run.plan, run.q, run.d, run.out, run.ctx = r, plan, q, d, out, ctx
	defer func() {
		p := recover()
		run.giveBack(0)
		if p != nil {
			r.alarm(fmt.Sprintf("panic while routing: %v at %s", p, panicsite.Name()))
			run.outcome = decision.Outcome{Class: decision.Internal, Relayed: run.outcome.Relayed}
			run.last = decision.ReasonOf(decision.Internal)
			end = run.stop()
		}
		run.seal()
		if p == nil {
			run.recycle()
		}
	}()
	run.prepare()
	for {
		s := run.next()
		if s == nil {
			run.ended(run.nobody())
			return run.stop()
		}
		run.followed(decision.NextSwitch, run.leftFor)
		if run.ask(s) {
			return run.finish(s)
		}
		if run.exhausted() {
			return run.stop()
		}
	}
}

func (r *Router) alarm(detail string) {
	if r.Alarm != nil {
		r.Alarm(detail)
	}
}

// runs are kept for reuse: one is more than a kilobyte. All in it are zero.
var runs = sync.Pool{New: func() any { return new(run) }}

// recycle gives back a run that is over: nothing that it granted is out any more,
// and nobody else knows it.
func (r *run) recycle() {
	*r = run{}
	runs.Put(r)
}

// run is one request on its way.
type run struct {
	router *Router
	plan   *Plan
	q      *Request
	d      *decision.Decision
	out    Answer
	ctx    context.Context

	order  []standing
	inline [4]standing // backs order for the usual few candidates
	pass   *Passthrough

	lot      int // 1 to 100: whether an opening that binds a part of the requests binds this one
	deadline time.Time
	// ownLimit: the deadline is the caller's or the task's own, not ours;
	// callersLimit: it is the caller's.
	ownLimit, callersLimit bool

	held held // what the candidate being asked granted

	// What happened so far.
	stage         policy.Stage
	causes        []policy.Cause
	last          decision.Reason // the last cause, the request's own terms aside
	failure       decision.Reason // why the last attempt failed
	primaryReason decision.Reason // why the primary did not answer
	primaryFailed bool
	policyRefused bool
	first         int64 // what the retry budget knows the first attempt by
	attempts      int   // key rotation aside
	switches      int
	waited        time.Duration // in sum
	free          bool          // the next attempt draws nothing from the retry budget
	freeMoveUsed  bool
	resent        bool
	fresh         bool // the next attempt is made on a new connection
	rotated       bool // the next attempt only takes another key
	overflow      bool
	unread        bool             // the client left before the answer's end
	outcome       decision.Outcome // of the last attempt
	counted       bool             // it counted against its bucket
	hurried       bool             // the caller's own limit cut it before its bucket usually answers
	moved         bool             // it was given up because its bucket opened
	errorAnswer   *upstream.Answer // of the last attempt

	// What the record says of it.
	leftFor decision.Why  // why the last candidate was left
	rested  time.Duration // since the last attempt
	shut    bool          // a breaker refused the candidate that was asked for last
	full    string        // what of it has no room; "": nothing
}

// standing is one candidate as it stands in this request.
type standing struct {
	*Candidate
	primary bool
	terms   decision.Reason // rules it out whatever happens; "" if nothing does
	skipped decision.Reason
	keys    uint64 // keys that failed in this request, as bits
	asked   bool
	left    bool
	retried bool
	waited  time.Duration // before it was asked again

	rule       decision.Why // that ruled it out, or skipped
	skippedWhy string
	skippedAt  time.Duration
	blocked    bool // skipped by a breaker
	turned     bool // its buckets have turned this request away
}

func (run *run) prepare() {
	q := run.q
	limit := run.plan.Unary
	if q.Facts.Stream && !q.Held() {
		limit = run.plan.FirstOutput
	}
	if own := q.Terms.Task.Deadline; own > 0 && own < limit {
		limit, run.ownLimit = own, true
	}
	if own := q.Deadline; own > 0 && own < limit {
		limit, run.ownLimit, run.callersLimit = own, true, true
	}
	run.deadline = q.Accepted.Add(limit)
	run.lot = 1 + rand.IntN(100)
	run.order = run.inline[:0]
	run.lineUp()
	for i := range run.order {
		if run.order[i].primary {
			run.d.Primary = run.order[i].Upstream.Name
		}
	}
	run.router.Traffic.ObserveOwn(run.d.Primary, q.Conversation)
}

// lineUp sets the order in which candidates are asked.
func (run *run) lineUp() {
	cs := run.q.Model.Lineup(run.q.Endpoint.Dialect()).Candidates
	if len(run.q.BoundTo) > 0 {
		// Where it is bound to is this request's primary: nobody else could
		// ever have answered it.
		run.q.Terms.Bound = true
		run.add(run.boundTo(cs), true)
		return
	}
	run.pass = run.router.Passthrough()
	if run.pass == nil {
		for i, c := range cs {
			run.add(c, i == 0)
		}
		return
	}
	for _, name := range run.pass.Order {
		for i, c := range cs {
			if c.Upstream.Name == name {
				run.add(c, i == 0)
			}
		}
	}
	for i, c := range cs {
		if !run.pass.names(c.Upstream.Name) {
			run.add(c, i == 0)
			run.order[len(run.order)-1].terms = decision.Passthrough
		}
	}
}

// boundTo returns the candidate whose upstream knows what the request names;
// an id nobody remembers belongs to the primary.
func (run *run) boundTo(cs []*Candidate) *Candidate {
	if name, ok := run.router.Bindings.Find(run.q.BoundTo); ok {
		for _, c := range cs {
			if c.Upstream.Name == name {
				return c
			}
		}
	}
	return cs[0]
}

func (run *run) add(c *Candidate, primary bool) {
	run.order = append(run.order, standing{Candidate: c, primary: primary, terms: c.mayServe(run.q, primary)})
}

// ask puts the request to s, whose permit is held, and again where that is
// allowed. It reports whether the request is over; if not, s was left.
func (run *run) ask(s *standing) (over bool) {
	var last *breaker.Permit // of the attempt before on s, if there was one
	for {
		if !run.draw() {
			run.giveBack(0)
			leftFor(last)
			run.tripWorst()
			run.last = run.failure
			if run.hurried {
				run.last = decision.ReasonOf(decision.CallerDeadline)
			}
			run.ended(decision.WhyOf(decision.RetryBudget))
			return true
		}
		o, report := run.attempt(s)
		last = run.held.permit
		if o.Class == decision.OK || o.Relayed || o.Class == decision.ClientGone {
			leftFor(last)
			return true
		}
		run.note(s, o)
		again, why := run.sameAgain(s, o, report)
		if again {
			if refused := run.take(s, run.manner(s)); refused != "" {
				again, why = false, decision.WhyOf(refused)
			}
		}
		if again {
			run.followed(decision.NextSame, why)
		} else {
			run.leftFor = why
			// What was granted to the attempt that is not made is not handed on.
			run.free, run.fresh, run.rotated = false, false, false
			run.leave(s, report)
			return false
		}
	}
}

// leftFor tells the bucket of p that the request's last attempt on it is over: if
// that failed, it was one of the failed requests in a row, whatever became of
// the request.
func leftFor(p *breaker.Permit) (open bool) { return p != nil && p.Left() }

// draw takes the coming attempt from the shared retry budget, if it is one
// that draws. False means that the budget is empty.
func (run *run) draw() bool {
	if len(run.d.Attempts) == 0 {
		run.first = run.router.Budget.First()
		return true
	}
	if run.free {
		run.free = false
		return true
	}
	last := &run.d.Attempts[len(run.d.Attempts)-1]
	bucket := decision.Bucket{Upstream: last.Provider, Capability: last.Capability}
	return run.router.Budget.Draw(bucket, run.counted)
}

// tripWorst opens the bucket that emptied the retry budget, if one did. Where
// that is open already and the budget is empty all the same, it is the next one
// that took nearly as much: the upstream's other capabilities fail with it.
func (run *run) tripWorst() {
	drawn := run.router.Budget.Drawn()
	for _, d := range drawn {
		if 2*d.Times < drawn[0].Times {
			return
		}
		detail := fmt.Sprintf("the retry budget is empty, %d of its draws in 10s were for this bucket", d.Times)
		if run.router.Breakers.Group(d.Bucket.Upstream, decision.SetOf(d.Bucket.Capability)).Trip(decision.RetryBudget, detail) {
			return
		}
	}
}

func countsAgainstBucket(o decision.Outcome) bool {
	return o.Class.Blame() == decision.OfBucket && !o.NamesModel
}

// sameAgain waits for and allows another attempt on s after o, where one is due,
// and says what decided so.
func (run *run) sameAgain(s *standing, o decision.Outcome, report breaker.Report) (bool, decision.Why) {
	switch {
	case run.ctx.Err() != nil:
		return false, decision.Why(decision.ClientGone)
	case run.remaining() <= 0:
		return false, decision.Why(run.failure)
	}
	if o.Class.Blame() == decision.OfCredential && run.anotherKey(s, o) {
		run.free, run.rotated = true, true
		return true, decision.WhyAnotherKey
	}
	next := run.nextKind(s)
	again := policy.SameAgain(run.q.Terms, o, policy.Situation{
		FirstFailure: report.FirstFailure,
		Retried:      s.retried,
		Resent:       run.resent,
		Next:         next,
		Patience:     max(s.Upstream.Patience-s.waited, 0),
		MaxWait:      min(run.plan.MaxWait-run.waited, run.remaining()),
	})
	switch {
	case !again.OK && o.Class == decision.LocalRefusal:
		return false, decision.Why(run.failure)
	case !again.OK:
		return false, again.Why
	case run.attempts >= run.plan.Attempts, next != policy.NoNext && run.attempts+1 >= run.plan.Attempts:
		// The last attempt is for who has not been asked.
		return false, decision.WhyAttempts
	}
	wait := again.NotBefore
	if again.Backoff {
		wait = max(wait, jitter(s.Upstream.Base, s.Upstream.Cap, run.attempts-1))
	}
	if wait > run.plan.MaxWait-run.waited {
		return false, decision.WhyMaxWait
	}
	if wait >= run.remaining() {
		return false, decision.WhyOf(decision.Deadline)
	}
	began := time.Now()
	if !sleep(run.ctx, wait) {
		run.rested += time.Since(began)
		return false, decision.Why(decision.ClientGone)
	}
	if again.Resend {
		run.resent, run.fresh = true, true
	} else {
		s.retried = true
	}
	run.rest(wait)
	s.waited += wait
	run.free = again.Free
	return true, again.Why
}

// anotherKey: a key that is dead gives way to the next of the same upstream at once.
func (run *run) anotherKey(s *standing, o decision.Outcome) bool {
	if run.q.Terms.Task.SideEffects && !run.q.Terms.OperationID && !policy.Unprocessed(o) {
		return false
	}
	_, why := s.Upstream.Client.PickKey(s.keys)
	return why == ""
}

// leave gives s up for this request.
func (run *run) leave(s *standing, report breaker.Report) {
	s.left = true
	run.switches++
	open := report.Open
	if run.counted {
		open = leftFor(run.held.permit) || open
	}
	if open && !run.freeMoveUsed {
		run.free, run.freeMoveUsed = true, true
	}
}

// exhausted says whether the request as such may not go on.
func (run *run) exhausted() bool {
	switch {
	case run.ctx.Err() != nil:
		run.last = decision.ReasonOf(decision.ClientGone)
		run.ended(decision.Why(decision.ClientGone))
		return true
	case run.attempts >= run.plan.Attempts:
		run.ended(run.bounded(decision.WhyAttempts))
		return true
	case run.switches > run.plan.MaxSwitches:
		run.ended(run.bounded(decision.WhyMaxSwitches))
		return true
	case run.remaining() <= 0:
		if !isTimeout(run.outcome.Class) {
			run.last = decision.Deadline
		}
		run.ended(decision.WhyOf(decision.Deadline))
		return true
	}
	return false
}

func isTimeout(c decision.Class) bool {
	switch c {
	case decision.FirstOutputTimeout, decision.AttemptTimeout, decision.IdleTimeout, decision.CallerDeadline:
		return true
	}
	return false
}

func (run *run) remaining() time.Duration { return time.Until(run.deadline) }
