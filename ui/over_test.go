package ui

import (
	"strings"
	"testing"
	"time"

	"failback/internal/bubble"
	"failback/sources"
	"failback/ui/text"
)

// PQL-12: a number that is over what can be told says so, and is not taken for
// that bound.
func TestPQL12OverTheHighestBucket(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		k := incidentNumbers()
		k.overview.FirstOutputP95Before.Value, k.overview.FirstOutputP95Before.Over = 600, true
		keep(m, k)
		bubble.Sleep(5 * time.Second)
		d, now := m.d()
		if got := m.users(d, now, 200).text(); !strings.Contains(got, "(1h ago > 600s)") {
			t.Errorf("got %s", got)
		}
	})
	m := &model{}
	n := sources.Number{State: sources.Value, Value: 600, Over: true}
	if got := m.number(n, text.Seconds); got != "> 600s" {
		t.Errorf("got %s", got)
	}
	n.Over = false
	if got := m.number(n, text.Seconds); got != "600s" {
		t.Errorf("got %s", got)
	}
}

// A remark of Prometheus's, and series too young for the window, are said where
// there is room, and make nothing partial.
func TestNotesOfPrometheus(t *testing.T) {
	inSituation(t, "incident", 160, 30, func(t *testing.T, m *model) {
		k := incidentNumbers()
		k.overview.Notes = []string{"3 of 40 series are younger than 5m\x1b[2J"}
		keep(m, k)
		bubble.Sleep(5 * time.Second)
		got := m.promVital()[0].row.text()
		if !strings.Contains(got, "ok (every 15s), 3 of 40 series are younger than 5m") || strings.Contains(got, "partial") || strings.Contains(got, "\x1b") {
			t.Errorf("got %q", got)
		}
	})
}
