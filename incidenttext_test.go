package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/gatewaytest"
)

// An incident as text says what happened when, what is not known and what is not
// written down.
func TestAnIncidentAsText(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 30, 3, minute, 0, 0, time.UTC) }
	i := &api.Incident{
		IncidentHead: api.IncidentHead{
			ID: "20261130-034840", Title: "a is degraded", State: api.IncidentOpen, OpenedAt: at(48), Unsynced: true, Lost: 3,
			Milestones: api.Milestones{FirstFailure: at(47), Recovered: at(59)},
		},
		Timeline: []api.IncidentEntry{{Kind: api.EntryNote, At: at(50), By: "ana", Text: "called them"}},
		Closing:  []api.ClosingQuestion{{ID: "users", Text: "who?"}, {ID: "cause", Text: "why?", Answer: "their deploy", By: "ben", At: at(55)}},
		Layers:   []api.Layer{{Name: "task", Nothing: "none reported", Primary: api.Tally{Good: 3}}},
	}
	has := func(s string, want, never []string) {
		t.Helper()
		s = strings.Join(strings.Fields(s), " ")
		for _, w := range want {
			if !strings.Contains(s, w) {
				t.Errorf("no %q in:\n%s", w, s)
			}
		}
		for _, w := range never {
			if strings.Contains(s, w) {
				t.Errorf("%q in:\n%s", w, s)
			}
		}
	}
	has(incidentText(i), []string{
		"since 2026-11-30 03:48:00Z, recovered 2026-11-30 03:59:00Z, UNSYNCED: its newest part is in memory alone",
		"2026-11-30 03:59:00Z +12m0s", "not yet", "none reported 3/0", " 3 ", "ana note: called them",
		"users: who? not answered", "cause: why? ben, 2026-11-30 03:55:00Z: their deploy",
	}, []string{"+0s", "0/0", "traffic back 2026"})
	i.Unsynced, i.Lost, i.Milestones = false, 0, api.Milestones{Recovered: at(59), TrafficBack: at(58)}
	has(incidentText(i), []string{"since 2026-11-30 03:48:00Z, traffic back 2026-11-30 03:58:00Z MILESTONES"}, []string{"UNSYNCED", " +"})
	i.State, i.ClosedAt, i.ClosedBy = api.IncidentClosed, at(59), "ben"
	has(incidentLine(&i.IncidentHead), []string{", closed 2026-11-30 03:59:00Z by ben"}, []string{"traffic back"})
}

// What a command line cannot mean is said before anybody is asked.
func TestFlagsOfOtherVerbs(t *testing.T) {
	nobody := "unix:" + filepath.Join(t.TempDir(), "nobody")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"incident", "note", "1", "text", "--override", "--reason", "r"}, "incident note takes no --override"},
		{[]string{"incident", "note", "1", "text", "--runbooks", "d"}, "incident note takes no --runbooks"},
		{[]string{"incident", "note", "1", "text", "--seen", "2026-11-30T03:48:00Z"}, "incident note takes no --seen"},
		{[]string{"incident", "close", "1", "--override"}, "--override needs --reason WHY"},
		{[]string{"incident", "close", "1", "--override", "--reason", " "}, "--override needs --reason WHY"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append(tt.args, "--connect", nobody), &out, &errs); code != exitUsage || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("%q: exit %d, %q", tt.args, code, errs.String())
		}
	}
}

// A share may be written as a percentage.
func TestAShareInPercent(t *testing.T) {
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) {
		s.You = api.You{Name: "ana", Role: api.RoleOperator}
		s.Upstreams = []api.Upstream{{Name: "a", Share: 25, Revision: 3, NextStep: api.NextStep{Share: 75}}}
	})
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"step", "a", "75%", "--connect", g.Target()}, &out, &errs); code != exitDone || !strings.Contains(out.String(), "share 75%") {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
}

// check --show prints the whole configuration, and nothing of the report.
func TestCheckShows(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "failback.yaml")
	if err := os.WriteFile(conf, []byte("listen: 127.0.0.1:4711\nupstreams: {a: {dialect: openai, base_url: \"https://api.example/v1\", api_key: literal-key}}\nmodels: {m: {candidates: [{upstream: a}]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"check", "--show", "--config", conf}, &out, &errs); code != exitDone || !strings.Contains(out.String(), "127.0.0.1:4711") || !strings.Contains(out.String(), "cooldown:") || strings.Contains(out.String(), "literal-key") {
		t.Errorf("exit %d, %s%s", code, out.String(), errs.String())
	}
}

// The evidence of a refused step is as old as the newest of it says.
func TestEvidenceTime(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	u := &api.Upstream{Evidence: &api.Evidence{At: at}, Probes: []api.Probe{{At: at.Add(2 * time.Second)}, {At: at.Add(time.Second)}, {}}}
	if got := evidenceTime(u); !got.Equal(at.Add(2 * time.Second)) {
		t.Errorf("%s", got)
	}
}

// What is not in an answer that is printed as data is said beside it.
func TestDataSaysWhatIsMissing(t *testing.T) {
	var out, errs bytes.Buffer
	in := &invocation{out: &out, err: &errs}
	if err := in.printData([]byte("{}"), &sources.LogAnswer{Warnings: []string{"one of three\x1b did not answer"}}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "{}\n" || errs.String() != "failback: partial: one of three\\x1b did not answer\n" {
		t.Errorf("%q, %q", out.String(), errs.String())
	}
}
