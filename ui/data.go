package ui

import (
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
)

const (
	// maxChanges bounds the events that a console keeps.
	maxChanges = 5000
	// Decisions asked for on the overview and on their own screen.
	fewDecisions  = 20
	manyDecisions = 500
)

// data is what the console knows. It is a plain value: a copy is a frozen
// screen, since nothing it points to is changed afterwards.
type data struct {
	state     sources.Feed[api.State]
	events    sources.Feed[api.Events]
	decisions sources.Feed[api.Decisions]
	metrics   sources.Feed[sources.Overview]
	history   sources.Feed[sources.History]
	loki      sources.Feed[sources.LogAnswer] // of its probe
	incidents sources.Feed[api.Incidents]     // asked for on their screen alone
	incident  sources.Feed[api.Incident]

	// over says that the last overview's ratio was over the limit; under is when
	// the last one that was not was of, by the source's clock.
	over  bool
	under time.Time

	seen    seen        // decisions
	changes []api.Event // newest first
	after   uint64      // where the next question for events goes on
	lost    uint64      // events that had left the gateway's ring before they were seen
}

func newData() data {
	return data{
		state:     sources.Feed[api.State]{Period: sources.GatewayPeriod},
		events:    sources.Feed[api.Events]{Period: sources.GatewayPeriod},
		decisions: sources.Feed[api.Decisions]{Period: sources.GatewayPeriod},
		incidents: sources.Feed[api.Incidents]{Period: sources.GatewayPeriod},
		incident:  sources.Feed[api.Incident]{Period: sources.GatewayPeriod},
	}
}

// takeEvents adds what an answer brought and returns the new events, newest
// first. first says that they are the past, not news.
func (d *data) takeEvents(a sources.Answer[api.Events]) (fresh []api.Event, first bool) {
	first = d.events.Value() == nil
	if !d.events.Take(a) || a.Err != nil {
		return nil, first
	}
	es := a.Value.Events
	if len(es) == 0 {
		return nil, first
	}
	if !first {
		d.lost += a.Value.Dropped
	}
	seen := make(map[uint64]bool, len(es))
	for _, e := range es {
		seen[e.Seq] = true
	}
	known := make(map[uint64]bool)
	for i := range d.changes {
		if e := &d.changes[i]; seen[e.Seq] {
			known[e.Seq] = true
		}
	}
	for i := len(es) - 1; i >= 0; i-- {
		if !known[es[i].Seq] {
			fresh = append(fresh, es[i])
		}
	}
	d.after = es[len(es)-1].Seq
	all := make([]api.Event, 0, min(len(fresh)+len(d.changes), maxChanges))
	all = append(all, fresh[:min(len(fresh), maxChanges)]...)
	all = append(all, d.changes[:min(len(d.changes), maxChanges-len(all))]...)
	d.changes = all
	return fresh, first
}

// upstream finds one by name; nil if it is not configured, or nothing is known.
func (d *data) upstream(name string) *api.Upstream {
	s := d.state.Value()
	if s == nil {
		return nil
	}
	for i := range s.Upstreams {
		if s.Upstreams[i].Name == name {
			return &s.Upstreams[i]
		}
	}
	return nil
}

// clock is the gateway's time at our time now, to which all its times refer.
func (d *data) clock(now time.Time) time.Time { return d.state.Clock().Now(now) }

// shown reports whether e has a line of its own among the changes: a share
// command that took effect is told by its step already.
func shown(e *api.Event) bool {
	return !(e.Event == "operator_command" && e.Action == "share" && e.Result == api.ResultOK && e.From != e.To)
}
