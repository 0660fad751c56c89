package ui

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/ui/text"
)

// What the evidence says is what the way up asks for: pass nothing, no data a
// reason, fail the name too. The way down asks for nothing.
func TestEvidenceAsks(t *testing.T) {
	for _, tt := range []struct {
		name         string
		state        func() api.State
		key          string
		why, byName  bool
		want, wantNo []string
	}{
		{"pass", func() api.State {
			s := failingState()
			s.Upstreams[0].NextStep.BlockedBy, s.Upstreams[0].Evidence.Verdict, s.Upstreams[0].Evidence.Rows = "", api.Pass, row7(nil, nil)
			return s
		}, ">", false, false, []string{"ok    success: 99.7%", "ok    probes: 12 passed"}, []string{"WARN", "held at", "LIVE"}},
		{"no data", recoveringState, ">", true, false, []string{"WARN  window: served 6m of 10m; enough in ~4 min", "WARN  requests: 31"}, []string{"not now: evidence", "\n no "}},
		{"fail", failingState, ">", true, true, []string{"no    success: 96.9%", "no    new classes: overloaded", "its name (typed)"}, []string{"not now: evidence"}},
		{"another objection", func() api.State {
			s := recoveringState()
			s.Upstreams[0].NextStep.BlockedBy = "two-person rule"
			return s
		}, ">", true, false, []string{"WARN  not now: two-person rule"}, nil},
		{"old evidence", func() api.State {
			s := failingState()
			s.Upstreams[0].NextStep.BlockedBy, s.Upstreams[0].Evidence.Verdict, s.Upstreams[0].Evidence.Rows = "", api.Pass, row7(nil, nil)
			s.Upstreams[0].Evidence.At = ago(20 * time.Second)
			return s
		}, ">", true, false, []string{"WARN  the evidence is 20s old"}, nil},
		{"evidence of another step", func() api.State {
			s := recoveringState()
			s.Upstreams[0].Evidence.Share = 25
			return s
		}, ">", true, false, []string{"held at 5% for 6m"}, []string{"window: served 6m"}},
		{"probes passed", func() api.State { return degradedState(true) }, ">", false, false, []string{"Recover anthropic-us-east-1 in PROD at 5%?", "ok    probe stream of claude-sonnet-4-5: the last 2 passed, 4s ago", "y  recover at 5%"}, []string{"WARN"}},
		{"probes fail", func() api.State { return degradedState(false) }, ">", true, true, []string{"no    probe text of claude-sonnet-4-5: server_error", "held: its daily cost"}, nil},
		{"nothing probed", func() api.State {
			s := degradedState(true)
			s.Upstreams[0].Probes = nil
			return s
		}, ">", true, false, []string{"WARN  nothing is probed"}, nil},
		{"down", failingState, "<", false, false, nil, []string{"success:", "WARN"}},
		{"degrade", failingState, "D", false, false, []string{"after   share 0%, degraded", "that moves about 100.4 req/s"}, []string{"WARN", "success:"}},
		{"a plan leaves the way out of degraded", func() api.State { return degradedState(true) }, "p", false, false, []string{"after   5% is yours, then 25%, 75%, 100% by itself", "5% is yours (the way out of degraded), the rest by itself", "in PROD after 5%?", "y  approve the steps after 5%"}, []string{"all steps", "share 0%, then 5%"}},
		{"plan waits for evidence by itself", recoveringState, "p", false, false, []string{"WARN  requests: 31", "y  approve all steps"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSituation(t, "calm", 100, 50, func(t *testing.T, m *model) {
				give(m, tt.state(), nil, nil)
				keys(m, "W", tt.key)
				if m.dialog == nil {
					t.Fatalf("no dialog: %s", m.message.text)
				}
				if a := m.dialog.assess(m); a.needWhy != tt.why || a.needName != tt.byName || a.off != "" {
					t.Errorf("a reason %t, the name %t, off %q", a.needWhy, a.needName, a.off)
				}
				got := screenOf(m)
				got = got[strings.Index(got, "┌─"):]
				for _, w := range tt.want {
					if !strings.Contains(got, w) {
						t.Errorf("it lacks %q:\n%s", w, got)
					}
				}
				for _, w := range tt.wantNo {
					if strings.Contains(got, w) {
						t.Errorf("it says %q:\n%s", w, got)
					}
				}
			})
		})
	}
}

