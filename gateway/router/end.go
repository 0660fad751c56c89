package router

import (
	"time"

	"failback/gateway/decision"
	"failback/gateway/policy"
)

// note records how an attempt on s failed.
func (run *run) note(s *standing, o decision.Outcome) {
	reason := decision.ReasonOf(o.Class)
	if o.Class == decision.LocalRefusal {
		// Given up because the bucket opened meanwhile: why it opened is the
		// cause. Else we had no room or no key for it.
		if why := s.Group(run.q.Needs).Check(run.askFor(s, strictly, true)); why != "" {
			reason = why
		} else if run.moved {
			reason = decision.BreakerOpen // and closed again already
		}
	}
	run.last, run.failure = reason, reason
	run.stage = max(run.stage, policy.StageOf(o))
	run.causes = append(run.causes, policy.Cause{Reason: reason, AtPrimary: s.primary})
	if s.primary {
		run.primaryReason = reason
	}
	if run.d.Failed == "" {
		run.d.Failed = s.Upstream.Name
	}
}

func (run *run) askedPrimary() bool {
	for i := range run.order {
		if run.order[i].primary {
			return run.order[i].asked
		}
	}
	return false
}

// selected records that s is answering.
func (run *run) selected(s *standing) {
	d := run.d
	d.Selected, d.SelectedModel, d.Substitute = s.Upstream.Name, s.Model, s.Substitute
	d.Overflow = run.overflow
	if s.primary {
		d.Route, d.Status, d.Reason = decision.RoutePrimary, decision.Completed, decision.PrimaryCompleted
		if run.overflow {
			d.Reason = decision.Overflow
		}
		return
	}
	d.Route, d.Status, d.Reason = decision.RouteFallback, decision.DegradedCompleted, run.primaryReason
	d.Violation = !policy.MayServe(run.q.Terms, s.facts(false)).Allowed
}

// finish ends a request whose last attempt was the last word: an answer, a
// break midway, a client that left, or a budget that is empty.
func (run *run) finish(s *standing) End {
	o := run.outcome
	switch {
	case o.Class == decision.OK:
		run.selected(s)
		run.d.ResponseModel = o.ResponseModel
		if run.unread {
			run.d.Status = decision.Cancelled
			run.ended(decision.Why(decision.ClientGone))
			return End{}
		}
		run.followed(decision.NextAnswered, decision.Why(decision.OK))
		return End{}
	case o.Relayed:
		run.selected(s)
		run.d.ResponseModel = o.ResponseModel
		if s.primary {
			run.d.Reason = decision.ReasonOf(o.Class)
		}
		if run.d.Failed == "" {
			run.d.Failed = s.Upstream.Name
		}
		run.d.Status = decision.Incomplete
		run.ended(decision.WhyRelayed)
		if o.Class == decision.ClientGone || run.unread {
			run.d.Status = decision.Cancelled
			run.ended(decision.Why(decision.ClientGone))
		}
		return End{Ending: policy.Broken(run.d.Status)}
	case o.Class == decision.ClientGone:
		run.last = decision.ReasonOf(o.Class)
		run.ended(decision.Why(o.Class))
	}
	return run.stop()
}

// stop ends a request without an answer.
func (run *run) stop() End {
	d := run.d
	run.skipForbidden()
	switch {
	case run.last == "":
		run.last = decision.NotAllowed
	case run.primaryFailed && policy.CallersMistake(decision.Class(run.last)):
		// What a fallback has against the request is not the caller's mistake:
		// the primary might have taken it.
		run.last = run.primaryReason
	}
	ending := policy.End(run.q.Terms, policy.Finish{
		Last:          run.last,
		Attempted:     len(d.Attempts) > 0,
		PolicyRefused: run.policyRefused,
	})
	if ending.HTTPStatus == 0 && run.errorAnswer == nil {
		ending = policy.Unread(run.outcome.Class, run.outcome.Status)
	}
	if ending.Status == decision.Rejected && len(d.Attempts) > 0 {
		run.router.Budget.Rejected(run.first)
	}
	end := End{Ending: ending}
	if ending.HTTPStatus == 0 {
		end.Upstream = run.errorAnswer
	}
	end.RetryAfter, end.HasRetryAfter = run.retryAfter()
	d.Selected, d.SelectedModel, d.Substitute, d.Overflow, d.Violation = "", "", false, run.overflow, false
	d.Route, d.Status, d.Reason = decision.RouteNone, ending.Status, run.last
	return end
}

// skipForbidden notes of the candidates whose turn never came which of them
// could not have helped.
func (run *run) skipForbidden() {
	for i := range run.order {
		s := &run.order[i]
		if s.asked || s.skipped != "" {
			continue
		}
		s.skipped = run.rules(s)
		run.policyRefused = run.policyRefused || s.skipped == decision.NotAllowed
	}
}

// retryAfter is the earliest time at which somebody who may serve the request
// could: the end of a rate limit, the next probe of an open bucket.
func (run *run) retryAfter() (time.Duration, bool) {
	var least time.Duration
	found := false
	consider := func(d time.Duration) {
		if !found || d < least {
			least, found = d, true
		}
	}
	if run.outcome.HasRetryAfter {
		consider(run.outcome.RetryAfter)
	}
	for i := range run.order {
		s := &run.order[i]
		if s.terms != "" {
			continue
		}
		switch s.skipped {
		case "": // asked: its bucket may be open by now
			if d, ok := s.Group(run.q.Needs).RetryIn(); ok && s.asked {
				consider(d)
			}
		case decision.BreakerOpen, decision.Slow, decision.Weight, decision.RetryBudget, decision.ReasonOf(decision.RateLimited):
			if d, ok := s.Group(run.q.Needs).RetryIn(); ok {
				consider(d)
			}
		case decision.SharedFault:
			if at, ok := run.router.Faults.NextProbe(); ok {
				consider(max(time.Until(at), time.Second))
			}
		case decision.Capacity:
			consider(max(s.Upstream.Client.LimitWait(run.q.estimatedTokens()), time.Second))
		}
	}
	return least, found
}

// seal completes the decision; nothing changes it afterwards.
func (run *run) seal() {
	d := run.d
	d.Duration = time.Since(run.q.Accepted)
	d.RemainingDeadline = max(run.remaining(), 0)
	d.RetryTokens, _ = run.router.Budget.Available()
	d.Candidates = make([]decision.Candidate, len(run.order))
	for i := range run.order {
		s := &run.order[i]
		effective := s.Weight
		if g := s.Group(run.q.Needs); g != nil {
			effective = g.Effective(s.Model, s.Weight)
		}
		d.Candidates[i] = decision.Candidate{
			Provider:   s.Upstream.Name,
			Model:      s.Model,
			Weight:     effective,
			Share:      run.router.Traffic.Share(s.Upstream.Name),
			Substitute: s.Substitute,
			Primary:    s.primary,
		}
		if s.skipped == "" {
			s.skipped = s.terms
		}
		if !s.asked {
			if s.skippedWhy == "" {
				s.skippedWhy = run.explain(s)
			}
			c := &d.Candidates[i]
			c.Skipped, c.SkippedWhy, c.Blocked, c.SkippedAt = s.skipped, s.skippedWhy, s.blocked, s.skippedAt
		} else if !s.primary {
			d.Fallback = true
		}
	}
	if n := len(d.Attempts); n > 0 && d.Attempts[n-1].Next == "" {
		run.ended(decision.Why(decision.Internal)) // a panic: nothing came to its end
	}
}
