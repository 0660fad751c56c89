package router

import (
	"time"

	"failback/gateway/decision"
	"failback/gateway/policy"
	"failback/gateway/tracecontext"
)

// begun is the record of an attempt on s that begins now.
func (run *run) begun(s *standing) decision.Attempt {
	a := decision.Attempt{
		Provider:   s.Upstream.Name,
		Region:     s.Upstream.Region,
		Model:      s.Model,
		Capability: run.q.Needs.MostSpecific(),
		Primary:    s.primary,
		Started:    time.Since(run.q.Accepted),
		Share:      run.router.Traffic.Share(s.Upstream.Name),
		Weight:     s.Weight,
	}
	if g := s.Group(run.q.Needs); g != nil {
		a.Weight = g.Effective(s.Model, s.Weight)
	}
	return a
}

// trace says which trace the attempt a is part of. Where the request has a span,
// a gets one below it, and the upstream's are below that.
func (run *run) trace(a *decision.Attempt) (parent, state string) {
	if run.d.Span.IsZero() {
		return run.q.Traceparent, run.q.Tracestate
	}
	a.Span = tracecontext.NewSpanID()
	return tracecontext.Format(run.d.TraceID, a.Span, run.q.TraceFlags), run.q.Tracestate
}

// rest notes that the request waited for d instead of asking anybody.
func (run *run) rest(d time.Duration) {
	run.waited += d
	run.rested += d
}

// followed records what came after the last attempt, if there was one, and what
// decided so.
func (run *run) followed(next decision.Next, why decision.Why) {
	n := len(run.d.Attempts)
	if n == 0 {
		return
	}
	a := &run.d.Attempts[n-1]
	a.Next, a.Why, a.Wait = next, why, a.Wait+run.rested
	run.rested = 0
}

// ended records that nothing came after the last attempt.
func (run *run) ended(why decision.Why) { run.followed(decision.NextEnd, why) }

// hopeless returns what failed if it is of a kind that nobody else can help.
func (run *run) hopeless() (decision.Why, bool) {
	if len(run.causes) == 0 {
		return "", false
	}
	cause := run.causes[len(run.causes)-1]
	anybody := policy.Candidate{LargerContext: true}
	why := policy.MayFallback(run.q.Terms, cause, run.stage, anybody).Why
	return why, why == decision.WhyOf(cause.Reason)
}

// bounded is why a request ends at a bound of its configuration.
func (run *run) bounded(rule decision.Why) decision.Why {
	if why, ok := run.hopeless(); ok {
		return why
	}
	return rule
}

// nobody is why there is no candidate to be asked: what rules out the first of
// those who were not, before others one that the request's own terms allow.
func (run *run) nobody() decision.Why {
	if run.rested > 0 && run.ctx.Err() != nil {
		return decision.Why(decision.ClientGone)
	}
	if why, ok := run.hopeless(); ok {
		return why
	}
	if len(run.order) == 1 && run.order[0].left {
		return run.leftFor // there was no other: it is why this one was not asked again
	}
	why := decision.WhyNoCandidate
	for i := range run.order {
		switch s := &run.order[i]; {
		case s.left || s.skipped == "":
		case s.terms == "":
			return s.rule
		case why == decision.WhyNoCandidate:
			why = s.rule
		}
	}
	return why
}

// explain says for people why s was skipped, "" where its reason says it all.
func (run *run) explain(s *standing) string {
	switch {
	case s.blocked:
		return s.Group(run.q.Needs).Why()
	case s.skipped == decision.Capacity:
		return run.full
	case s.skipped == decision.SharedFault:
		if f := run.router.Faults.Active(); f != nil {
			return f.Detail
		}
	case s.skipped == decision.NotAllowed:
		return run.forbidden(s)
	}
	return ""
}

// forbidden says which rule of policy keeps the request from s.
func (run *run) forbidden(s *standing) string {
	switch s.rule {
	case decision.WhySideEffects:
		return "it may have been processed, and its task has side effects"
	case decision.WhyBound:
		return "the request names what only another upstream knows"
	}
	switch t := &run.q.Terms; {
	case t.Task.Fallback == policy.Never:
		return "its task takes the primary alone"
	case s.Substitute && t.Embeddings:
		return "embeddings of another model are not comparable"
	case s.Substitute:
		return "a substitute, and its task takes the same model alone"
	}
	return ""
}