func TestPlanOnAServer(t *testing.T) {
	m, g := serverModel(t, t.Context())
	const name = "anthropic-us-east-1"
	g.Set(func(s *api.State) { *s = recoveringState() })
	poll(m)
	tap(m, "W", "p")
	late(m)
	tap(m, "enter")
	if len(g.Commands()) != 0 {
		t.Fatal("enter sends")
	}
	late(m)
	tap(m, "y")
	c := g.Commands()
	if u := g.Upstream(name); u.Plan == nil || u.Share != 5 || len(c) != 1 || c[0].Path != "/operator/v1/upstreams/"+name+"/share" ||
		c[0].Body.Action != "plan" || c[0].Body.Revision == nil || *c[0].Body.Revision != 132 || c[0].Body.Share != nil {
		t.Fatalf("plan %v, sent %+v; said %q", u.Plan, c, m.message.text)
	}
	poll(m)
	if got := screenOf(m); !strings.Contains(got, "by itself (plan of ana)") {
		t.Errorf("the way back does not say so:\n%s", got)
	}
	// Taking it back needs no revision.
	tap(m, "p")
	g.Set(func(s *api.State) { s.Upstreams[0].Revision = 150 })
	poll(m)
	late(m)
	tap(m, "y")
	if u := g.Upstream(name); u.Plan != nil || u.Share != 5 {
		t.Errorf("plan %v; said %q", u.Plan, m.message.text)
	}
	// Approving does.
	poll(m)
	tap(m, "p")
	g.Set(func(s *api.State) { s.Upstreams[0].Revision = 160 })
	late(m)
	tap(m, "y")
	if u := g.Upstream(name); u.Plan != nil || m.dialog == nil {
		t.Errorf("a plan was approved against a stale revision: %v", u.Plan)
	}
}

func TestDegradeOnAServer(t *testing.T) {
	m, g := serverModel(t, t.Context())
	g.Set(func(s *api.State) { *s = failingState() })
	poll(m)
	tap(m, "W", "D")
	g.Set(func(s *api.State) { s.Upstreams[0].Revision = 150 })
	poll(m)
	late(m)
	tap(m, "y")
	cs := g.Commands()
	if u := g.Upstream("anthropic-us-east-1"); u.Health != api.Degraded || u.Share != 0 || len(cs) != 1 || cs[0].Path != "/operator/v1/upstreams/anthropic-us-east-1/state" || cs[0].Body.State != api.Degraded {
		t.Fatalf("%s, share %d, sent %+v; said %q", u.Health, u.Share, cs, m.message.text)
	}
	poll(m)
	if got := screenOf(m); !strings.Contains(got, "DEGRADED 0s") {
		t.Errorf("the row does not show it:\n%s", got)
	}
	if tap(m, "D"); m.dialog != nil || !strings.Contains(m.message.text, "is degraded already, by ana") {
		t.Errorf("again: %q", m.message.text)
	}
	// It ends the plan that was approved since.
	g.Set(func(s *api.State) { s.Upstreams[0].Plan = &api.Plan{By: "ben", At: time.Now()} })
	poll(m)
	tap(m, "D")
	if got := screenOf(m); !strings.Contains(got, "it ends the plan of ben") || strings.Contains(got, "the machine degraded it") {
		t.Errorf("it does not say that the plan ends:\n%s", got)
	}
	late(m)
	tap(m, "y")
	if u := g.Upstream("anthropic-us-east-1"); u.Plan != nil {
		t.Errorf("the plan goes on; said %q", m.message.text)
	}
	poll(m)
	// One that the machine degraded can be taken over.
	g.Set(func(s *api.State) { s.Upstreams[0].HealthBy = "auto" })
	poll(m)
	tap(m, "D")
	late(m)
	tap(m, "y")
	if u := g.Upstream("anthropic-us-east-1"); u.HealthBy != "ana" {
		t.Errorf("by %s; said %q", u.HealthBy, m.message.text)
	}
}

