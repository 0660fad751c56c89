package ui

import (
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/runbooks"
	"failback/ui/text"
)

// While a banner says that something is wrong START names a runbook, and it goes
// when the banner goes.
func TestNoticesHaveARunbook(t *testing.T) {
	now := time.Now()
	fine := func() *api.State {
		return &api.State{
			APIVersion: api.Version, Upstreams: []api.Upstream{{Name: "a", Share: 100, Breakers: []api.Breaker{{Bucket: "a:text", Capability: "text", State: "closed"}}}},
			Gateways: []api.Peer{{Instance: "gw-1", Answers: true}}, Incidents: []api.IncidentHead{{ID: "1", State: api.IncidentOpen}},
			Traces: api.Traces{Configured: true, Dropped: 4, LastOK: now}, Ping: api.Ping{Configured: true, LastOK: now},
			Notify: api.Notify{Configured: true, Pending: 1, LastOK: now}, Log: api.Log{Written: 9},
		}
	}
	const ours = "gateway-or-store"
	tests := []struct {
		word, runbook string
		broken        func(s *api.State)
	}{
		{"PASSTHROUGH", ours, func(s *api.State) {
			s.Passthrough = &api.Passthrough{Order: []string{"a"}, Until: now.Add(time.Minute)}
		}},
		{"SHARED FAULT", "shared-fault", func(s *api.State) { s.SharedFault = &api.SharedFault{Reason: "path"} }},
		{"DRAINING", ours, func(s *api.State) { s.Draining = true }},
		{"OVERRIDE", ours, func(s *api.State) { s.Upstreams[0].Breakers[0].Forced = "open" }},
		{"OVERRIDE", ours, func(s *api.State) { s.Upstreams[0].Breakers[0].Forced = "closed" }},
		{"STORE", ours, func(s *api.State) { s.Store.Error = "disk full" }},
		{"SILENT", ours, func(s *api.State) { s.Gateways[0].Answers = false }},
		{"CREDENTIAL", "our-credential", func(s *api.State) { s.Upstreams[0].Credential = "credential" }},
		{"CREDENTIAL", "rate-limited", func(s *api.State) { s.Upstreams[0].Credential = "quota_exhausted" }},
		{"UNSYNCED", ours, func(s *api.State) { s.Upstreams[0].Unsynced = true }},
		{"UNSYNCED", ours, func(s *api.State) { s.Incidents[0].Unsynced = true }},
		{"DEPENDENCY", "shared-fault", func(s *api.State) { s.Dependencies = []api.Dependency{{Name: "vault", Result: "failed"}} }},
		{"TRACES", ours, func(s *api.State) { s.Traces.Error = "503" }},
		{"NOTIFY", ours, func(s *api.State) { s.Notify.LastError = "503" }},
		{"NOTIFY", ours, func(s *api.State) { s.Notify.Lost = 1 }},
		{"LATE", ours, func(s *api.State) { s.Jobs = []api.Job{{Name: "ledger", Late: true}} }},
		{"PING", ours, func(s *api.State) { s.Ping.Held = "ledger is late" }},
		{"PING", ours, func(s *api.State) { s.Ping.LastError = "503" }},
		{"AUDIT", ours, func(s *api.State) { s.Audit.Pending = 1 }},
		{"AUDIT", ours, func(s *api.State) { s.Audit.Lost = 1 }},
		{"CONFIG", ours, func(s *api.State) { s.Config.LastError = "line 3" }},
		{"LOG", ours, func(s *api.State) { s.Log.Error = "disk full" }},
		{"LOG", ours, func(s *api.State) { s.Log.Dropped = 1 }},
		// What somebody chose, and nothing is to be done about by night.
		{"RESTART", "", func(s *api.State) { s.Config.NeedsRestart = []string{"listen"} }},
		{"SHADOW", "", func(s *api.State) { s.Upstreams[0].Breakers[0].Mode = "shadow" }},
		{"VERSION", "", func(s *api.State) { s.APIVersion++ }},
		{"DEMO", "", func(s *api.State) { s.Demo = "a demonstration" }},
	}
	rs := embeddedRunbooks(t)
	proposed := func(s *api.State) (ids []string) {
		for _, m := range runbooks.Propose(rs, runbooks.Situation{State: s}) {
			ids = append(ids, m.Runbook.ID)
		}
		return ids
	}
	if ns, ids := text.Notices(fine(), now), proposed(fine()); len(ns) != 0 || len(ids) != 0 {
		t.Fatalf("of a gateway in good order: %+v, %v", ns, ids)
	}
	tested := make(map[string]bool)
	for _, tt := range tests {
		tested[tt.word] = true
		s := fine()
		tt.broken(s)
		if ns := text.Notices(s, now); len(ns) != 1 || ns[0].Word != tt.word {
			t.Errorf("%s: %+v", tt.word, ns)
		}
		if ids := proposed(s); tt.runbook == "" && len(ids) > 0 || tt.runbook != "" && !slices.Equal(ids, []string{tt.runbook}) {
			t.Errorf("%s: proposed are %v, want %q", tt.word, ids, tt.runbook)
		}
	}
	source, err := os.ReadFile("text/notice.go")
	if err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile(`\badd\([^"\n]*, "([A-Z ]+)",`).FindAllSubmatch(source, -1)
	if len(words) < 20 {
		t.Errorf("only %d notices are found in text/notice.go", len(words))
	}
	for _, w := range words {
		if !tested[string(w[1])] {
			t.Errorf("nobody says which runbook the notice %s has", w[1])
		}
	}
}
