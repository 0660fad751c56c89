package runbooks

import (
	"slices"

	"failback/gateway/operator/api"
)

// Situation is what conditions are matched against. What is not known is left
// empty, and proposes nothing.
type Situation struct {
	// State is what the gateway last said; nil: nothing yet.
	State *api.State
	// Ratio is the fallback ratio, 0 to 1; nil: not known, or nothing to measure.
	Ratio *float64
	// Openings are those of the buckets that are not closed, since each last was,
	// oldest first, by the bucket's name. A bucket's own reason and detail are
	// those of its newest opening and need not be among them.
	Openings map[string][]Opening
	// Alerts are the names of those that fire.
	Alerts []string
	// Violations are the tasks that fell back although they may not, in the last
	// hour; Gone the upstreams that did not know a model, in the last minutes.
	Violations, Gone []string
}

// Opening is one opening of a bucket: of a closed one, or by a failed probe.
type Opening struct{ Reason, Detail string }

// burnsFast is the part of an error budget that goes in an hour from which on
// it burns fast, as the alerts have it.
const burnsFast = 0.02

// places is where a condition holds, and what to say of it.
type places struct {
	short, why string
	where      []string
	unhurried  bool // none of it is but one of the list of that name
}

func (p *places) add(where, short, why string) {
	if len(p.where) == 0 {
		p.short, p.why = short, why
	}
	if !slices.Contains(p.where, where) {
		p.where = append(p.where, where)
	}
}

// places finds where c holds. A condition about the gateway as a whole has an
// empty place.
func (c Condition) places(s *Situation) (p places) {
	is := func(w string) bool { return slices.Contains(c.Words, w) }
	switch c.Kind {
	case Violation:
		for _, task := range s.Violations {
			p.add(task, "not allowed", "task fell back that may not")
		}
	case FiringAlert:
		for _, a := range c.Words {
			if slices.Contains(s.Alerts, a) {
				p.add("", "alert", "alert "+a)
			}
		}
	case GoneModel:
		for _, u := range s.Gone {
			p.add(u, "model gone", "class model_gone")
		}
	}
	if s.State == nil {
		return p
	}
	switch c.Kind {
	case SharedFault:
		if f := s.State.SharedFault; f != nil {
			why := "shared fault, dependency "
			if f.Reason == "path" {
				why = "shared fault, "
			}
			p.add("", "shared fault", why+f.Reason)
		}
	case FailedDependency:
		for i := range s.State.Dependencies {
			if d := &s.State.Dependencies[i]; d.Result == "failed" {
				p.add(d.Name, "dependency", "dependency failed")
			}
		}
	case OverLimit:
		if l := s.State.Limit; l != nil && s.Ratio != nil && *s.Ratio > l.FallbackRatio {
			p.add("", "ratio over limit", "fallback ratio over its limit")
		}
	case BurningBudget:
		for i := range s.State.Models {
			m := &s.State.Models[i]
			for j := range m.Budgets {
				if b := &m.Budgets[j]; is(b.Objective) && fast(b) {
					p.add(m.Name, "budget", "error budget "+b.Objective+" burns fast")
				}
			}
		}
	case Troubled:
		for _, w := range Troubles { // the gravest first
			if t := trouble(s.State, w); t != "" && is(w) {
				p.unhurried = len(p.where) == 0 && slices.Contains(unhurried, w) || p.unhurried
				p.add("", "gateway", t)
			}
		}
	case OpenIncident:
		for i := range s.State.Incidents {
			switch h := &s.State.Incidents[i]; {
			case h.State != api.IncidentOpen:
			case is("traffic_back") && !h.Milestones.TrafficBack.IsZero():
				p.add(h.ID, "incident", "incident open, traffic back")
			case is("open"):
				p.add(h.ID, "incident", "incident open")
			}
		}
	default:
		for i := range s.State.Upstreams {
			c.upstream(&p, s, &s.State.Upstreams[i])
		}
	}
	return p
}