// An approved plan of a degraded upstream promises nothing that waits for a
// person: PLAN and NEXT say the same.
func TestPlanOfADegraded(t *testing.T) {
	inSituation(t, "calm", 140, 60, func(t *testing.T, m *model) {
		s := degradedState(true)
		u := &s.Upstreams[0]
		u.Plan, u.Revision, u.RevisedBy, u.RevisedAt = &api.Plan{By: "ben", At: ago(time.Minute)}, 140, "ben", ago(time.Minute)
		give(m, s, nil, nil)
		keys(m, "W", "b")
		got := screenOf(m)
		for _, w := range []string{"5% is yours (the way out of degraded), the rest by itself", "NEXT       5%: > then y", "rev 140 by ben " + text.Clock(u.RevisedAt, u.RevisedAt)} {
			if !strings.Contains(got, w) {
				t.Errorf("it lacks %q:\n%s", w, got)
			}
		}
		if strings.Contains(got, "the next step goes by itself") {
			t.Errorf("it promises the first step:\n%s", got)
		}
	})
}

// No key sends anything by itself, not held either.
func TestNoKeySends(t *testing.T) {
	m, g := serverModel(t, t.Context())
	g.Set(func(s *api.State) { *s = recoveringState() })
	poll(m)
	tap(m, "W")
	leaves := []string{"q", "ctrl+c", "ctrl+z", "W"}
	for _, on := range []string{"o", "enter", "b", "e"} {
		for _, b := range table {
			for _, k := range b.Keys() {
				if slices.Contains(leaves, k) {
					continue
				}
				m.dialog, m.typing, m.logs.typing = nil, false, false
				tap(m, "o", on)
				m.dialog = nil
				tap(m, k, k, k)
				if n := len(g.Commands()); n != 0 {
					t.Fatalf("%s on %s sent %+v", k, m.screen, g.Commands())
				}
			}
		}
	}
	if !m.armed() {
		t.Error("the keys were pressed while nothing could be sent")
	}
}

// A gateway that measures no health has neither plans nor states, and its table
// no column of them.
func TestOldGateway(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		if got := screenOf(m); strings.Contains(got, "HEALTH") {
			t.Errorf("a column of nothing:\n%s", got)
		}
		for k, want := range map[string]string{"p": "measures no evidence", "D": "< lowers the share"} {
			if keys(m, "W", k); m.dialog != nil {
				t.Fatalf("%s opens a dialog", k)
			}
			if !strings.Contains(m.message.text, want) {
				t.Errorf("%s: %q", k, m.message.text)
			}
			keys(m, "W")
		}
	})
}

// What cannot be planned says why.
func TestNoPlan(t *testing.T) {
	inSituation(t, "calm", 110, 30, func(t *testing.T, m *model) {
		auto := recoveringState()
		auto.Failback.Advance = "auto"
		give(m, auto, nil, nil)
		if got := m.unplannable(&auto.Upstreams[0]); !strings.Contains(got, "go by themselves already (advance: auto)") {
			t.Errorf("where steps go by themselves: %q", got)
		}
		if got := screenOf(m); !strings.Contains(got, "next 25% by itself (advance: auto), not yet: evidence no data") {
			t.Errorf("the way back does not say so:\n%s", got)
		}
		for want, change := range map[string]func(u *api.Upstream){
			"is not on its way back":     func(u *api.Upstream) { u.FailbackID = "" },
			"has no step left":           func(u *api.Upstream) { u.Share = 100 },
			"each step is an operator's": func(u *api.Upstream) { u.Retreats = 2 },
		} {
			s := recoveringState()
			change(&s.Upstreams[0])
			give(m, s, nil, nil)
			if got := m.unplannable(&s.Upstreams[0]); !strings.Contains(got, want) {
				t.Errorf("%q: %q", want, got)
			}
		}
		s := recoveringState()
		if got := m.unplannable(&s.Upstreams[0]); got != "" {
			t.Error(got)
		}
	})
}

