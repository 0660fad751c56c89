package ui

import (
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
)

// With --ascii the console draws with ASCII alone in every situation; what comes
// from outside is escaped where it is something else.
func TestASCIILaw(t *testing.T) {
	for _, s := range situations {
		inSituation(t, s.name, 100, 60, func(t *testing.T, m *model) {
			m.th.ascii = true
			m.gl = m.th.glyphs()
			for i, l := range strings.Split(screenOf(m), "\n") {
				for _, r := range l {
					if r > 0x7e {
						t.Fatalf("%s, row %d: %q in %q", s.name, i+1, r, l)
					}
				}
			}
		})
	}
}

// A frozen screen shows what it showed, on every screen, whatever comes: ages go
// on, since they are what is true of it, and the two first rows, which are of now.
func TestFreezeLaw(t *testing.T) {
	ages := regexp.MustCompile(`\b(\d+[smhd]){1,2}\b( old)?`)
	body := func(m *model) string {
		rows := strings.Split(screenOf(m), "\n")
		s := ages.ReplaceAllString(strings.Join(rows[2:len(rows)-2], "\n"), "AGE")
		return regexp.MustCompile(` +`).ReplaceAllString(s, " ")
	}
	for _, situation := range []string{"incident", "detail", "changes", "change", "decisions", "decision", "failback", "logs-answer", "log-line", "runbook", "incident-open", "map", "queue", "money"} {
		inSituation(t, situation, 160, 50, func(t *testing.T, m *model) {
			where := m.screen
			keys(m, "f")
			before := body(m)
			for range 3 {
				bubble.Sleep(time.Second)
				m.Update(tickMsg{})
				calm(m)
				give(m, fleetState(), []api.Event{{Seq: 900, Event: "traffic_step", Time: time.Now(), Provider: "somebody-else", From: "100", To: "0", By: "ben"}}, decisionsOf("primary_completed"))
				v := theIncident()
				v.Title = "another title"
				giveIncident(m, v)
			}
			first := strings.SplitN(screenOf(m), "\n", 2)[0]
			if m.screen != where || !strings.Contains(first, "FROZEN 3s") {
				t.Fatalf("%s: %q", situation, first)
			}
			if after := body(m); after != before {
				t.Errorf("%s moved while it was frozen:\n%s", situation, diff(before, after))
			}
			keys(m, "f")
			if strings.Contains(screenOf(m), "FROZEN") {
				t.Errorf("%s stays frozen", situation)
			}
		})
	}
}

// Whatever asks before it does something ends a freeze: nobody acts on a frozen
// number.
func TestWhatAsksUnfreezes(t *testing.T) {
	for _, tt := range []struct {
		situation string
		keys      []string
	}{
		{"calm", []string{"<"}}, {"healths", []string{"D"}}, {"incident", []string{"u"}}, {"incident", []string{">"}},
		{"incident-open", []string{"n"}}, {"incident-open", []string{"a"}}, {"incident-open", []string{"x"}}, {"calm", []string{"i", "N"}},
	} {
		inSituation(t, tt.situation, 100, 30, func(t *testing.T, m *model) {
			if !m.armed() {
				keys(m, "W")
			}
			keys(m, "f")
			keys(m, tt.keys...)
			if m.dialog == nil && m.form == nil {
				t.Fatalf("%s: %q opens nothing: %s", tt.situation, tt.keys, m.message.text)
			}
			if m.frozen != nil {
				t.Errorf("%s: frozen under what %q opened", tt.situation, tt.keys)
			}
		})
	}
}

// Columns go in a fixed order as the window gets narrower, P95, REQ/S and FOR, and
// never UPSTREAM, HEALTH, BREAKER, SHARE and LIVE.
func TestColumnsGoInOrder(t *testing.T) {
	inSituation(t, "healths", 120, 40, func(t *testing.T, m *model) {
		gone := map[string]bool{}
		order := []string{"P95", "REQ/S", "FOR", "ERR"}
		for w := 120; w >= 40; w-- {
			m.Update(tea.WindowSizeMsg{Width: w, Height: 40})
			head := ""
			for l := range strings.SplitSeq(screenOf(m), "\n") {
				if strings.HasPrefix(l, "   UPSTR") {
					head = l
				}
			}
			for _, never := range []string{"UPSTR", "HEALTH", "BREAKER", "SHARE", "LIVE"} {
				if !strings.Contains(head, never) {
					t.Fatalf("%d columns have lost %s: %q", w, never, head)
				}
			}
			for _, c := range order {
				is := strings.Contains(" "+head+" ", " "+c+" ")
				if is && gone[c] {
					t.Errorf("%s is back at %d columns", c, w)
				}
				gone[c] = !is
			}
			if gone["ERR"] && !gone["REQ/S"] || gone["REQ/S"] && !gone["P95"] || gone["FOR"] && !gone["P95"] {
				t.Errorf("%d columns: %q", w, head)
			}
		}
		for _, c := range order {
			if !gone[c] {
				t.Errorf("%s is still there at 40 columns", c)
			}
		}
	})
}

// Names of upstreams that differ look different in the narrowest table too.
func TestNamesStayApart(t *testing.T) {
	names := []string{"anthropic-us-east-1", "anthropic-eu-west-1", "vertex-us-central1", "bedrock-us-west-2"}
	for n := 7; n < 24; n++ {
		seen := map[string]string{}
		for i, s := range cutAlike(names, n, "…") {
			if width(s) > n || seen[s] != "" {
				t.Errorf("%d columns: %s and %s are %q", n, names[i], seen[s], s)
			}
			seen[s] = names[i]
		}
	}
	for _, s := range []string{"模型模型模型", "a模b型c", "abc", ""} {
		for n := range 9 {
			if got := cutLeft(s, n, "…"); width(got) > n || width(s) <= n && got != s {
				t.Errorf("%q in %d columns is %q", s, n, got)
			}
		}
	}
	inSituation(t, "healths", 40, 20, func(t *testing.T, m *model) {
		if got := screenOf(m); !strings.Contains(got, "east-1 ") || !strings.Contains(got, "west-1 ") {
			t.Errorf("two upstreams look alike:\n%s", got)
		}
	})
}
