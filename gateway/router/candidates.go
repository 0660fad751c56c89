package router

import (
	"context"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/decision"
	"failback/gateway/policy"
)

// manner is how strictly a candidate's state is read.
type manner uint8

const (
	strictly manner = iota
	// lastResort: nobody else may serve the request, so openings that only
	// mean "others are better" are passed.
	lastResort
	// overflowing: nobody else may serve it, so it may go beyond the share of
	// an upstream that is coming back, or could.
	overflowing
	// waiting: nobody else may serve it, so it may wait for room in a ramp.
	waiting
)

// held is what a candidate granted for one attempt.
type held struct {
	permit  *breaker.Permit
	first   breaker.Permit // backs permit of the first attempt
	used    bool           // first is used
	limit   func(tokens int)
	counted *Upstream
	ctx     context.Context
	cancel  context.CancelCauseFunc
}

// next takes the first candidate that may be asked now, with all that it must
// grant, or returns nil.
func (run *run) next() *standing {
	for i := range run.order {
		s := &run.order[i]
		if s.left {
			continue
		}
		run.shut, run.full = false, ""
		why := run.rules(s)
		if why == "" {
			why = run.take(s, strictly)
			s.rule = decision.WhyOf(why)
		}
		if why == "" {
			s.skipped, run.overflow = "", false
			return s
		}
		run.skip(s, why)
	}
	for _, how := range [...]manner{lastResort, overflowing, waiting} {
		for i := range run.order {
			s := &run.order[i]
			if s.left || !how.helps(run, s) || run.rules(s) != "" || run.take(s, how) != "" {
				continue
			}
			s.skipped = ""
			run.overflow = how == overflowing
			return s
		}
	}
	return nil
}

// helps reports whether reading s's state this way could change why it was skipped.
func (m manner) helps(run *run, s *standing) bool {
	switch m {
	case lastResort:
		switch s.skipped {
		case decision.Weight, decision.RetryBudget, decision.Slow, decision.Capacity,
			// These bind everybody, but a probe that is due may be this request.
			decision.BreakerOpen, decision.ReasonOf(decision.RateLimited):
			return true
		}
	case overflowing:
		return s.skipped == decision.TrafficShare || s.skipped == decision.UpstreamDegraded && s.Upstream.Spare.Load()
	case waiting:
		return s.skipped == decision.Capacity
	}
	return false
}

// skip notes why s was passed by.
func (run *run) skip(s *standing, why decision.Reason) {
	if s.skipped == why {
		return
	}
	s.skipped, s.blocked, s.skippedAt = why, run.shut, time.Since(run.q.Accepted)
	s.skippedWhy = run.explain(s)
	if s.primary && run.primaryReason == "" {
		run.primaryReason = why
	}
	switch why {
	case decision.NotAllowed:
		run.policyRefused = true
	case decision.DataZone, decision.NoCapability, decision.Passthrough:
	case decision.ReasonOf(decision.ContextLength):
		if !s.asked && !s.primary {
			break // its own context is too small, which says nothing of the others'
		}
		fallthrough
	default:
		run.last = why
		run.causes = append(run.causes, policy.Cause{Reason: why, AtPrimary: s.primary})
		return
	}
	if run.last == "" {
		run.last = why
	}
}

// rules says why the request's terms, or what happened to it so far, rule s out;
// s.rule is then the rule.
func (run *run) rules(s *standing) decision.Reason {
	if s.terms != "" {
		s.rule = decision.WhyOf(s.terms)
		return s.terms
	}
	if s.primary && len(run.d.Attempts) == 0 {
		return ""
	}
	for _, c := range run.causes {
		if v := policy.MayFallback(run.q.Terms, c, run.stage, s.facts(s.primary)); !v.Allowed {
			s.rule = v.Why
			return v.Reason
		}
	}
	return ""
}

// take takes from s all that it must grant before it may be asked; on a
// refusal it holds nothing and says why.
func (run *run) take(s *standing, how manner) decision.Reason {
	if why := run.closed(s, how); why != "" {
		return why
	}
	elsewhere := how == strictly && run.elsewhere(s)
	u := s.Upstream
	h := &run.held
	n := u.Inflight.Add(1)
	h.counted = u
	if limit := run.plan.UpstreamInflight; limit > 0 && elsewhere && n > limit {
		run.full = "it holds its part of max_inflight"
		run.giveBack(0)
		return decision.Capacity
	}
	release, ok := u.Client.Limit(run.q.estimatedTokens())
	if !ok {
		run.full = "its limits are reached"
		run.giveBack(0)
		return decision.Capacity
	}
	h.limit = release
	h.ctx, h.cancel = context.WithCancelCause(run.attemptContext())
	if run.pass == nil {
		why := run.admit(s, how, elsewhere)
		// Last: whoever is let through as the probe of a fault has used it up.
		if why == "" && run.faulty(s) && !run.router.Faults.AdmitProbe(time.Now()) {
			why = decision.SharedFault
		}
		if why != "" {
			run.giveBack(0)
			return why
		}
	}
	return ""
}

// faulty reports whether s fails for a reason that others share.
func (run *run) faulty(s *standing) bool { return run.router.Faults.Active().Covers(s.Upstream.Name) }

// barred reports whether it does and no probe of the fault is due.
func (run *run) barred(s *standing) bool {
	if !run.faulty(s) {
		return false
	}
	at, ok := run.router.Faults.NextProbe()
	return ok && time.Now().Before(at)
}

