package ui

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// The way up asks why where the step in force was not held as long as it asks
// for, or where the traffic has not followed it; the way down asks nothing.
func TestDialogWindow(t *testing.T) {
	for _, tc := range []struct {
		name   string
		share  int
		held   time.Duration
		live   float64
		key    string
		want   []string
		not    []string
		needed bool
	}{
		{"too early", 5, 34 * time.Second, 0.05, ">", []string{"WARN  held at 5% for 34s; the step asks for 10m"}, []string{"has not reached"}, true},
		{"LIVE is on its way", 25, 34 * time.Second, 0.17, ">", []string{"WARN  held at 25% for 34s; the step asks for 15m", "WARN  LIVE 17.0% has not reached 25%"}, nil, true},
		{"held", 5, 11 * time.Minute, 0.05, ">", []string{"ok    held at 5% for 11m; the step asks for 10m"}, []string{"WARN"}, false},
		{"at share 0 there is no window", 0, time.Second, 0, ">", []string{"share 0% for 1s"}, []string{"WARN", "asks for", "has not reached"}, false},
		{"the way down", 25, 34 * time.Second, 0.17, "<", nil, []string{"WARN", "asks for"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inSituation(t, "calm", 100, 40, func(t *testing.T, m *model) {
				s := baseState()
				u := up("alpha", "here", true, 10)
				u.Share, u.Since, u.Live = tc.share, time.Now().Add(-tc.held), val(tc.live)
				s.Upstreams = []api.Upstream{u}
				give(m, s, nil, nil)
				keys(m, "W", tc.key)
				a := m.dialog.assess(m)
				if a.needWhy != tc.needed || a.needName {
					t.Errorf("a reason is needed: %t, the name: %t", a.needWhy, a.needName)
				}
				got := screenOf(m)
				for _, w := range tc.want {
					if !strings.Contains(got, w) {
						t.Errorf("it lacks %q:\n%s", w, got)
					}
				}
				for _, w := range tc.not {
					if strings.Contains(got, w) {
						t.Errorf("it says %q:\n%s", w, got)
					}
				}
			})
		})
	}
}

// FOR counts from when it was last closed, in the table, the dialog and the step
// table; a row that is not known has none.
func TestFor(t *testing.T) {
	inSituation(t, "calm", 100, 40, func(t *testing.T, m *model) {
		s := baseState()
		u := up("alpha", "here", true, 10)
		u.Share, u.NextStep = 5, api.NextStep{Share: 25, BlockedBy: "breaker is OPEN"}
		u.Breakers[1] = bucket("alpha", "text", "open", 5*time.Second)
		s.Upstreams = []api.Upstream{u, up("beta", "there", false, 1)}
		s.Upstreams[1].Breakers[0].Since = time.Now().Add(-3 * time.Minute)
		at := time.Now()
		give(m, s, []api.Event{
			{Seq: 1, Event: "breaker_transition", Time: at.Add(-12 * time.Minute), Provider: "alpha", Capability: "text", From: "closed", To: "open"},
			{Seq: 2, Event: "breaker_transition", Time: at.Add(-5 * time.Second), Provider: "alpha", Capability: "text", From: "half_open", To: "open"},
		}, nil)
		got := screenOf(m)
		for _, w := range []string{"alpha     OPEN     12m", "beta      CLOSED    3m"} {
			if !strings.Contains(got, w) {
				t.Errorf("the table lacks %q:\n%s", w, got)
			}
		}
		keys(m, "b")
		if got := screenOf(m); !strings.Contains(got, "text OPEN, not closed for 12m") {
			t.Errorf("the step table:\n%s", got)
		}
		keys(m, "esc", "W", ">")
		if got := screenOf(m); !strings.Contains(got, "breaker OPEN, not closed for 12m") {
			t.Errorf("the dialog:\n%s", got)
		}
	})
	inSituation(t, "down", 100, 40, func(t *testing.T, m *model) {
		if c := m.cells(m.live.upstream("vertex-us-central1"), &m.live, m.now, false); c.breaker.text != "??" || c.since.text != "??" {
			t.Errorf("%q for %q", c.breaker.text, c.since.text)
		}
	})
}
