package ui

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
)

const lastWeek, tonight, later = "20261123-101010", "20261130-034840", "20261130-050000"

// oldIncident is one of last week, closed.
func oldIncident() *api.Incident {
	v := closedIncident()
	v.ID, v.Title, v.OpenedAt, v.ClosedAt = lastWeek, "vertex-us-central1 was degraded", ago(7*24*time.Hour), ago(6*24*time.Hour)
	return v
}

// head is an incident that was opened so long ago.
func head(id string, before time.Duration) api.IncidentHead {
	return api.IncidentHead{ID: id, Title: id, State: api.IncidentOpen, Cause: api.CauseDegraded, OpenedAt: ago(before)}
}

// opens gives a state with these incidents open, oldest first.
func opens(m *model, heads ...api.IncidentHead) {
	s := openState()
	s.Incidents = heads
	give(m, s, nil, nil)
}

// Whoever looked at last week's incident is led by i to the one that START tells of.
func TestIncidentOfLastWeekIsLeft(t *testing.T) {
	inBubble(t, func(m *model) { give(m, healthyState(), nil, nil) }, func(t *testing.T, m *model, r *recorder) {
		r.incident, r.older = theIncident(), oldIncident()
		r.incident.State = api.IncidentClosed
		typed(m, "W", "i", "[")
		if v := m.shownIncident(); v == nil || v.ID != lastWeek {
			t.Fatalf("[ shows %+v", v)
		}
		r.incident.State = api.IncidentOpen
		opens(m, r.incident.IncidentHead)
		// It stays while it is read, and says the way to the other.
		if m.incidentID() != lastWeek {
			t.Errorf("while one reads %s is shown", m.incidentID())
		}
		for k, want := range map[string]string{"n": "i shows the open one", "N": tonight + " is open: i shows it"} {
			if typed(m, k); m.form != nil || !strings.Contains(m.message.text, want) {
				t.Errorf("%s: form %v, said %q", k, m.form, m.message.text)
			}
		}
		typed(m, "R")
		if got := screenOf(m); m.form == nil || !strings.Contains(got, "Reopen incident "+lastWeek+"?") || !strings.Contains(got, "vertex-us-central1 was degraded") {
			t.Errorf("which one is opened again is not said:\n%s", got)
		}
		typed(m, "esc", "i")
		if v := m.shownIncident(); v == nil || v.ID != tonight {
			t.Fatalf("i on its own screen shows %+v", v)
		}
		if typed(m, "i"); !strings.Contains(m.message.text, "this is that screen") {
			t.Errorf("i again: %q", m.message.text)
		}
		// From the first screen, too.
		typed(m, "[", "esc")
		if got := screenOf(m); !strings.Contains(got, "[i] incident 24m") {
			t.Fatalf("START does not tell of it:\n%s", got)
		}
		typed(m, "i")
		if v := m.shownIncident(); v == nil || v.ID != tonight {
			t.Fatalf("i shows %+v", v)
		}
		for k, title := range map[string]string{"n": "Note for incident ", "a": "Answer incident ", "x": "Close incident "} {
			typed(m, k)
			if got := screenOf(m); !strings.Contains(got, title+tonight) {
				t.Errorf("%s asks of no incident:\n%s", k, got)
			}
			typed(m, "esc")
		}
		r.incident.Unanswered = nil
		bubble.Sleep(3 * time.Second)
		follow(m, m.askIncidents())
		typed(m, "x")
		if got := screenOf(m); !strings.Contains(got, "Close incident "+tonight+"?") || !strings.Contains(got, "anthropic-us-east-1 is degraded") {
			t.Errorf("which one is closed is not said:\n%s", got)
		}
	})
}

// Of several open ones START, i and ticks are about the newest, or the one that was
// gone to, until another is opened.
func TestIncidentOfSeveralOpen(t *testing.T) {
	inBubble(t, func(m *model) { opens(m, head(lastWeek, 26*time.Hour), head(tonight, 24*time.Minute)) }, func(t *testing.T, m *model, r *recorder) {
		r.incident, r.older = theIncident(), oldIncident()
		r.older.State = api.IncidentOpen
		step := 0
		ticks := func(id, age string) {
			t.Helper()
			if got := screenOf(m); !strings.Contains(strings.ReplaceAll(got, "incident open", "incident"), "[i] incident "+age) {
				t.Errorf("START does not tell of %s:\n%s", id, got)
			}
			typed(m, "i")
			if m.incidentID() != id {
				t.Errorf("i shows %s, not %s", m.incidentID(), id)
			}
			typed(m, "1", "j", "j")
			m.reading().cursor = 2 + step
			step = m.runbookStep().Number
			typed(m, "x")
			said := m.message.text
			typed(m, "esc", "esc")
			if last := r.recorded[len(r.recorded)-1]; last != fmt.Sprintf("tick %s manual-failback %d true", id, step) || !strings.Contains(said, id) {
				t.Errorf("recorded %q, said %q", last, said)
			}
		}
		typed(m, "W")
		ticks(tonight, "24m (+1)")
		typed(m, "i", "[", "esc")
		ticks(lastWeek, "26h (+1)")
		opens(m, head(lastWeek, 26*time.Hour), head(tonight, 25*time.Minute), head(later, 2*time.Minute))
		ticks(later, "2m (+2)")
	})
}