// How a step was left is told by the changes of this failback.
func TestOutcome(t *testing.T) {
	inSituation(t, "retreated", 100, 30, func(t *testing.T, m *model) {
		u := m.live.upstream("anthropic-us-east-1")
		for share, want := range map[int]string{5: "", 25: "fail", 75: "", 0: "pass"} {
			if got := outcome(&m.live, u, share); got != want {
				t.Errorf("%d%%: %q, want %q", share, got, want)
			}
		}
		old := *u
		old.Health = ""
		if got := outcome(&m.live, &old, 25); got != "" {
			t.Errorf("of a gateway that measures nothing: %q", got)
		}
		over := *u
		over.Share = 75
		m.live.changes = append([]api.Event{stepped(20, 140, time.Second, "ben", "25", "75", "override", "")}, m.live.changes...)
		if got := outcome(&m.live, &over, 25); got != "overridden" {
			t.Errorf("of an override: %q", got)
		}
		// What was before all traffic was back is of another failback.
		m.live.changes = []api.Event{stepped(30, 150, time.Minute, "auto", "100", "0", "degraded", ""), stepped(29, 149, time.Hour, "ana", "75", "100", "raised", ""), stepped(28, 148, 2*time.Hour, "auto", "25", "5", "retreat", "")}
		if got := outcome(&m.live, &over, 25); got != "" {
			t.Errorf("of the failback before: %q", got)
		}
	})
}

// Only what the machine began goes by itself, and not after it retreated too often.
func TestByItself(t *testing.T) {
	auto := &api.State{Failback: api.Failback{Advance: "auto"}}
	plan := &api.Plan{By: "ana"}
	for _, tt := range []struct {
		s    *api.State
		u    api.Upstream
		want string
	}{
		{auto, api.Upstream{Health: api.Recovering}, "advance: auto"},
		{auto, api.Upstream{Health: api.Recovering, Retreats: retreatsMost}, ""},
		{auto, api.Upstream{Health: api.Degraded, HealthBy: "auto"}, "advance: auto"},
		{auto, api.Upstream{Health: api.Degraded, HealthBy: "ana"}, ""},
		{&api.State{}, api.Upstream{Health: api.Recovering}, ""},
		{&api.State{}, api.Upstream{Health: api.Recovering, Plan: plan}, "plan of ana"},
		{&api.State{}, api.Upstream{Health: api.Degraded, HealthBy: "auto", Plan: plan}, ""},
	} {
		if got := byItself(tt.s, &tt.u); got != tt.want {
			t.Errorf("advance %q, %+v: %q, want %q", tt.s.Failback.Advance, tt.u, got, tt.want)
		}
	}
}

// Without evidence the time for which a step was held stands in for it; a
// beginning that nobody knows is no time.
func TestStandingWithoutEvidence(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := &api.State{Failback: api.Failback{Steps: []api.FailbackStep{{Share: 5, ObserveSeconds: 600}, {Share: 100}}}}
	for _, tt := range []struct {
		u      api.Upstream
		says   string
		enough bool
	}{
		{api.Upstream{Share: 5, Since: now.Add(-time.Minute)}, "held 1m of 10m", false},
		{api.Upstream{Share: 5, Since: now.Add(-10 * time.Minute)}, "", true},
		{api.Upstream{Share: 5}, "held ?? of 10m", false},
		{api.Upstream{Share: 0}, "", true},
	} {
		if says, enough := standing(s, &tt.u, now); says != tt.says || enough != tt.enough {
			t.Errorf("%+v: %q, %t; want %q, %t", tt.u, says, enough, tt.says, tt.enough)
		}
	}
}

// What was measured of a step is unknown with its gateway, and a probe that is held
// has no next time.
func TestTheStepTableOfASilentGateway(t *testing.T) {
	inBubble(t, planned, func(t *testing.T, m *model, _ *recorder) {
		m.Update(tea.WindowSizeMsg{Width: 140, Height: 60})
		keys(m, "b")
		if got := screenOf(m); !regexp.MustCompile(`> 2 +25% .* 4 112 +99\.\d% .* so far pass`).MatchString(got) {
			t.Fatalf("the step in force is not measured:\n%s", got)
		}
		silence(m, 12*time.Second, true)
		if got := screenOf(m); !regexp.MustCompile(`> 2 +\(25%\) .* \?\? +\?\? +\?\? +\?\? +\?\?`).MatchString(got) {
			t.Errorf("it is measured although the gateway is silent:\n%s", got)
		}
	})
	inBubble(t, func(m *model) {
		s := degradedState(false)
		for i := range s.Upstreams[0].Probes {
			p := &s.Upstreams[0].Probes[i]
			p.Held, p.NextAt = "breaker_open", time.Now().Add(9*time.Second)
		}
		give(m, s, nil, nil)
	}, func(t *testing.T, m *model, _ *recorder) {
		m.Update(tea.WindowSizeMsg{Width: 140, Height: 90})
		keys(m, "b")
		if got := screenOf(m); strings.Count(got, "  held  USD") != len(m.live.upstream("anthropic-us-east-1").Probes) {
			t.Errorf("a probe that is held has a time:\n%s", got)
		}
	})
}

