package ui

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/ui/text"
)

// passedState is at 5 %, and its evidence passes: the next step is an operator's.
func passedState() api.State {
	s := recoveringState()
	u := &s.Upstreams[0]
	u.NextStep.BlockedBy = ""
	u.Evidence.Verdict, u.Evidence.ServedSeconds, u.Evidence.EnoughInSeconds = api.Pass, 660, 0
	return s
}

// Whoever waits for an operator is named where one looks for what to do: on the
// first screen, before the runbooks, and on the screen of what waits for a person.
func TestWhoWaitsForAnOperatorIsNamed(t *testing.T) {
	for _, tt := range []struct {
		what  string
		state func() api.State
		waits string // as START has it in a wide window; empty: nobody does
	}{
		{"degraded, probes pass", func() api.State { return degradedState(true) }, "anthropic-us-east-1 degraded: waits for an operator; probes passed 2/2"},
		{"recovering, evidence passes", passedState, "anthropic-us-east-1 recovering at 5%: waits for an operator; evidence passes, 25% is next"},
		{"recovering, no data", recoveringState, ""},
		{"recovering, evidence passes, by a plan", func() api.State {
			s := passedState()
			s.Upstreams[0].Plan = &api.Plan{By: "ana"}
			return s
		}, ""},
		{"recovering, evidence passes, breaker open", func() api.State {
			s := passedState()
			s.Upstreams[0].NextStep.BlockedBy = "breaker text is OPEN"
			return s
		}, ""},
	} {
		t.Run(tt.what, func(t *testing.T) {
			for _, w := range []int{60, 80, 160} {
				inSituation(t, "calm", w, 30, func(t *testing.T, m *model) {
					give(m, tt.state(), recoveringEvents(), nil)
					start := ""
					for l := range strings.Lines(screenOf(m)) {
						if strings.HasPrefix(l, " START") {
							start = l
						}
					}
					if got := strings.Contains(start, "waits for"); got != (tt.waits != "") {
						t.Errorf("%d columns: START is %q", w, start)
					}
					if w == 160 && !strings.Contains(start, tt.waits) {
						t.Errorf("START is %q, without %q", start, tt.waits)
					}
					keys(m, "w")
					queue := screenOf(m)
					if strings.Contains(queue, "Nothing waits") {
						t.Errorf("%d columns: nothing waits:\n%s", w, queue)
					}
					has := strings.Contains(queue, "anthropic-us-east-1") && strings.Contains(queue, "o, choose it: next ")
					if has != (tt.waits != "") {
						t.Errorf("%d columns: who waits is named: %t:\n%s", w, has, queue)
					}
					if none := strings.Contains(queue, "none: one does once"); none != (tt.waits == "") {
						t.Errorf("%d columns: that nobody waits is said: %t:\n%s", w, none, queue)
					}
				})
			}
		})
	}
}

// What an answer would mean must not read as one, before any is there.
func TestMeaningIsNoAnswer(t *testing.T) {
	inSituation(t, "calm", 80, 24, func(t *testing.T, m *model) {
		keys(m, "l")
		s := screenOf(m)
		if strings.Contains(s, " none    ") || !strings.Contains(s, "an answer: ") || !strings.Contains(s, "an empty one would mean: no request left its primary") {
			t.Errorf("the legend reads as an answer:\n%s", s)
		}
	})
}

// What a gateway said of itself last is said with when, once it does not answer:
// it may be gone, and not stopping any more.
func TestNoticesOfASilentGatewayAreDated(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
		s := baseState()
		s.Draining, s.Demo, s.Store.Error = true, "well again: W", "no responders"
		s.Config.LastError, s.Config.LastErrorAt = "line 3", ago(5*time.Second)
		give(m, s, nil, nil)
		last := "at " + text.Clock(m.live.state.Clock().At, m.live.clock(m.now)) + ": "
		says := func() []string {
			var rows []string
			for _, r := range m.banners(200, 9) {
				rows = append(rows, r.text())
			}
			return rows
		}
		fresh := says()
		if len(fresh) != 4 || strings.Contains(strings.Join(fresh, " "), last) {
			t.Errorf("while it answers: %q", fresh)
		}
		refuseConnection(m)
		bubble.Sleep(74 * time.Second)
		m.Update(tickMsg{})
		rows := says()
		if len(rows) != len(fresh) {
			t.Errorf("%q, and before %q", rows, fresh)
		}
		for _, r := range rows {
			if !strings.Contains(r, last) || strings.Contains(r, "1m") {
				t.Errorf("without when it was said, or with an age that went on: %q", r)
			}
		}
		keys(m, "?")
		if got := screenOf(m); !strings.Contains(got, last) {
			t.Errorf("? does not date them:\n%s", got)
		}
	})
}
