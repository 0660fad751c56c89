package router

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/decision"
	"failback/gateway/upstream"
)

// latencyMargin is what is added to a measured p99 before it limits anything.
const latencyMargin = 1.5

// unmeasured stands for p99 × 1.5 of a bucket without samples when a caller's
// own limit cuts an attempt: below it the cut says nothing of the bucket.
const unmeasured = 20 * time.Second

// limits are the time bounds of one attempt.
type limits struct {
	firstOutput time.Duration // streams; 0: none
	whole       time.Duration // unary and held answers; 0: none
	// watchdog: firstOutput is a failover limit, not the end of the request's time.
	watchdog bool
	// neutral: a cut at the end of the request's part says nothing of the
	// bucket, since only the caller's or the task's own deadline made it this short.
	neutral bool
}

// limitsFor gives s its fair part of what is left of the deadline, bounded by
// the watchdogs while somebody else is left.
func (run *run) limitsFor(s *standing) limits {
	left := max(run.remaining(), time.Millisecond)
	n := run.remainingCandidates(s)
	if n > 1 && !run.mayMoveOn(s) {
		n = 1 // what timed out may have been processed, and then nobody else may have it
	}
	stream, held := run.q.Facts.Stream, run.q.Held()
	group := s.Group(run.q.Needs)
	var p99 time.Duration
	var known bool
	if stream && !held {
		p99, known = group.FirstOutputP99(s.Model)
	} else {
		p99, known = group.WholeP99(s.Model)
	}
	usual := time.Duration(float64(p99) * latencyMargin)

	part := left
	if n > 1 {
		part = left / time.Duration(n)
		if known {
			part = min(max(part, usual), left)
		}
	}
	l := limits{}
	limit := part
	if n > 1 {
		switch {
		case !stream:
			if guard := max(s.Upstream.UnaryFloor, usual); guard < limit {
				limit = guard
			}
		case s.Upstream.WatchdogOff:
			l.watchdog = true
		case held:
			// It gives signs of life as any stream does; only its end is
			// bounded as a whole.
			if guard := s.firstOutputGuard(group); guard < limit {
				l.firstOutput, l.watchdog = guard, true
			}
		default:
			limit, l.watchdog = min(limit, s.firstOutputGuard(group)), true
		}
	}
	if run.ownLimit && limit == part {
		if !known {
			usual = unmeasured
		}
		l.neutral = limit < usual
	}
	if stream && !held {
		l.firstOutput = limit
	} else {
		l.whole = limit
	}
	return l
}

// ended reports whether the end of the request's part cut the attempt, rather
// than a silence that is too long whoever waits.
func (l *limits) ended(o decision.Outcome) bool {
	switch {
	case o.Relayed:
		return false
	case l.whole > 0:
		return o.Class == decision.AttemptTimeout
	}
	return o.Class == decision.FirstOutputTimeout || o.Class == decision.AttemptTimeout
}

// firstOutputGuard is how long a stream on s may give no output while somebody
// else is left.
func (s *standing) firstOutputGuard(group *breaker.Group) time.Duration {
	u := s.Upstream
	p99, known := group.FirstOutputP99(s.Model)
	if !known {
		return u.Ceiling
	}
	return min(max(time.Duration(float64(p99)*latencyMargin), u.Floor), u.Ceiling)
}

// attempt makes one exchange with s, whose permit is held, and books its end.
func (run *run) attempt(s *standing) (decision.Outcome, breaker.Report) {
	q, d, h := run.q, run.d, &run.held
	if !run.rotated {
		run.attempts++
	}
	run.rotated = false
	s.asked = true
	run.primaryFailed = run.primaryFailed || !s.primary && run.askedPrimary()
	key, _ := s.Upstream.Client.PickKey(s.keys)
	l := run.limitsFor(s)
	d.Attempts = append(d.Attempts, run.begun(s))
	traceparent, tracestate := run.trace(&d.Attempts[len(d.Attempts)-1])
	call := &upstream.Call{
		Endpoint:    q.Endpoint,
		Header:      q.Header,
		Body:        q.Body,
		ModelStart:  q.Facts.ModelStart,
		ModelEnd:    q.Facts.ModelEnd,
		Model:       s.Model,
		Stream:      q.Facts.Stream,
		Choices:     q.Facts.Choices,
		Hold:        q.Held(),
		MaxHeld:     run.plan.MaxHeldBytes,
		Key:         key,
		Fresh:       run.fresh,
		Traceparent: traceparent,
		Tracestate:  tracestate,
		FirstOutput: l.firstOutput,
		Whole:       l.whole,
		Begin:       func(status int, header http.Header) error { return run.begin(s, status, header) },
		Write:       run.write,
		Buffers:     q.Buffers,
	}
	if h.permit != nil {
		call.OnOutput = h.permit.Output
	}
	o := run.exchange(s, call)
	run.moved = context.Cause(h.ctx) == upstream.ErrMoved
	if o.Class == decision.FirstOutputTimeout && !l.watchdog {
		o.Class = decision.AttemptTimeout
	}
	booked := o
	run.hurried = false
	if l.neutral && l.ended(o) {
		booked.Class = decision.CallerDeadline
		run.hurried = run.callersLimit
		if run.hurried && run.remaining() <= 0 {
			o.Class = decision.CallerDeadline
		}
	}
	run.fresh = false
	made := &d.Attempts[len(d.Attempts)-1]
	made.Outcome, made.Hurried = o, booked.Class == decision.CallerDeadline
	made.Remaining = max(run.remaining(), 0)
	made.RetryTokens, _ = run.router.Budget.Available()
	run.outcome, run.errorAnswer, run.counted = o, call.ErrorAnswer, countsAgainstBucket(booked)
	report := run.book(s, key, booked)
	run.giveBack(tokensUsed(o))
	return o, report
}