// What a revision was written for is said beside it; of the share's own why only
// where that is the newest.
func TestTheTitleOfAStepTableSaysTheNewestWhy(t *testing.T) {
	inBubble(t, quietly, func(t *testing.T, m *model, _ *recorder) {
		m.Update(tea.WindowSizeMsg{Width: 200, Height: 30})
		s := quietState()
		u := &s.Upstreams[3]
		u.StateWhy, u.RevisedBy, u.RevisedAt = "5% held", "ana", u.Since
		m.selected = u.Name
		keys(m, "b")
		give(m, s, nil, nil)
		if got := m.failbackTitle().text(); !strings.HasSuffix(got, `"5% held"`) {
			t.Errorf("the share is the newest: %q", got)
		}
		u.RevisedBy, u.RevisedAt = "ben", time.Now()
		give(m, s, nil, nil)
		if got := m.failbackTitle().text(); !strings.Contains(got, "by ben") || strings.Contains(got, "5% held") {
			t.Errorf("ben wrote another thing: %q", got)
		}
	})
}

// Of what a share waits for, only what was given from here and is in force is
// waited for; a passthrough that is over stands in no way.
func TestWayOfWhatIsOver(t *testing.T) {
	inBubble(t, quietly, func(t *testing.T, m *model, _ *recorder) {
		way := func() string { return m.way(m.live.upstream("anthropic-eu-west-1"), m.whole(), m.now).text }
		m.settling["anthropic-eu-west-1"] = settling{share: 5, since: m.now, at: m.now}
		if got := way(); !strings.HasPrefix(got, "given, waiting for LIVE") {
			t.Errorf("given and in force: %q", got)
		}
		m.settling["anthropic-eu-west-1"] = settling{share: 0, since: m.now, at: m.now}
		if got := way(); !strings.HasPrefix(got, "next 25%") {
			t.Errorf("given, and changed by another since: %q", got)
		}
		s := quietState()
		s.Passthrough = &api.Passthrough{Order: []string{"b"}, Until: time.Now().Add(time.Second), By: "ben"}
		give(m, s, nil, nil)
		if got := way(); !strings.HasPrefix(got, "steps have no effect: PASSTHROUGH for 1s") {
			t.Errorf("under passthrough: %q", got)
		}
		bubble.Sleep(time.Second)
		m.Update(tickMsg{})
		if got := way(); !strings.HasPrefix(got, "next 25%") {
			t.Errorf("a second later: %q", got)
		}
	})
}

// Once all that LIVE is of came after the change nothing is waited for: where it is
// not near the share, that is said. How long was waited is never cut.
func TestTheWaitForLiveEnds(t *testing.T) {
	for _, tt := range []struct {
		live float64
		says string
	}{{0.121, "LIVE 12.1%, over it: overflow"}, {0.02, "LIVE 2.0%, under it"}} {
		inBubble(t, quietly, func(t *testing.T, m *model, _ *recorder) {
			const name = "anthropic-eu-west-1"
			begin := m.now // LIVE was where it stays
			m.settling[name] = settling{share: 5, from: tt.live, since: begin, at: m.live.clock(begin)}
			read := func() {
				s := quietState()
				s.Upstreams[3].Live = val(tt.live)
				give(m, s, nil, nil)
				m.expire()
			}
			bubble.Sleep(55 * time.Second)
			m.Update(tickMsg{})
			read()
			if _, waits := m.settling[name]; !waits {
				t.Errorf("%v: waited for no more after 55 s", tt.live)
			}
			bubble.Sleep(8 * time.Second)
			m.Update(tickMsg{})
			read()
			if _, waits := m.settling[name]; waits || !strings.Contains(m.message.text, tt.says) {
				t.Errorf("%v: waited for still: %t, said %q", tt.live, waits, m.message.text)
			}
		})
	}
	for live, want := range map[string]string{"4.9%": "4.9% ... 1m17s", "12.1%": "12.1%...1m17s", "100.0%": "100.0%...1m17s", "12.1% 5s": "... 1m17s"} {
		if got := awaited(live, "1m17s"); got != want {
			t.Errorf("%s: %q", live, got)
		}
	}
}