// upstream adds where c holds of u.
func (c Condition) upstream(p *places, s *Situation, u *api.Upstream) {
	switch c.Kind {
	case OpenBreaker:
		for j := range u.Breakers {
			b := &u.Breakers[j]
			if why, short, ok := c.breaker(b, s.Openings[u.Name+":"+b.Capability]); ok {
				p.add(u.Name+":"+b.Capability, short, why)
			}
		}
	case CoolingKeys:
		if slices.Contains(c.Words, u.Credential) {
			p.add(u.Name, "keys cool", "credential state "+u.Credential)
		}
	case RedSignal:
		for j := range u.Signals {
			if g := &u.Signals[j]; g.Colour == api.Red && slices.Contains(c.Words, g.Name) {
				p.add(u.Name, "signal red", "signal "+g.Name+" red")
			}
		}
	case GoneModel:
		for j := range u.Probes {
			if q := &u.Probes[j]; q.Result == "model_gone" {
				p.add(u.Name, "model gone", "a probe ended with model_gone")
			}
		}
	case BoundRate:
		for j := range u.Breakers {
			if b := &u.Breakers[j]; b.AdmittedRPS > 0 && b.Mode != "shadow" {
				p.add(u.Name+":"+b.Capability, "rate bound", "429s bind its rate")
			}
		}
	case BadHealth:
		if s.State.Passthrough == nil && slices.Contains(c.Words, u.Health) {
			p.add(u.Name, "health", "health "+u.Health)
		}
	case LoweredShare:
		if s.State.Passthrough == nil && u.Stated() && u.Share < 100 { // else no step has an effect
			p.add(u.Name, "share below 100%", "share below 100%")
		}
	}
}

// fast says that a fiftieth of b goes in an hour.
func fast(b *api.Budget) bool {
	return b.BurnFast.State == api.StateValue && b.WindowSeconds > 0 && b.BurnFast.Value > 0 &&
		b.BurnFast.Value >= max(burnsFast*b.WindowSeconds/3600, 1)
}

// trouble says what of the trouble w there is, empty if nothing. It is there for
// as long as the console has a banner of it.
func trouble(s *api.State, w string) string {
	switch w {
	case TroublePassthrough:
		if s.Passthrough != nil {
			return "passthrough is on"
		}
	case TroubleDraining:
		if s.Draining {
			return "this gateway stops"
		}
	case TroubleOverride:
		if slices.ContainsFunc(s.Upstreams, func(u api.Upstream) bool {
			return slices.ContainsFunc(u.Breakers, func(b api.Breaker) bool { return b.Forced != "" })
		}) {
			return "a breaker is forced"
		}
	case TroubleStore:
		if s.Store.Error != "" {
			return "store cannot be written"
		}
	case TroubleUnsynced:
		if slices.ContainsFunc(s.Upstreams, func(u api.Upstream) bool { return u.Unsynced }) {
			return "a share is UNSYNCED"
		}
		if slices.ContainsFunc(s.Incidents, func(h api.IncidentHead) bool { return h.Unsynced }) {
			return "an incident's record is UNSYNCED"
		}
	case TroublePeer:
		if slices.ContainsFunc(s.Gateways, func(p api.Peer) bool { return !p.Answers }) {
			return "a gateway is silent"
		}
	case TroubleJob:
		if slices.ContainsFunc(s.Jobs, func(j api.Job) bool { return j.Late }) {
			return "a job is late"
		}
	case TroubleNotify:
		if n := &s.Notify; n.Configured && (n.LastError != "" || n.Lost > 0) {
			return "people were not told"
		}
	case TroublePing:
		if p := &s.Ping; p.Configured && (p.Held != "" || p.LastError != "") {
			return "the dead man's switch is not held"
		}
	case TroubleConfig:
		if s.Config.LastError != "" {
			return "a reload was refused"
		}
	case TroubleAudit:
		switch {
		case s.Audit.Pending > 0:
			return "audit cannot be written"
		case s.Audit.Lost > 0:
			return "entries of the audit were lost"
		}
	case TroubleLog:
		switch {
		case s.Log.Error != "":
			return "decision log cannot be written"
		case s.Log.Dropped > 0:
			return "lines of the decision log were dropped"
		}
	case TroubleTraces:
		if t := &s.Traces; t.Configured && t.Error != "" {
			return "the collector takes no spans"
		}
	}
	return ""
}
