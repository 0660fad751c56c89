package ui

import (
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
)

// theIncident is one that is 25 minutes old and waits for its traffic.
func theIncident() *api.Incident {
	events := degradedEvents()
	at := func(before time.Duration, kind, by, text string) api.IncidentEntry {
		return api.IncidentEntry{At: ago(before), Kind: kind, By: by, Text: text}
	}
	v := &api.Incident{
		IncidentHead: api.IncidentHead{
			ID: "20261130-034840", Title: "anthropic-us-east-1 is degraded", State: api.IncidentOpen, Cause: api.CauseDegraded,
			Upstreams: []string{"anthropic-us-east-1"}, OpenedAt: ago(24 * time.Minute), OpenedBy: "auto",
			Milestones: api.Milestones{FirstFailure: ago(1481 * time.Second), FirstSwitch: ago(1480 * time.Second), Recovered: ago(5 * time.Minute)},
			Unanswered: []string{"sampled", "users", "primary", "runbook"}, Revision: 9, Entries: 7,
		},
		Closing: []api.ClosingQuestion{
			{ID: "window", Text: "Was the observation window held?", Fact: "anthropic-us-east-1 has share 0%: no window began", Answer: "not yet, waiting for the morning", By: "ana", At: ago(3 * time.Minute)},
			{ID: "sampled", Text: "Were degraded answers sampled: how many, and how many were bad?", Fact: "41 of 226 113 reported, 2 bad"},
			{ID: "forbidden", Text: "Were forbidden fallbacks checked?", Fact: "0 by the gateway's own count; query not-allowed", Answer: "none", By: "ben", At: ago(2 * time.Minute)},
			{ID: "users", Text: "Which users are to be told, and by whom?"},
			{ID: "primary", Text: "Is the primary back, or was it decided to stay on the fallback?"},
			{ID: "runbook", Text: "Which runbook was followed, and what is to be added to it?"},
		},
		Layers: []api.Layer{
			{Name: "technical", Degraded: api.Tally{Good: 226113, Bad: 404}, Primary: api.Tally{Good: 51204, Bad: 12}},
			{Name: "workflow", Degraded: api.Tally{Good: 226113}, Primary: api.Tally{Good: 51204}},
			{Name: "semantic", Degraded: api.Tally{Good: 39, Bad: 2}, Primary: api.Tally{Good: 40}},
			{Name: "task", Nothing: "nothing reported"},
		},
		Requests: api.IncidentRequests{Counted: "since the first failure at 2026-11-30 03:47:50Z", Primary: 51204, Degraded: 226113, Failed: 416, Kept: []string{"req_1", "req_2"}},
		At:       time.Now(),
	}
	v.Timeline = []api.IncidentEntry{
		{At: events[0].Time, Kind: "event", By: "auto", Text: "anthropic-us-east-1 text CLOSED > OPEN 12/20 failed (server_error x12)", Event: &events[0]},
		{At: events[1].Time, Kind: "event", By: "auto", Text: "anthropic-us-east-1 HEALTHY > SUSPECT", Event: &events[1]},
		at(24*time.Minute, "opened", "auto", "anthropic-us-east-1 is degraded"),
		at(21*time.Minute, "note", "ana", "their status page says elevated errors; ticket 4412"),
		at(12*time.Minute, "tick", "ana", "provider returns 5xx, step 2"),
		at(5*time.Minute, "milestone", "auto", "recovered: the last two probes of each candidate passed"),
		at(3*time.Minute, "answer", "ana", "window: not yet, waiting for the morning"),
	}
	return v
}

// openState is a degraded upstream whose incident is open.
func openState() api.State {
	s := degradedState(true)
	s.Incidents = []api.IncidentHead{theIncident().IncidentHead}
	return s
}

// giveIncident answers what the incident screen asks; nil: there is none.
func giveIncident(m *model, v *api.Incident) {
	now := time.Now()
	clock := sources.Clock{Sent: now, Received: now, At: now}
	all := &api.Incidents{Incidents: []api.IncidentHead{}, At: now}
	if v != nil {
		all.Incidents = append(all.Incidents, v.IncidentHead)
	}
	gen := ask(&m.live.incidents, now)
	m.Update(incidentsMsg{Gen: gen, Clock: clock, Value: all})
	if v == nil {
		return
	}
	m.incident.asked = v.ID
	gen = ask(&m.live.incident, now)
	m.Update(incidentMsg{v.ID, sources.Answer[api.Incident]{Gen: gen, Clock: clock, Value: v}})
}

// inIncident is the incident screen, with keys pressed there.
func inIncident(v func() *api.Incident, then ...string) func(*model) {
	return func(m *model) {
		give(m, openState(), degradedEvents(), nil)
		keys(m, "W", "i")
		giveIncident(m, v())
		keys(m, then...)
	}
}

func closedIncident() *api.Incident {
	v := theIncident()
	v.State, v.ClosedAt, v.ClosedBy, v.Unanswered = api.IncidentClosed, ago(time.Minute), "ben", nil
	v.Milestones.TrafficBack, v.Milestones.Closed = ago(2*time.Minute), ago(time.Minute)
	return v
}

func init() {
	none := func(m *model) {
		give(m, healthyState(), nil, nil)
		keys(m, "W", "i")
		giveIncident(m, nil)
	}
	hostile := func() *api.Incident {
		v := theIncident()
		h := "\x1b]52;c;eA==\x07\x1b[2J\u202ebad\r\n" + "wide 漢字 \x9b31m"
		v.Title, v.OpenedBy, v.Upstreams = h, h, []string{h, h}
		for i := range v.Timeline {
			v.Timeline[i].Text, v.Timeline[i].By = h, h
		}
		for i := range v.Closing {
			v.Closing[i].Answer, v.Closing[i].By, v.Closing[i].Fact = h, h, h
		}
		return v
	}
	situations = append(situations, []situation{
		{"incident-none", none},
		{"incident-open", inIncident(theIncident)},
		{"incident-closed", inIncident(closedIncident)},
		{"incident-note", inIncident(theIncident, append([]string{"n"}, word("ticket 4412")...)...)},
		{"incident-answer", inIncident(theIncident, "a", "down")},
		{"incident-close", inIncident(theIncident, "x")},
		{"incident-hostile", inIncident(hostile)},
		{"incident-overview", func(m *model) { give(m, openState(), degradedEvents(), nil) }},
	}...)
}
