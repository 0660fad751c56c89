package ui

import (
	"testing"
	"time"

	"failback/internal/bubble"
)

// A screen that was not asked for since long before a freeze is old and no source
// is silent; of what was never asked for it says so.
func TestFrozenBeforeItWasAsked(t *testing.T) {
	inSituation(t, "incident-open", 100, 30, func(t *testing.T, m *model) {
		keys(m, "o")
		bubble.Sleep(20 * time.Second)
		give(m, incidentState(), nil, nil)
		keys(m, "f", "i")
		shows(t, m, "20s old", "FROZEN")
		lacks(t, m, "NO ANSWER")
	})
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		keys(m, "f", "i")
		shows(t, m, "It was not asked for when the view froze: f goes on.")
	})
}
