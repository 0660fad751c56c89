package ui

import (
	"slices"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// From the first screen each screen that one needs in an incident is reached by a
// key that the screen names, whether writing is armed or not, from 80 columns on.
func TestScreensOfAnIncidentAreNamed(t *testing.T) {
	sizes := []struct{ w, h int }{{80, 24}, {100, 30}}
	for _, s := range slices.Concat(situations, alike) {
		for _, size := range sizes {
			inSituation(t, s.name, size.w, size.h, func(t *testing.T, m *model) {
				if m.screen != overview || m.dialog != nil || m.leaving != nil || m.typing || m.live.state.Value() == nil || m.live.state.Failing(m.now) {
					return
				}
				for range 2 {
					got := screenOf(m)
					for _, names := range [][]string{{"b steps"}, {"l logs"}, {"d decisions", "d: all"}, {"e changes", "e: all"}, {"? keys"}, {"q leave"}} {
						if !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(got, n) }) {
							t.Errorf("%s, %dx%d, armed %v: nothing names %q:\n%s", s.name, size.w, size.h, m.armed(), names[0], got)
						}
					}
					if len(m.live.openHeads()) > 0 && !strings.Contains(got, "[i] incident") {
						t.Errorf("%s, %dx%d: the incident has no key:\n%s", s.name, size.w, size.h, got)
					}
					if !m.armed() && m.noArm() == "" && !strings.Contains(got, "W arm") {
						t.Errorf("%s, %dx%d: nothing says how to arm:\n%s", s.name, size.w, size.h, got)
					}
					keys(m, "W")
				}
			})
		}
	}
}

// While a step up and a step down are both to be had, in a demonstration with its
// long word for leaving, no screen is lost.
func TestHelpLineOfAnArmedDemo(t *testing.T) {
	inSituation(t, "calm", 80, 24, func(t *testing.T, m *model) {
		s := recoveringState()
		s.Upstreams[0].NextStep.BlockedBy = ""
		s.Incidents = []api.IncidentHead{theIncident().IncidentHead}
		give(m, s, degradedEvents(), nil)
		m.o.Demo = true
		keys(m, "W")
		got := m.helpLine(80).text()
		for _, want := range []string{"j/k row", "enter open", "< down", "b steps", "l logs", "d decisions", "? keys", "q end demo"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q: %s", want, got)
			}
		}
		if got := screenOf(m); !strings.Contains(got, "next 25%: > ") {
			t.Errorf("BACK TO says nothing of the step up:\n%s", got)
		}
	})
}
