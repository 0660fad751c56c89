package ui

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// A runbook stays proposed, under its digit, until the bucket is closed again:
// what a probe ended with takes it away from nobody.
func TestProposalStays(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		state := func(breaker, detail string, share int) api.State {
			s := baseState()
			u := up("alpha", "here", true, 10)
			u.Share = share
			u.Breakers[1].State, u.Breakers[1].Since = breaker, time.Now()
			if breaker != "closed" {
				u.Breakers[1].Reason, u.Breakers[1].Detail = "consecutive", detail
			}
			s.Upstreams = []api.Upstream{u}
			return s
		}
		seq := uint64(100)
		event := func(from, to, reason, detail string) []api.Event {
			seq++
			return []api.Event{{Seq: seq, Event: "breaker_transition", Time: time.Now(), Provider: "alpha", Capability: "text", From: from, To: to, Reason: reason, Detail: detail}}
		}
		opens := func(what, key, id string) {
			t.Helper()
			screen := screenOf(m)
			if !strings.Contains(screen, "["+key+"] ") {
				t.Errorf("%s: START has no [%s]:\n%s", what, key, screen)
			}
			if keys(m, "o", key); m.screen != runbook || m.runbook.open.ID != id {
				t.Errorf("%s: %s opens %+v", what, key, m.runbook.open)
			}
			keys(m, "o")
		}
		const trip = "5 failed in a row (server_error x5)"
		give(m, state("open", trip, 100), event("closed", "open", "consecutive", trip), nil)
		opens("tripped", "1", "provider-5xx")
		give(m, state("half_open", trip, 100), event("open", "half_open", "cooldown", ""), nil)
		opens("probing", "1", "provider-5xx")
		for _, detail := range []string{"1/1 probes failed (500)", "1/1 probes failed (first_output_timeout)", "1/1 probes failed (404)"} {
			give(m, state("open", detail, 100), event("half_open", "open", "probe_failed", detail), nil)
			opens(detail, "1", "provider-5xx")
		}
		give(m, state("open", "1/1 probes failed (404)", 5), nil, nil)
		opens("with a share lowered", "1", "provider-5xx")
		opens("with a share lowered", "2", "provider-silent") // what a probe ended with
		opens("with a share lowered", "3", "manual-failback")
		give(m, state("closed", "", 5), event("ramping", "closed", "recovered", ""), nil)
		if s := screenOf(m); strings.Contains(s, "[1]") {
			t.Errorf("closed, and proposed still:\n%s", s)
		}
		opens("alone", "3", "manual-failback")
		// Another opening is another trouble, and does not take the digit away.
		const net = "no reason that a runbook names"
		give(m, state("open", net, 5), event("closed", "open", "consecutive", net), nil)
		opens("a trip of another kind", "3", "manual-failback")
		give(m, state("open", net, 100), nil, nil)
		if s := screenOf(m); !strings.Contains(s, "no runbook is about what is not CLOSED now. 0 lists all ") || strings.Contains(s, "when a breaker opens") {
			t.Errorf("no runbook of it:\n%s", s)
		}
	})
}

// The keys of runbooks are as many as there are runbooks, in ? too.
func TestRunbookDigits(t *testing.T) {
	inSituation(t, "calm", 160, 60, func(t *testing.T, m *model) {
		if s := m.helpLine(400).text(); !strings.Contains(s, " 1-9 runbook ") {
			t.Error(s)
		}
		var found bool
		for _, r := range m.helpBody(100, &sieve{}) {
			found = found || strings.HasPrefix(strings.Join(strings.Fields(r.text()), " "), "1-9 open the runbook")
		}
		if !found {
			t.Errorf("? has no line of them")
		}
	})
}

// Under passthrough no step has an effect: no way back is proposed.
func TestNoFailbackUnderPassthrough(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		s := baseState()
		s.Upstreams = []api.Upstream{up("alpha", "here", true, 10)}
		s.Upstreams[0].Share, s.Upstreams[0].NextStep = 5, api.NextStep{Share: 25}
		s.Passthrough = &api.Passthrough{Order: []string{"beta"}, Until: time.Now().Add(time.Hour), By: "ben"}
		give(m, s, nil, nil)
		got := screenOf(m)
		if strings.Contains(got, "manual failback") || !strings.Contains(got, "gateway or store (matches passthrough is on)") {
			t.Errorf("START:\n%s", got)
		}
		if !strings.Contains(got, "have no effect: PASSTHROUGH") {
			t.Errorf("BACK TO:\n%s", got)
		}
	})
}

// While somebody waits, START says who, calls the runbook of the way back by its
// title as far as that has room, and has no key alone.
func TestStartNamesTheWayBack(t *testing.T) {
	inSituation(t, "incident-overview", 100, 30, func(t *testing.T, m *model) {
		alone := regexp.MustCompile(`\[\d\]( *$|  )`)
		for w := tinyWidth; w <= 220; w++ {
			m.width = w
			d, now := m.d()
			got := m.start(d, now, w, 30).text()
			if width(got) > w {
				t.Fatalf("%d: %q", w, got)
			}
			if alone.MatchString(got) || w >= 60 && strings.Contains(got, " "+m.gl.cut) {
				t.Errorf("%d: a key alone: %q", w, got)
			}
			if !strings.Contains(got, "[i] incident ") {
				t.Errorf("%d: no incident: %q", w, got)
			}
			if w >= 60 && !strings.Contains(got, "waits for ") {
				t.Errorf("%d: nobody waits: %q", w, got)
			}
			if w >= 80 && !strings.Contains(got, "] manual failback") {
				t.Errorf("%d: the way back has no name: %q", w, got)
			}
			if w >= 100 && !strings.Contains(got, "and 1 more") && !strings.Contains(got, "fallback ratio high") {
				t.Errorf("%d: another runbook is neither named nor counted: %q", w, got)
			}
			if w == 200 && (!strings.Contains(got, "waits for an operator; probes passed 2/2") || !strings.Contains(got, "[i] incident open 24m")) {
				t.Errorf("%d: it has room for all: %q", w, got)
			}
		}
	})
}

// Nobody waits for an operator where the step goes by itself, or where no step has
// an effect.
func TestWhoWaitsForNobody(t *testing.T) {
	for name, change := range map[string]func(s *api.State){
		"": func(*api.State) {},
		"by itself": func(s *api.State) {
			s.Failback.Advance, s.Upstreams[0].HealthBy = "auto", "auto"
		},
		"passthrough": func(s *api.State) {
			s.Passthrough = &api.Passthrough{Order: []string{"b"}, Until: time.Now().Add(time.Hour), By: "ben"}
		},
		"a probe fails": func(s *api.State) { s.Upstreams[0].Probes[0].Passed, s.Upstreams[0].Probes[0].Failed = 0, 1 },
	} {
		inSituation(t, "calm", 160, 40, func(t *testing.T, m *model) {
			s := degradedState(true)
			change(&s)
			give(m, s, nil, nil)
			if waits := strings.Contains(screenOf(m), "waits for an operator"); waits != (name == "") {
				t.Errorf("%s: an operator is waited for: %t\n%s", name, waits, screenOf(m))
			}
		})
	}
}
