package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/incident"
	"failback/gateway/operator/api"
	"failback/sources"
)

// The query that a closing question names is there.
func TestTheQueryOfTheForbiddenExists(t *testing.T) {
	all := sources.CannedQueries(nil, `{service_name="failback"}`)
	if !slices.ContainsFunc(all, func(q sources.Canned) bool { return q.Name == incident.QueryForbidden }) {
		t.Errorf("no canned query %q", incident.QueryForbidden)
	}
}

// What people and other systems wrote drives no terminal.
func TestAnIncidentIsShownAsText(t *testing.T) {
	evil := "a\x1b[2J\u202eb\nc"
	in := &api.Incident{
		IncidentHead: api.IncidentHead{ID: "1", Title: evil, State: api.IncidentClosed, ClosedBy: evil, ClosedAt: time.Now()},
		Timeline:     []api.IncidentEntry{{Kind: api.EntryNote, By: evil, Text: evil}},
		Closing:      []api.ClosingQuestion{{ID: "users", Text: "who?", Fact: evil, Answer: evil, By: evil}},
		Layers:       []api.Layer{{Name: api.LayerTask, Degraded: api.Tally{Good: 3, Bad: 1}}},
	}
	s := incidentText(in)
	if strings.ContainsAny(s, "\x1b\u202e") || strings.Contains(s, "b\nc") {
		t.Errorf("%q", s)
	}
	if !strings.Contains(s, "3/1") || !strings.Contains(s, "none") {
		t.Errorf("%s", s)
	}
	if l := incidentList(&api.Incidents{Incidents: []api.IncidentHead{in.IncidentHead}}); strings.ContainsAny(l, "\x1b\u202e") {
		t.Errorf("%q", l)
	}
}
