package ui

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"failback/runbooks"
)

// Where live values have no room beside or below a runbook, the keys are named that
// show them; each works there, and leads to another screen.
func TestLiveValuesWithoutRoomNameTheirKey(t *testing.T) {
	more := regexp.MustCompile(`(?:and \d+ more[a-z ]*|\+\d+): ?([^ ](?: [^ ])*)? *\n`)
	unnamed := regexp.MustCompile(`(?:and \d+ more[a-z ]*| \+\d+) *\n`)
	for name, sizes := range map[string][][2]int{
		"runbook": {{100, 30}, {80, 24}, {60, 20}}, "runbook-end": {{100, 30}, {80, 24}, {60, 20}},
		"runbook-many": {{100, 30}, {80, 24}}, "runbook-shared-fault": {{80, 24}, {60, 20}},
	} {
		for _, size := range sizes {
			inSituation(t, name, size[0], size[1], func(t *testing.T, m *model) {
				_, live, _ := strings.Cut(screenOf(m), "LIVE")
				said := more.FindStringSubmatch(live)
				if said == nil || said[1] == "" || unnamed.MatchString(live) {
					t.Fatalf("%s %v: no key is named:\n%s", name, size, live)
				}
				for _, k := range strings.Fields(said[1]) {
					keys(m, k)
					if m.screen == runbook {
						t.Errorf("%s %v: %s leads nowhere: %s", name, size, k, m.message.text)
					}
					keys(m, "esc")
				}
			})
		}
	}
}

// Each live value has a place of its own, by a key that the table has on a runbook.
func TestEveryLiveValueHasAKey(t *testing.T) {
	inSituation(t, "runbook", 100, 30, func(t *testing.T, m *model) {
		for _, n := range runbooks.LiveNames {
			if n != runbooks.LiveIncident && len(m.keysTo([]string{n})) != 1 {
				t.Errorf("%s: %q", n, m.keysTo([]string{n}))
			}
		}
		if got, want := m.keysTo([]string{runbooks.LiveSLO, runbooks.LiveUsers, runbooks.LiveSignals, runbooks.LiveRatio}), []string{"$", "o", "b"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