// admit asks the buckets that guard s.
func (run *run) admit(s *standing, how manner, elsewhere bool) decision.Reason {
	h := &run.held
	p := &h.first
	if h.used {
		p = new(breaker.Permit)
	}
	ask := run.askFor(s, how, elsewhere)
	ask.Deadline = run.deadline
	coming := run.attempts
	if !run.rotated {
		coming++
	}
	if elsewhere && run.mayLeave(coming) && run.mayMoveOn(s) {
		ask.OnOpen = run.move(h.cancel)
	}
	group := s.Group(run.q.Needs)
	why := group.Acquire(p, ask)
	if why != "" {
		s.turned, ask.Counted = true, true
	}
	if why == decision.Capacity && how == waiting {
		began := time.Now()
		why = group.Wait(run.ctx, p, ask, min(s.Upstream.Patience, run.plan.MaxWait-run.waited, run.remaining()))
		run.rest(time.Since(began))
	}
	switch why {
	case "":
	case decision.Capacity:
		run.full = "its breaker lets only so many through"
		return why
	default:
		run.shut = why != decision.NoCapability
		return why
	}
	h.permit, h.used = p, true
	return ""
}

func (run *run) askFor(s *standing, how manner, elsewhere bool) breaker.Ask {
	return breaker.Ask{
		Model:      s.Model,
		Stream:     run.q.Facts.Stream,
		Elsewhere:  elsewhere,
		LastResort: how == lastResort || how == waiting,
		NoProbe:    how == overflowing,
		Lot:        run.lot,
		Counted:    s.turned,
	}
}

// closed says why s's own state rules it out before its buckets are asked.
func (run *run) closed(s *standing, how manner) decision.Reason {
	if run.pass != nil {
		return ""
	}
	name := s.Upstream.Name
	switch {
	case run.barred(s):
		return decision.SharedFault
	case how == overflowing:
	case run.router.Traffic.Share(name) == 0:
		return decision.UpstreamDegraded
	case !run.q.Terms.Bound && !run.router.Traffic.Admits(name, run.q.Conversation, run.q.ID):
		return decision.TrafficShare
	}
	if _, why := s.Upstream.Client.PickKey(s.keys); why != "" {
		return why
	}
	for _, name := range [...]string{s.Model, s.onEndpoint[run.q.Endpoint]} {
		if class, cooling := s.Upstream.Client.ModelCooling(name); cooling {
			return decision.ReasonOf(class)
		}
	}
	return ""
}

// elsewhere reports whether another candidate than s may serve the request
// and admits it now.
func (run *run) elsewhere(s *standing) bool {
	return run.other(s) != nil
}

// other returns the first candidate besides s that may serve the request and
// admits it now.
func (run *run) other(s *standing) *standing {
	for i := range run.order {
		if o := &run.order[i]; o.Candidate != s.Candidate && run.admits(o) {
			return o
		}
	}
	return nil
}

// admits reports whether s may serve the request and would be given it now.
func (run *run) admits(s *standing) bool { return run.admitsAs(s, strictly) }

func (run *run) admitsAs(s *standing, how manner) bool {
	if s.left || run.rules(s) != "" || run.closed(s, how) != "" {
		return false
	}
	return run.pass != nil || s.Group(run.q.Needs).Check(run.askFor(s, how, false)) == ""
}

// mayMoveOn: an attempt on s that waits for output may be given up for
// another candidate although it may have been processed.
func (run *run) mayMoveOn(s *standing) bool {
	cause := policy.Cause{Reason: decision.BreakerOpen, AtPrimary: s.primary}
	o := run.other(s)
	return o != nil && policy.MayFallback(run.q.Terms, cause, policy.Sent, o.facts(o.primary)).Allowed
}

// manner returns how s is to be read when it is asked again.
func (run *run) manner(s *standing) manner {
	if run.elsewhere(s) {
		return strictly
	}
	if run.overflow {
		return overflowing
	}
	return lastResort
}

// mayLeave reports whether a request that has made so many attempts may still
// go to another candidate.
func (run *run) mayLeave(attempts int) bool {
	return attempts < run.plan.Attempts && run.switches < run.plan.MaxSwitches
}

// nextKind says who could take the request if s is left now: who admits it, or
// who would as a last resort, since that is what it would be.
func (run *run) nextKind(s *standing) policy.Next {
	if !run.mayLeave(run.attempts) {
		return policy.NoNext
	}
	for _, how := range [...]manner{strictly, lastResort} {
		for i := range run.order {
			o := &run.order[i]
			switch {
			case o.Candidate == s.Candidate || !run.admitsAs(o, how):
			case o.Substitute:
				return policy.NextSubstitute
			default:
				return policy.NextSame
			}
		}
	}
	return policy.NoNext
}

// remainingCandidates counts those that may still be tried, s included.
func (run *run) remainingCandidates(s *standing) int {
	n := 1
	for i := range run.order {
		if o := &run.order[i]; o.Candidate != s.Candidate && run.admits(o) {
			n++
		}
	}
	return min(n, 1+run.plan.MaxSwitches-run.switches, 1+run.plan.Attempts-run.attempts)
}

// giveBack returns whatever the last candidate granted. It may be called at
// any time, and more than once.
func (run *run) giveBack(tokens int) {
	h := &run.held
	if h.permit != nil {
		h.permit.Release()
	}
	if h.limit != nil {
		h.limit(tokens)
		h.limit = nil
	}
	if h.counted != nil {
		h.counted.Inflight.Add(-1)
		h.counted = nil
	}
	if h.cancel != nil {
		h.cancel(nil)
		h.cancel = nil
	}
}