// onSteps opens the first runbook with writing armed.
func onSteps(t *testing.T, f func(t *testing.T, m *model, r *recorder, x func(steps ...int))) {
	t.Helper()
	inBubble(t, func(m *model) { give(m, openState(), degradedEvents(), nil) }, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "1")
		f(t, m, r, func(steps ...int) {
			for _, n := range steps {
				m.reading().cursor = slices.IndexFunc(stopsOf(m.runbook.open), func(s stop) bool { return s.step == n })
				typed(m, "x")
			}
		})
	})
}

func wantTicks(t *testing.T, r *recorder, id string, want ...string) {
	t.Helper()
	for i, w := range want {
		want[i] = "tick " + id + " manual-failback " + w
	}
	wantRecorded(t, r, want...)
	r.recorded = nil
}

// X takes the ticks out of the record, and what is ticked again goes into it again:
// into the next incident too, whose record no older tick goes into.
func TestTicksOfTwoIncidents(t *testing.T) {
	onSteps(t, func(t *testing.T, m *model, r *recorder, x func(...int)) {
		x(1, 2)
		wantTicks(t, r, tonight, "1 true", "2 true")
		typed(m, "X")
		wantTicks(t, r, tonight, "1 false", "2 false")
		if !strings.Contains(m.message.text, tonight+": 2 ticks taken back") {
			t.Errorf("said %q", m.message.text)
		}
		x(1, 2, 3)
		wantTicks(t, r, tonight, "1 true", "2 true", "3 true")

		opens(m, head(later, time.Minute))
		x(4) // those before are the other's
		wantTicks(t, r, later, "4 true")
		x(3)
		wantTicks(t, r, later)
		if !strings.Contains(m.message.text, "taken away here alone: incident "+tonight+" keeps") {
			t.Errorf("said %q", m.message.text)
		}
		typed(m, "X")
		wantTicks(t, r, later, "4 false")
		x(1, 2)
		wantTicks(t, r, later, "1 true", "2 true")
	})
}

// A tick from long before an incident is none of its record.
func TestTicksOfAnotherTime(t *testing.T) {
	onSteps(t, func(t *testing.T, m *model, r *recorder, x func(...int)) {
		typed(m, "W")
		x(1)
		if !strings.Contains(m.message.text, "here alone, not in incident "+tonight) {
			t.Errorf("said %q", m.message.text)
		}
		bubble.Sleep(2 * time.Hour)
		opens(m, head(later, time.Minute))
		x(2)
		typed(m, "W")
		x(3)
		wantTicks(t, r, later, "2 true", "3 true")
		if !strings.Contains(m.message.text, later+": 2 ticks kept") {
			t.Errorf("said %q", m.message.text)
		}
	})
}

// What a batch recorded before it failed is known, and the rest is sent again, a
// tick that was taken away too.
func TestTicksThatFail(t *testing.T) {
	onSteps(t, func(t *testing.T, m *model, r *recorder, x func(...int)) {
		typed(m, "W")
		x(1, 2, 3)
		typed(m, "W")
		r.fails = func(what string) error {
			if strings.HasSuffix(what, "3 true") || strings.HasSuffix(what, "false") {
				return errors.New("the store is away")
			}
			return nil
		}
		x(4)
		wantTicks(t, r, tonight, "1 true", "2 true", "3 true")
		if s := m.message.text; !strings.Contains(s, tonight+": 2 ticks kept; step 3 was not recorded") || !strings.Contains(s, "the store is away") {
			t.Errorf("said %q", s)
		}
		r.fails = nil
		x(5)
		wantTicks(t, r, tonight, "3 true", "4 true", "5 true")

		r.fails = func(string) error { return errors.New("the store is away") }
		x(5)
		wantTicks(t, r, tonight, "5 false")
		r.fails = nil
		x(6)
		wantTicks(t, r, tonight, "5 false", "6 true")
		if s := m.message.text; !strings.Contains(s, tonight+": 1 tick kept, 1 tick taken back") {
			t.Errorf("said %q", s)
		}

		r.fails = func(string) error { return errors.New("the store is away") }
		typed(m, "X")
		r.recorded, r.fails = nil, nil
		typed(m, "X")
		wantTicks(t, r, tonight, "1 false", "2 false", "3 false", "4 false", "6 false")
		if typed(m, "X"); !strings.Contains(m.message.text, "X is off") {
			t.Errorf("nothing is left, said %q", m.message.text)
		}
	})
}

// What is ticked and taken away while a batch is on its way follows it, in order.
func TestTicksFollowEachOther(t *testing.T) {
	onSteps(t, func(t *testing.T, m *model, r *recorder, _ func(...int)) {
		m.reading().cursor = slices.IndexFunc(stopsOf(m.runbook.open), func(s stop) bool { return s.step == 1 })
		_, first := m.Update(press("x"))
		for range 3 { // taken away, ticked, taken away
			bubble.Sleep(400 * time.Millisecond)
			_, cmd := m.Update(press("x"))
			follow(m, cmd)
		}
		wantTicks(t, r, tonight)
		follow(m, first)
		wantTicks(t, r, tonight, "1 true", "1 false")
		if n := len(m.reading().record.back); n > 0 {
			t.Errorf("%d are owed still", n)
		}
	})
}
