package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/health"
	"failback/gateway/notify"
	"failback/gateway/traffic"
	"failback/gateway/traffic/evidence"
)

// judgeEvery is how often the upstreams are judged. Windows count the time
// between two judgements, at most mostBetween of it: a process that stood still
// served nobody.
const (
	judgeEvery  = time.Second
	mostBetween = 5 * time.Second
)

// judged is what one judgement came to; not changed once it is shown.
type judged struct {
	at      time.Time
	state   health.State
	since   time.Time // of healthy or suspect
	why     string
	signals []health.Signal
	verdict *evidence.Verdict // of the step in force, nil if there is none
	share   int               // at which it was judged
	taken   time.Time         // when that share was taken
}

// isOf reports whether s is still at the step that was judged: the same share
// taken again is another one.
func (j *judged) isOf(s traffic.State) bool { return j.share == s.Share && j.taken.Equal(s.Since) }

// of is the verdict of the step that s is at, nil if there is none yet.
func (j *judged) of(s traffic.State) *evidence.Verdict {
	if j == nil || s.Condition() != traffic.Recovering || !j.isOf(s) {
		return nil
	}
	return j.verdict
}

// judge judges all upstreams over and over, and does what follows from it.
func (g *Gateway) judge(ctx context.Context) error {
	g.jobs.Register(jobHealth, judgeEvery)
	tick := time.NewTicker(judgeEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := time.Now()
		passed := now.Sub(last)
		served := min(passed, mostBetween)
		last = now
		g.traffic.Serve(served)
		in := g.inspect()
		for i := range in.setup.cfg.Upstreams {
			u := &in.setup.cfg.Upstreams[i]
			in.setup.watched[u.Name].machine.Unwatched(passed - served)
			g.judgeOne(in, u, served)
		}
		g.observeIncidents(in)
		g.jobs.Ran(jobHealth, nil)
	}
}

func (g *Gateway) judgeOne(in *inspection, u *config.Upstream, served time.Duration) {
	w := in.setup.watched[u.Name]
	state, ok := g.traffic.Get(u.Name)
	if !ok {
		return
	}
	w.evidence.Serve(served)
	facts, verdict := in.facts(u, w, state)
	now, wish, transition := w.machine.Step(in.now, facts)
	w.evidence.Tick(now == health.Healthy, in.now)
	j := &judged{
		at: in.now, state: now, since: in.now, why: w.machine.Explain(), signals: w.machine.Signals(),
		verdict: verdict, share: state.Share, taken: state.Since,
	}
	if was := w.judged.Load(); was != nil && was.state == now {
		j.since = was.since
	}
	w.judged.Store(j)
	if transition != nil {
		g.event(transition.Event(u.Name, u.Region))
	}
	g.pace(in, u, now, j.signals)
	in.setup.upstreams[u.Name].Spare.Store(state.Machine && facts.Probed)
	if verdict != nil && verdict.Verdict == evidence.Pass {
		g.traffic.MarkPassed(u.Name, state.Revision)
	}
	g.act(in, u, state, wish)
	w.reconsider(verdict, wish, in.setup.observe(state), in.now)
	w.ask(g.notify, u.Name, waitsFor(facts, wish, j.why), in.now)
}

// pace has an upstream probed as fast as its breaker would, while it is suspect
// or degraded. Its breakers are then probed by the prober: clients, who are
// many, would leave it none of their probes, and health without the signal that
// does not hang on traffic.
func (g *Gateway) pace(in *inspection, u *config.Upstream, state health.State, signals []health.Signal) {
	every := time.Duration(0)
	hurry := health.Hurry(state, signals)
	if hurry {
		every = u.Breaker.Cooldown
	}
	g.prober.Pace(u.Name, every)
	g.breakers.Reserve(u.Name, state == health.Degraded || hurry && in.probesAll(u.Name))
}

// state is the health of name as it was judged last.
func (in *inspection) state(name string) health.State { return health.State(in.healthOf(name)) }

// fromSuspect has a change that the share table tells come from suspect where
// that is what the upstream was: the table does not know it.
func (g *Gateway) fromSuspect(e decision.Event) decision.Event {
	s := g.setup.Load()
	if s == nil || e.Kind != decision.KindHealthTransition || e.From != string(health.Healthy) || e.To == string(health.Suspect) {
		return e
	}
	if w := s.watched[e.Provider]; w != nil {
		if j := w.judged.Load(); j != nil && j.state == health.Suspect {
			e.From = string(health.Suspect)
		}
	}
	return e
}

// act does what the machine wishes, unless an operator was faster.
func (g *Gateway) act(in *inspection, u *config.Upstream, s traffic.State, w health.Wish) {
	if w.Move == health.Stay {
		return
	}
	if w.Would {
		if w.New {
			g.event(decision.Event{
				Kind: decision.KindHealthTransition, Provider: u.Name, Region: u.Region, From: string(in.state(u.Name)), To: string(in.state(u.Name)),
				Reason: w.Reason, Detail: fmt.Sprintf("would %s to %d%% (health.mode is shadow): %s", w.Move, w.To, w.Detail),
				Action: w.Move.String(), By: decision.Auto, Result: "shadow",
			})
		}
		return
	}
	var err error
	switch w.Move {
	case health.Degrade:
		_, err = g.traffic.Degrade(traffic.Degradation{Upstream: u.Name, By: decision.Auto, Reason: w.Reason, Detail: w.Detail})
	case health.Recover, health.Climb:
		if in.blockedBy(u.Name) != "" || g.router.Passthrough() != nil {
			return // what a person would be refused, or while shares decide nothing
		}
		c := traffic.Command{
			Upstream: u.Name, Share: w.To, Revision: &s.Revision, Raise: true, By: decision.Auto, Why: w.Detail,
			Collapse: len(in.setup.primaryOf(u.Name)) == 0,
		}
		if s.Plan != nil && w.Move == health.Climb { // the way out of degraded is in no plan
			c.By = decision.ByPlan(s.Plan.By)
		}
		_, err = g.traffic.Set(c)
	case health.Retreat:
		_, err = g.traffic.Retreat(u.Name, w.Reason, w.Detail, s.Revision)
	case health.Settle:
		_, err = g.traffic.Settle(u.Name, w.Detail, s.Revision)
	}
	if _, stale := errors.AsType[*traffic.StaleError](err); err != nil && !stale {
		g.alarm(fmt.Sprintf("%s: %s: %v", u.Name, w.Move, err))
	}
}

