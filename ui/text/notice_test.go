package text

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// Everything that is wrong with the gateway itself is a notice, with what is wrong
// and for how long, and is none once it is over.
func TestEveryFaultOfTheGatewayIsANotice(t *testing.T) {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	tests := []struct {
		word, says string
		broken     func(s *api.State)
	}{
		{"PASSTHROUGH", "fixed order b > a; share", func(s *api.State) {
			s.Passthrough = &api.Passthrough{Order: []string{"b", "a"}, By: "ana", Until: now.Add(time.Minute)}
		}},
		{"PASSTHROUGH", "fixed order b, all gateways of the store; share", func(s *api.State) {
			s.Scope, s.Passthrough = "all gateways of the store", &api.Passthrough{Order: []string{"b"}, By: "ana", Until: now.Add(time.Minute)}
		}},
		{"PASSTHROUGH", "fixed order b, UNSYNCED: at this gateway alone until the store answers; share", func(s *api.State) {
			s.Scope, s.Passthrough = "all gateways of the store", &api.Passthrough{Order: []string{"b"}, By: "ana", Until: now.Add(time.Minute), Unsynced: true}
		}},
		{"SHARED FAULT", "dns for 2m: a, b", func(s *api.State) {
			s.SharedFault = &api.SharedFault{Reason: "dns", Upstreams: []string{"a", "b"}, Since: ago(2 * time.Minute)}
		}},
		{"SHARED FAULT", "end at once; next probe in 12s; dns", func(s *api.State) {
			s.SharedFault = &api.SharedFault{Reason: "dns", NextProbeAt: now.Add(12 * time.Second)}
		}},
		{"SHARED FAULT", "end at once; probe due; dns", func(s *api.State) {
			s.SharedFault = &api.SharedFault{Reason: "dns", NextProbeAt: ago(time.Second)}
		}},
		{"DRAINING", "stopping", func(s *api.State) { s.Draining = true }},
		{"OVERRIDE", "a:text forced open by ana", func(s *api.State) {
			s.Upstreams[0].Breakers = []api.Breaker{{Bucket: "a:text", Forced: "open", ForcedBy: "ana", ForcedUntil: now.Add(time.Hour)}}
		}},
		{"STORE", "writes fail for 30s: no responders", func(s *api.State) {
			s.Store = api.Store{Kind: "nats", Error: "no responders", Since: ago(30 * time.Second)}
		}},
		{"SILENT", "gateway gw-2 of this store has said nothing for 40s", func(s *api.State) {
			s.Gateways = []api.Peer{{Instance: "gw-1", Answers: true}, {Instance: "gw-2", LastSeen: ago(40 * time.Second)}}
		}},
		{"CREDENTIAL", "a cools its keys: refused", func(s *api.State) { s.Upstreams[0].Credential = "refused" }},
		{"UNSYNCED", "a share 5% is in force here", func(s *api.State) { s.Upstreams[0].Share, s.Upstreams[0].Unsynced = 5, true }},
		{"UNSYNCED", "incident 20261130-1 is in memory alone", func(s *api.State) { s.Incidents = []api.IncidentHead{{ID: "20261130-1", Unsynced: true}} }},
		{"DEPENDENCY", "vault (http, identity/vault) failed", func(s *api.State) {
			s.Dependencies = []api.Dependency{{Name: "vault", Kind: "http", Domain: "identity/vault", Result: "failed"}}
		}},
		{"TRACES", "the collector takes no spans: it answers 503, 9s ago; it last took some 3m ago; 1 200 given up", func(s *api.State) {
			s.Traces = api.Traces{Configured: true, Error: "it answers 503", ErrorAt: ago(9 * time.Second), LastOK: ago(3 * time.Minute), Dropped: 1200}
		}},
		{"NOTIFY", "not told: webhook: it answers 500", func(s *api.State) { s.Notify = api.Notify{Configured: true, LastError: "it answers 500"} }},
		{"NOTIFY", "not told: webhook; 3 waiting; 2 given up", func(s *api.State) { s.Notify = api.Notify{Configured: true, Pending: 3, Lost: 2} }},
		{"LATE", "ledger never succeeded", func(s *api.State) { s.Jobs = []api.Job{{Name: "ledger", Late: true, EverySeconds: 60}} }},
		{"PING", "let go", func(s *api.State) { s.Ping = api.Ping{Configured: true, Held: "the store fails"} }},
		{"AUDIT", "2 entries in memory alone", func(s *api.State) { s.Audit = api.AuditStatus{Pending: 2, Error: "disk full"} }},
		{"AUDIT", "0 entries in memory alone, 4 lost", func(s *api.State) { s.Audit.Lost = 4 }},
		{"CONFIG", "a reload was refused 5s ago", func(s *api.State) { s.Config.LastError, s.Config.LastErrorAt = "line 3", ago(5*time.Second) }},
		{"RESTART", "waiting for a restart: listen", func(s *api.State) { s.Config.NeedsRestart = []string{"listen"} }},
		{"LOG", "3 lines of the decision log dropped", func(s *api.State) { s.Log.Dropped = 3 }},
		{"LOG", "0 lines of the decision log dropped: broken pipe", func(s *api.State) { s.Log.Error = "broken pipe" }},
		{"SHADOW", "breakers of a only record", func(s *api.State) { s.Upstreams[0].Breakers = []api.Breaker{{Mode: "shadow"}} }},
		{"VERSION", "operator API", func(s *api.State) { s.APIVersion = api.Version + 1 }},
	}
	fine := func() *api.State {
		return &api.State{
			APIVersion: api.Version, Upstreams: []api.Upstream{{Name: "a", Share: 100}},
			Gateways: []api.Peer{{Instance: "gw-1", Answers: true}}, Incidents: []api.IncidentHead{{ID: "1"}},
			Traces: api.Traces{Configured: true, Exported: 9, Dropped: 4, LastOK: now}, Ping: api.Ping{Configured: true, LastOK: now},
		}
	}
	if ns := Notices(fine(), now); len(ns) != 0 {
		t.Fatalf("of a gateway in good order: %+v", ns)
	}
	for _, tt := range tests {
		s := fine()
		tt.broken(s)
		if ns := Notices(s, now); len(ns) != 1 || ns[0].Word != tt.word || !strings.Contains(ns[0].Text, tt.says) {
			t.Errorf("%s: %+v", tt.word, ns)
		} else if strings.Contains(ns[0].Text, "??") {
			t.Errorf("a time that is absent is said: %s", ns[0].Text)
		}
	}
}

// A breaker that is held closed sends clients to what fails; one that is held open
// only leaves an upstream out.
func TestAnOverrideIsGraveWhereItHurts(t *testing.T) {
	s := &api.State{Upstreams: []api.Upstream{{Name: "a", Breakers: []api.Breaker{
		{Bucket: "a:text", Forced: "open", ForcedBy: "ana", ForcedUntil: now.Add(time.Hour)},
		{Bucket: "a:tools", Forced: "closed", ForcedBy: "ana", ForcedUntil: now.Add(time.Hour)},
	}}}}
	ns := Notices(s, now)
	if len(ns) != 2 || !ns[0].Grave || !strings.HasPrefix(ns[0].Text, "a:tools forced closed") || ns[1].Grave {
		t.Errorf("%+v", ns)
	}
}
