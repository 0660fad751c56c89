package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"failback/gateway/incident"
	"failback/gateway/operator/api"
	"failback/runbooks"
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
		Layers:       []api.Layer{{Name: api.LayerTask, Degraded: api.Tally{Good: 3, Bad: 1}, Nothing: evil}},
		Requests:     api.IncidentRequests{Counted: evil},
	}
	s := incidentText(in)
	if strings.ContainsAny(s, "\x1b\u202e") || strings.Contains(s, "b\nc") {
		t.Errorf("%q", s)
	}
	if !strings.Contains(s, "3/1") || strings.Count(s, "a\\x1b") < 5 {
		t.Errorf("%s", s)
	}
	if l := incidentList(&api.Incidents{Incidents: []api.IncidentHead{in.IncidentHead}}); strings.ContainsAny(l, "\x1b\u202e") {
		t.Errorf("%q", l)
	}
}

// A tick names a step that there is: of a built-in runbook, or of one of --runbooks.
func TestATickNamesAStep(t *testing.T) {
	dir := t.TempDir()
	own, err := os.ReadFile("runbooks/provider-5xx.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]string{"own.md": strings.Replace(string(own), "id: provider-5xx", "id: own", 1), "bad.md": "no runbook"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := runbooks.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for i := range all {
		if all[i].ID == "provider-5xx" {
			last = len(all[i].Steps())
		}
	}
	for _, c := range []struct {
		dir, id string
		step    int
		says    []string // nil: it is one
	}{
		{"", "provider-5xx", 1, nil},
		{"", "provider-5xx", last, nil},
		{"", "provider-5xx", last + 1, []string{"its steps are 1 to " + strconv.Itoa(last)}},
		{"", "provider-5xx", 0, []string{"has no step 0"}},
		{"", "own", 1, []string{`no runbook "own"`, all[0].ID, "--runbooks DIR"}},
		{dir, "own", last, nil},
		{dir, "provider-5xx", 1, nil},
		{dir, "own", last + 1, []string{"its steps are"}},
		{dir, "nosuch", 3, []string{`no runbook "nosuch"`, "own, ", "bad.md:1: "}},
	} {
		words, err := (&invocation{runbooks: c.dir}).stepWords(c.id, c.step)
		if (words != "") != (c.says == nil) {
			t.Errorf("%+v: %q", c, words)
		}
		if _, usage := errors.AsType[*usageError](err); (err != nil) != (c.says != nil) || err != nil && !usage {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
}
