package gateway

import (
	"cmp"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/incident"
	"failback/gateway/telemetry"
	"failback/gateway/traffic"
)

// step looks at s and at what happened since, and has the incidents follow.
func (i *incidents) step(now time.Time, s incident.Situation) {
	i.changing.Lock()
	defer i.changing.Unlock()
	i.tell(now)
	if i.kept != nil && !i.kept.ready(now) {
		return // it is not known yet what is open
	}
	s.Silent = i.silence.Of(i.book.Records(), now)
	for range incident.MaxOpen {
		records := i.book.Records()
		found := incident.Observe(now, s, records)
		if len(found) == 0 {
			break
		}
		for _, f := range found {
			if f.Incident != "" {
				i.trouble(now, f.Incident, f, s)
				continue
			}
			i.open(now, f, s)
			break // the others may belong to it
		}
	}
	for _, r := range i.book.Records() {
		if r.Open() && r.Milestones.FirstSwitch.IsZero() && len(r.Troubles) > 0 {
			if at, upstream := i.look.FirstSwitchOf(s.About(r.Upstreams...), cmp.Or(r.Milestones.FirstFailure, r.OpenedAt), now); !at.IsZero() {
				i.book.Do(r.ID, incident.Op{Kind: incident.OpSwitch, At: now, FirstSwitch: at, Upstream: upstream}, false)
			}
		}
	}
	if i.follow(now); now.Sub(i.counted) >= countEvery {
		i.flushCounts(now)
	}
}

// tell puts what happened into the timeline that it belongs to. It requires
// changing.
func (i *incidents) tell(now time.Time) {
	i.mu.Lock()
	queue, missed := i.queue, i.missed
	i.queue, i.missed = nil, 0
	i.past = append(i.past, queue...)
	i.past = i.past[max(0, len(i.past)-pastEvents):]
	i.mu.Unlock()
	if len(queue) == 0 {
		return
	}
	records := i.book.Records()
	for _, e := range queue {
		if r, ok := incident.Concerned(records, e, now); ok {
			op := eventOp(e)
			op.Lost, missed = missed, 0
			i.book.Do(r.ID, op, false)
		}
	}
}

func eventOp(e decision.Event) incident.Op {
	line := telemetry.EventLine(e)
	return incident.Op{Kind: incident.OpEvent, At: e.Time, By: cmp.Or(e.By, decision.Auto), Event: &line}
}

// begin opens an incident with what led to it since a time; zero: not known. It
// requires changing.
func (i *incidents) begin(id string, op incident.Op, since time.Time, claim bool) {
	op.Kind, op.ID = incident.OpOpen, id
	i.book.Do(id, op, claim)
	if since.IsZero() {
		since = op.At.Add(-incidentPast)
	}
	i.mu.Lock()
	past := slices.DeleteFunc(slices.Clone(i.past), func(e decision.Event) bool { return e.Time.Before(since) })
	i.mu.Unlock()
	for _, e := range past[max(0, len(past)-pastMost):] {
		i.book.Do(id, eventOp(e), false)
	}
}

func (i *incidents) open(now time.Time, f incident.Finding, s incident.Situation) {
	id := incident.NewID(now, salt())
	first := i.look.FirstFailureOf(s.About(f.Upstream), now)
	i.begin(id, incident.Op{At: now, By: decision.Auto, Cause: f.Cause, Title: f.Title}, first, true)
	i.trouble(now, id, f, s)
}

// salt tells incidents of one second apart.
func salt() string { return strings.ToLower(rand.Text()[:4]) }

func (i *incidents) trouble(now time.Time, id string, f incident.Finding, s incident.Situation) {
	op := incident.Op{
		Kind: incident.OpTrouble, At: now, By: decision.Auto, Key: f.Key, Cause: f.Cause, Upstream: f.Upstream,
		Phase: f.Phase, Shared: f.Shared, Text: f.Text,
	}
	if f.Since.After(now) {
		op.At = f.Since // by another gateway's clock
	}
	if f.Phase == incident.Ill {
		upstreams := s.About(f.Upstream)
		op.FirstFailure = i.look.FirstFailureOf(upstreams, now)
		op.FirstSwitch, _ = i.look.FirstSwitchOf(upstreams, cmp.Or(op.FirstFailure, f.Since), now)
	}
	i.book.Do(id, op, false)
	i.follow(now)
}

// observeIncidents has the incidents follow what in shows.
func (g *Gateway) observeIncidents(in *inspection) {
	i := g.incidents
	s := incident.Situation{Instance: g.instance}
	for k := range in.setup.cfg.Upstreams {
		name := in.setup.cfg.Upstreams[k].Name
		state, ok := g.traffic.Get(name)
		if !ok {
			continue
		}
		u := incident.Upstream{Name: name, State: in.healthOf(name), Share: state.Share, Since: state.StateSince, Why: state.Reason}
		if state.Condition() == traffic.Degraded {
			u.Probed = in.probed(in.probes[name])
			u.Failed = i.probed[name] && !u.Probed
			i.probed[name] = i.probed[name] || u.Probed
		} else {
			delete(i.probed, name)
		}
		s.Upstreams = append(s.Upstreams, u)
	}
	if in.fault != nil {
		s.Fault = &incident.Fault{Since: in.fault.Since, Reason: in.fault.Reason(), Detail: in.fault.Detail}
	}
	s.Ratio = i.ratio.Step(in.now, in.live.Traffic.FallbackRatio.Value, int(in.live.Traffic.RPS.Value*60), ratioLimit(in.setup.cfg))
	i.step(in.now, s)
	if i.kept != nil {
		i.kept.wake()
	}
}

// ratioLimit is the configured limit of the fallback ratio, 0 without one.
func ratioLimit(cfg *config.Config) float64 {
	if l := limit(cfg); l != nil {
		return l.FallbackRatio
	}
	return 0
}