// stateOf is the health of s as far as the share table knows it.
func stateOf(s traffic.State) health.State {
	switch s.Condition() {
	case traffic.Degraded:
		return health.Degraded
	case traffic.Recovering:
		return health.Recovering
	}
	return health.Healthy
}

// waitsFor says for what an upstream waits that only a person can do; empty if
// for nothing.
func waitsFor(f health.Facts, w health.Wish, why string) string {
	switch {
	case w.Move != health.Stay && !w.Would:
		return ""
	case f.Condition == health.IsDegraded && f.Probed,
		f.Condition == health.IsRecovering && f.Share < traffic.Full && f.Evidence == health.Pass:
		return why
	}
	return ""
}

// ask tells a person that what waits for them, when a step begins to wait.
func (w *watched) ask(n *notify.Notifier, upstream, what string, now time.Time) {
	var waits step
	if what != "" {
		w.mu.Lock()
		waits = w.step
		w.mu.Unlock()
	}
	told := waits == w.waits
	w.waits = waits
	if !told && what != "" {
		n.Tell(notify.Message{Kind: notify.Waiting, Upstream: upstream, Text: what, At: now})
	}
}

// reconsider has a step that failed where nobody else could take over judged
// anew after as long as it is observed: it would fail for ever for what is over.
func (w *watched) reconsider(v *evidence.Verdict, wish health.Wish, observe time.Duration, now time.Time) {
	switch {
	case v == nil || v.Verdict != evidence.Fail || wish.Move != health.Stay:
		w.failing = time.Time{}
	case w.failing.IsZero():
		w.failing = now
	case now.Sub(w.failing) >= observe:
		w.failing = time.Time{}
		w.anew()
	}
}

// observe takes the end of one attempt of a client's request.
func (g *Gateway) observe(upstream string, o *decision.Outcome) {
	if w := g.setup.Load().watched[upstream]; w != nil {
		now := time.Now()
		w.recent.add(o, now)
		g.incidents.attempt(upstream, o, now)
	}
}

// gather takes d as evidence of how the primary does: by its last attempt
// there that says anything. What a passthrough sends there says nothing of a step.
func (g *Gateway) gather(d *decision.Decision) {
	w := g.setup.Load().watched[d.Primary]
	if w == nil || g.router.Passthrough() != nil || !w.counts(d.Time) {
		return
	}
	for i := len(d.Attempts) - 1; i >= 0; i-- {
		if a := &d.Attempts[i]; a.Provider == d.Primary && !a.Hurried {
			w.evidence.Add(evidence.SampleOf(a.Outcome, true, d.Overflow), time.Now())
			return
		}
	}
}

// conform makes breakers, probes and evidence of name follow its share.
func (g *Gateway) conform(s *setup, name string) {
	state, ok := g.traffic.Get(name)
	w := s.watched[name]
	if !ok || w == nil {
		return
	}
	g.breakers.SetReduced(name, state.Share < traffic.Full)
	g.breakers.Reserve(name, state.Condition() == traffic.Degraded)
	if state.Condition() != traffic.Degraded {
		s.upstreams[name].Spare.Store(false)
	}
	w.follow(state)
}

// follow has everything that hangs on what happened follow it.
func (g *Gateway) follow(e decision.Event) {
	s := g.setup.Load()
	if s == nil {
		return
	}
	switch e.Kind {
	case decision.KindTrafficStep, decision.KindHealthTransition:
		g.conform(s, e.Provider)
	case decision.KindBreakerTransition:
		if w := s.watched[e.Provider]; w != nil {
			w.turned(&e)
		}
	}
	if m, ok := messageOf(e); ok {
		g.notify.Tell(m)
	}
}

// messageOf says whom e must reach beside the screens, if anybody.
func messageOf(e decision.Event) (notify.Message, bool) {
	m := notify.Message{Upstream: e.Provider, Text: cmp.Or(e.Detail, said(e)), At: e.Time}
	switch {
	case e.Kind == decision.KindHealthTransition && e.To == string(health.Degraded):
		m.Kind = notify.Degraded
	case e.Kind == decision.KindTrafficStep && e.Reason == "retreat":
		m.Kind, m.Fields = notify.Retreat, map[string]string{"from": e.From, "to": e.To}
	case e.Kind == decision.KindSharedFault && e.To == "begun":
		m.Kind = notify.SharedFault
	case e.Kind == decision.KindCredential && e.To == "cooling":
		m.Kind = notify.Credential
	default:
		return m, false
	}
	return m, true
}

// said is what whoever did e gave as the reason.
func said(e decision.Event) string {
	switch {
	case e.By == "" || e.By == decision.Auto:
		return e.Why
	case e.Why == "":
		return "by " + e.By
	}
	return "by " + e.By + ": " + e.Why
}
