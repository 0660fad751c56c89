package ui

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// Beside the runbook of the gateway itself stand what is in memory alone, and
// since when people are not told.
func TestRunbookSaysSinceWhen(t *testing.T) {
	inSituation(t, "calm", 160, 60, func(t *testing.T, m *model) {
		s := troubledState()
		s.Notify.LastErrorAt, s.Notify.Lost = time.Now().Add(-9*time.Second), 3
		s.Incidents = []api.IncidentHead{{ID: "20261130-1", State: api.IncidentOpen, Unsynced: true}}
		s.Passthrough = &api.Passthrough{Order: []string{"alpha"}, Until: time.Now().Add(time.Hour), Unsynced: true}
		give(m, s, nil, nil)
		openRunbook(m, "gateway-or-store")
		keys(m, "j", "j")
		got := screenOf(m)
		for _, want := range []string{"not told, tried 9s ago", "2 waiting, since 04:09:31Z", "3 given up", "20261130-1", "its record is UNSYNCED", "UNSYNCED: at this gateway alone"} {
			if !strings.Contains(got, want) {
				t.Errorf("it does not say %q", want)
			}
		}
		if t.Failed() {
			t.Log(got)
		}
	})
}