// exchange makes one exchange with s.
func (run *run) exchange(s *standing, call *upstream.Call) decision.Outcome {
	defer run.drainAfterClient()()
	return s.Upstream.Client.Attempt(run.held.ctx, call)
}

// book tells everyone who keeps state of s how the attempt ended.
func (run *run) book(s *standing, key upstream.Key, o decision.Outcome) breaker.Report {
	run.router.Faults.Observe(s.Upstream.Name, o, time.Now())
	if observe := run.router.Observe; observe != nil {
		observe(s.Upstream.Name, &o)
	}
	switch o.Class.Blame() {
	case decision.OfCredential:
		s.keys |= key.Bit()
		run.router.Book.Failed(s.Upstream.Client, key, o.Class)
	case decision.OfUpstreamModel:
		name := s.Model
		if !o.NamesModel {
			name = s.onEndpoint[run.q.Endpoint]
		}
		s.Upstream.Client.CoolModel(name, o.Class, o.RetryAfter)
	case decision.OfUs:
		run.router.alarm("upstream " + s.Upstream.Name + ": " + string(o.Class) + ": " + o.Detail)
	default:
		if o.NamesModel {
			s.Upstream.Client.CoolModel(s.Model, o.Class, o.RetryAfter)
		}
	}
	if o.Class == decision.OK {
		run.router.Book.OK(s.Upstream.Client, key)
		s.Upstream.Client.ModelAnswered(s.Model, s.onEndpoint[run.q.Endpoint])
		run.router.Bindings.Put(o.ResponseID, s.Upstream.Name)
	}
	if run.held.permit == nil {
		return breaker.Report{}
	}
	report := run.held.permit.Done(o)
	if run.counted && !report.Open {
		if next := run.other(s); next != nil {
			group := s.Group(run.q.Needs)
			if group.TripByWeight(s.Model, s.Weight, next.Group(run.q.Needs).Effective(next.Model, next.Weight)) {
				report.Open = true
			}
		}
	}
	return report
}

// tokensUsed is what an attempt took of a limit: what was reported, nothing if
// it failed, else nobody knows.
func tokensUsed(o decision.Outcome) int {
	const unknown = -1
	if n := o.InputTokens + o.OutputTokens; n > 0 {
		return n
	}
	if o.Class == decision.OK {
		return unknown
	}
	return 0
}

// begin starts the client's answer with what is known now.
func (run *run) begin(s *standing, status int, h http.Header) error {
	run.selected(s)
	if run.clientLeft() {
		run.unread = true
		return nil
	}
	return run.out.Begin(status, h, run.d)
}

// write gives p to the client. What nobody is there to get is no output.
func (run *run) write(p []byte) error {
	if run.unread || run.clientLeft() {
		run.unread = true
		return nil
	}
	if err := run.out.Write(p); err != nil {
		return err
	}
	if !run.d.HasFirstOutput {
		run.d.HasFirstOutput = true
		run.d.FirstOutput = time.Since(run.q.Accepted)
	}
	return nil
}

// attemptContext is what an attempt runs under: the client's, or one that
// outlives the client where its answer is to be read to the end.
func (run *run) attemptContext() context.Context {
	switch {
	case run.plan.Drains == 0:
		return run.ctx
	case run.router.Life != nil:
		return run.router.Life
	}
	return context.WithoutCancel(run.ctx)
}

// clientLeft: the client is gone, and the attempt runs on without it.
func (run *run) clientLeft() bool { return run.plan.Drains > 0 && run.ctx.Err() != nil }

// drainAfterClient lets the attempt at hand run on when the client leaves, if
// there is room for one more such; else it ends with the client. The returned
// function must be called when the attempt is over.
func (run *run) drainAfterClient() (over func()) {
	if run.plan.Drains == 0 {
		return func() {}
	}
	drains, cancel, limit := &run.router.drains, run.held.cancel, run.plan.Drains
	left := make(chan struct{})
	stop := context.AfterFunc(run.ctx, func() {
		defer close(left)
		if drains.Add(1) > limit {
			cancel(upstream.ErrClientGone)
		}
	})
	return func() {
		if !stop() {
			<-left
			drains.Add(-1)
		}
	}
}

// move returns the function that gives an attempt up when its bucket opens.
func (run *run) move(cancel context.CancelCauseFunc) func() {
	return func() { cancel(upstream.ErrMoved) }
}

// jitter is full jitter: anything up to base·2^n, at most limit.
func jitter(base, limit time.Duration, n int) time.Duration {
	d := limit
	if n < 16 && base<<n < limit {
		d = base << n
	}
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// sleep waits for d and reports true, or false as soon as ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
