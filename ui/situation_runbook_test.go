package ui

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/runbooks"
)

// quiet is an incident that is over: breakers closed, shares whole.
func quiet() api.State {
	s := incidentState()
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		u.Share, u.Health = 100, ""
		for j := range u.Breakers {
			u.Breakers[j] = bucket(u.Name, u.Breakers[j].Capability, "closed", time.Minute)
		}
	}
	return s
}

var runbookSituations = []situation{
	{"runbook", func(m *model) { incident(m); keys(m, "1") }},
	{"runbook-step", func(m *model) { incident(m); keys(m, "1", "j", "x", "j", "x", "j", "j", "j") }},
	{"runbook-failback", func(m *model) { comeback(m); openRunbook(m, "manual-failback"); keys(m, "j", "j", "j", "j") }},
	{"runbook-end", func(m *model) { incident(m); keys(m, "1", "G") }},
	{"runbook-over", func(m *model) {
		incident(m)
		keys(m, "1", "j", "x", "j")
		give(m, quiet(), nil, nil)
	}},
	{"runbook-calm", func(m *model) { calm(m); openRunbook(m, "manual-failback") }},
	{"runbook-down", func(m *model) { incident(m); keys(m, "1", "j"); silence(m, 12*time.Second, true) }},
	{"runbook-never", func(m *model) { openRunbook(m, "manual-failback"); keys(m, "j") }},
	{"runbook-many", func(m *model) { many(m, 200); keys(m, "1", "j", "j") }},
	{"runbook-list", func(m *model) { incident(m); keys(m, "0", "j") }},
	{"runbook-list-filter", func(m *model) { incident(m); keys(m, "0", "/", "s", "t", "o", "r", "e", "enter") }},
	{"runbook-list-left-out", func(m *model) {
		m.o.Runbooks = runbooks.Extra{Errors: []error{errors.New("/etc/failback/runbooks/own.md:3: title has more than 40 characters: it stands in one row with others")}}
		calm(m)
		keys(m, "0")
	}},
	{"runbook-shared-fault", func(m *model) {
		incident(m)
		give(m, sharedState(), nil, nil)
		keys(m, "1", "j")
	}},
	{"runbook-gateway", func(m *model) {
		calm(m)
		give(m, troubledState(), nil, nil)
		keys(m, "1", "j", "j")
	}},
	{"runbook-closing", func(m *model) { calm(m); openRunbook(m, "closing-an-incident"); keys(m, "j") }},
	{"runbook-aged", func(m *model) {
		calm(m)
		m.runbookSet()
		rs := slices.Clone(m.runbook.all)
		for i := range rs {
			rs[i].Reviewed = m.now.Add(-200 * 24 * time.Hour)
		}
		m.runbook.all = rs
		openRunbook(m, "users-time-out")
		keys(m, "j", "j")
	}},
}

// openRunbook opens a runbook by its id.
func openRunbook(m *model, id string) {
	for _, r := range m.numbered() {
		if r.ID == id {
			m.showRunbook(r)
			return
		}
	}
	panic("no runbook " + id)
}

// sharedState is an incident in which upstreams fail together.
func sharedState() api.State {
	s := incidentState()
	s.SharedFault = &api.SharedFault{
		Since: time.Now().Add(-90 * time.Second), Reason: "path", Detail: "dns x14, connect x3",
		Upstreams: []string{s.Upstreams[0].Name, s.Upstreams[1].Name}, NextProbeAt: time.Now().Add(7 * time.Second),
	}
	s.Dependencies = []api.Dependency{
		{Name: "corp-dns", Domain: "dns/corp", Kind: "dns", Result: "failed", Detail: "no such host", At: time.Now(), Since: time.Now().Add(-time.Minute), Upstreams: []string{s.Upstreams[0].Name}},
		{Name: "vault", Domain: "identity/vault", Kind: "http", Result: "ok", At: time.Now(), Since: time.Now().Add(-time.Hour)},
	}
	return s
}

// troubledState is a gateway that serves and cannot write.
func troubledState() api.State {
	s := baseState()
	s.Upstreams = []api.Upstream{up("alpha", "here", true, 10), up("beta", "there", false, 0)}
	s.Upstreams[0].Unsynced, s.Upstreams[0].Share = true, 75
	s.Store = api.Store{Kind: "nats", Error: "no space left on device", Since: time.Now().Add(-4 * time.Minute)}
	s.Gateways = []api.Peer{{Instance: "gw-1", Answers: true, You: true, LastSeen: time.Now()}, {Instance: "gw-2", LastSeen: time.Now().Add(-2 * time.Minute)}}
	s.Jobs = []api.Job{{Name: "health", EverySeconds: 1, LastSuccess: time.Now()}, {Name: "incidents", EverySeconds: 60, LastSuccess: time.Now().Add(-9 * time.Minute), Late: true, Error: "no space left on device"}}
	s.Notify = api.Notify{Configured: true, Pending: 2, Oldest: time.Now().Add(-3 * time.Minute), LastError: "503 Service Unavailable"}
	s.Log.Dropped = 12
	return s
}

func init() { situations = append(situations, runbookSituations...) }

// TestGoldenRunbooks has the situations of this file at each size.
func TestGoldenRunbooks(t *testing.T) {
	for _, s := range runbookSituations {
		for _, size := range []struct{ w, h int }{{80, 24}, {60, 20}, {40, 12}} {
			t.Run(fmt.Sprintf("%s/%dx%d", s.name, size.w, size.h), func(t *testing.T) {
				inSituation(t, s.name, size.w, size.h, func(t *testing.T, m *model) {
					golden(t, fmt.Sprintf("%s/%dx%d.txt", s.name, size.w, size.h), screenOf(m))
				})
			})
		}
	}
	t.Run("ascii", func(t *testing.T) {
		inSituation(t, "runbook-step", 100, 30, func(t *testing.T, m *model) {
			m.th.ascii = true
			m.gl = m.th.glyphs()
			golden(t, "runbook-step/100x30-ascii.txt", screenOf(m))
		})
	})
}
