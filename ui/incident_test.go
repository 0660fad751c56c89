package ui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/sources"
)

func (r *recorder) Incidents(context.Context) (*api.Incidents, error) {
	v := &api.Incidents{At: time.Now()}
	if r.incident != nil {
		v.Incidents = []api.IncidentHead{r.incident.IncidentHead}
	}
	if r.older != nil {
		v.Incidents = append(v.Incidents, r.older.IncidentHead)
	}
	return v, nil
}

func (r *recorder) Incident(_ context.Context, id string) (*api.Incident, error) {
	if r.older != nil && r.older.ID == id {
		v := *r.older
		v.At = time.Now()
		return &v, nil
	}
	if r.incident == nil || r.incident.ID != id {
		return nil, &api.Error{Code: api.CodeNotFound, Message: "there is no such incident"}
	}
	v := *r.incident
	v.At = time.Now()
	return &v, nil
}

func (r *recorder) told(format string, args ...any) (*api.Result, error) {
	r.recorded = append(r.recorded, fmt.Sprintf(format, args...))
	if r.refuses != nil {
		return nil, r.refuses
	}
	if r.fails != nil {
		if err := r.fails(r.recorded[len(r.recorded)-1]); err != nil {
			return nil, err
		}
	}
	return &api.Result{Message: "recorded"}, nil
}

func (r *recorder) OpenIncident(_ context.Context, title string) (*api.Result, error) {
	return r.told("open %s", title)
}
func (r *recorder) IncidentNote(_ context.Context, id, text string) (*api.Result, error) {
	return r.told("note %s %s", id, text)
}
func (r *recorder) IncidentTick(_ context.Context, id string, t api.Tick) (*api.Result, error) {
	if t.Words == "" {
		return nil, errors.New("a tick without the words of its step")
	}
	res, err := r.told("tick %s %s %d %t", id, t.Runbook, t.Step, t.Done)
	if err == nil {
		res.Message = "incident " + id + ": " + res.Message // as a gateway says it
	}
	return res, err
}
func (r *recorder) IncidentAnswer(_ context.Context, id, q, answer string, seen time.Time) (*api.Result, error) {
	for i, c := range r.incident.Closing {
		if c.ID == q && c.Answer != "" && !c.At.Equal(seen) {
			return nil, &api.Error{Code: api.CodeStaleRevision, Message: "not seen", Question: &r.incident.Closing[i]}
		}
	}
	return r.told("answer %s %s %s", id, q, answer)
}
func (r *recorder) CloseIncident(_ context.Context, id string) (*api.Result, error) {
	return r.told("close %s", id)
}
func (r *recorder) CloseIncidentAnyway(_ context.Context, id, why string) (*api.Result, error) {
	return r.told("close %s anyway %s", id, why)
}
func (r *recorder) ReopenIncident(_ context.Context, id string) (*api.Result, error) {
	return r.told("reopen %s", id)
}

// inRecord runs f on the incident screen of an open incident, with writing armed.
func inRecord(t *testing.T, f func(t *testing.T, m *model, r *recorder)) {
	inBubble(t, func(m *model) { give(m, openState(), degradedEvents(), nil) }, func(t *testing.T, m *model, r *recorder) {
		r.incident = theIncident()
		typed(m, "W", "i")
		if m.shownIncident() == nil {
			t.Fatal("the incident is not shown")
		}
		f(t, m, r)
	})
}

func wantRecorded(t *testing.T, r *recorder, want ...string) {
	t.Helper()
	if !slices.Equal(r.recorded, want) {
		t.Errorf("recorded %q, want %q", r.recorded, want)
	}
}

func TestIncidentRecords(t *testing.T) {
	const id = "20261130-034840"
	for _, c := range []struct {
		name string
		keys []string
		want string
	}{
		{"note", append(append([]string{"n"}, word("ticket")...), "enter"), "note " + id + " ticket"},
		{"answers begin with what has none", append(append([]string{"a"}, word("41, 2 bad")...), "enter"), "answer " + id + " sampled 41, 2 bad"},
		{"the next question", append(append([]string{"a", "down"}, word("support")...), "enter"), "answer " + id + " users support"},
		{"closed all the same", append(append([]string{"x", "up"}, word("drill")...), "enter"), "close " + id + " anyway drill"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRecord(t, func(t *testing.T, m *model, r *recorder) {
				typed(m, c.keys...)
				wantRecorded(t, r, c.want)
				if m.form != nil {
					t.Errorf("the form stays: %q", m.form.refusal)
				}
			})
		})
	}
	t.Run("closed", func(t *testing.T) {
		inRecord(t, func(t *testing.T, m *model, r *recorder) {
			r.incident.Unanswered = nil
			bubble.Sleep(time.Second)
			follow(m, m.askIncidents())
			typed(m, "x", "enter")
			wantRecorded(t, r)
			typed(m, "y")
			wantRecorded(t, r, "close "+id)
		})
	})
	t.Run("refused", func(t *testing.T) {
		inRecord(t, func(t *testing.T, m *model, r *recorder) {
			r.refuses = errors.New("the store is away")
			typed(m, "n", "x", "enter")
			if m.form == nil || !strings.Contains(screenOf(m), "the store is away") || m.form.field.Value() != "x" {
				t.Errorf("what was typed is lost, or why is not said:\n%s", screenOf(m))
			}
		})
	})
	t.Run("empty", func(t *testing.T) {
		inRecord(t, func(t *testing.T, m *model, r *recorder) {
			typed(m, "n", " ", "enter")
			wantRecorded(t, r)
		})
	})
}

// Text that is pasted goes into the field alone, on one line, and sends nothing.
func TestIncidentPaste(t *testing.T) {
	inRecord(t, func(t *testing.T, m *model, r *recorder) {
		typed(m, "n")
		bubble.Sleep(time.Second)
		_, cmd := m.Update(tea.PasteMsg{Content: "first\nsecond\ny\n"})
		follow(m, cmd)
		wantRecorded(t, r)
		typed(m, "enter")
		wantRecorded(t, r, "note 20261130-034840 first second y")
	})
}

// Without arming nothing of an incident is written, and a tick is kept here.
func TestIncidentReadOnly(t *testing.T) {
	inRecord(t, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W")
		for _, k := range []string{"n", "a", "x", "R", "N"} {
			typed(m, k)
			if m.form != nil || !strings.Contains(m.message.text, "off") {
				t.Errorf("%s: form %v, says %q", k, m.form, m.message.text)
			}
		}
		typed(m, "1", "j", "j", "x")
		wantRecorded(t, r)
		if len(m.reading().ticks) != 1 || !strings.Contains(m.message.text, "here alone") {
			t.Errorf("ticks %v, says %q", m.reading().ticks, m.message.text)
		}
		// Armed, the next tick takes it along.
		typed(m, "W", "j", "x")
		if len(r.recorded) != 2 {
			t.Fatalf("recorded %q", r.recorded)
		}
		typed(m, "x")
		if len(r.recorded) != 3 || !strings.HasSuffix(r.recorded[2], "false") {
			t.Errorf("recorded %q", r.recorded)
		}
	})
}

// An answer about an incident that is no longer shown is dropped.
func TestIncidentLateAnswer(t *testing.T) {
	inRecord(t, func(t *testing.T, m *model, r *recorder) {
		other := theIncident()
		other.ID, other.Title = "20261129-010203", "another"
		m.Update(incidentMsg{id: other.ID, Answer: answerOf(other)})
		if m.shownIncident().ID != r.incident.ID {
			t.Errorf("shows %s", m.shownIncident().ID)
		}
	})
}

func answerOf(v *api.Incident) (a sources.Answer[api.Incident]) {
	now := time.Now()
	a.Gen, a.Value, a.Clock = 1<<20, v, sources.Clock{Sent: now, Received: now, At: now}
	return a
}

// What is typed in the moment in which a form opens is in its field; nothing of
// that moment sends it, and what is said of an empty field goes when it is not.
func TestIncidentTypedAhead(t *testing.T) {
	inRecord(t, func(t *testing.T, m *model, r *recorder) {
		typed(m, "n")
		for _, k := range append(word("all of it"), "enter") {
			_, cmd := m.Update(press(k))
			follow(m, cmd)
		}
		wantRecorded(t, r)
		if m.form == nil || m.form.field.Value() != "all of it" {
			t.Fatalf("form %v", m.form)
		}
		typed(m, "ctrl+u", "enter")
		if m.form.refusal == "" {
			t.Error("an empty note is not refused")
		}
		typed(m, word("noted")...)
		if m.form.refusal != "" {
			t.Errorf("still says %q", m.form.refusal)
		}
		typed(m, "enter")
		wantRecorded(t, r, "note 20261130-034840 noted")
	})
	// A yes of that moment is no yes.
	inRecord(t, func(t *testing.T, m *model, r *recorder) {
		r.incident.Unanswered = nil
		bubble.Sleep(time.Second)
		follow(m, m.askIncidents())
		typed(m, "x")
		_, cmd := m.Update(press("y"))
		follow(m, cmd)
		wantRecorded(t, r)
	})
}

// A question has the number it has on the screen, however many are answered.
func TestIncidentQuestionNumber(t *testing.T) {
	inRecord(t, func(t *testing.T, m *model, r *recorder) {
		typed(m, "a")
		q := m.form.choice()
		at := slices.IndexFunc(r.incident.Closing, func(c api.ClosingQuestion) bool { return c.ID == q })
		if want := strconv.Itoa(at+1) + "/" + strconv.Itoa(len(r.incident.Closing)) + "  "; at == 0 || !strings.Contains(screenOf(m), want) {
			t.Errorf("question %q is not called %q:\n%s", q, want, screenOf(m))
		}
	})
}

// At 80x24 it is seen without scrolling how far closing is, and the key that closes
// leads to the first question without an answer, and to closing all the same.
func TestIncidentClosingIsFound(t *testing.T) {
	inRecord(t, func(t *testing.T, m *model, r *recorder) {
		m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
		said := func(want ...string) {
			t.Helper()
			screen := strings.Join(strings.Fields(screenOf(m)), " ")
			for _, w := range want {
				if !strings.Contains(screen, w) {
					t.Errorf("no %q:\n%s", w, screenOf(m))
				}
			}
		}
		said("closing asks 2 of 6 answered, next is sampled: a or x leads there")
		typed(m, "x")
		if q := m.form.choice(); q != r.incident.Unanswered[0] {
			t.Errorf("x leads to %q", q)
		}
		said("Not answered yet: sampled, users, primary, runbook.", "2/6 Were degraded answers sampled", "answer:")
		typed(m, "up")
		said("Without an answer: sampled, users, primary, runbook.", "recorded as an override", "why:")
		typed(m, "down")
		said("2/6 ", "answer:")
		typed(m, append(word("41, 2 bad"), "enter")...)
		wantRecorded(t, r, "answer "+r.incident.ID+" sampled 41, 2 bad")
	})
}

// Somebody else answers while an answer is typed: nothing is replaced, what was typed
// stays, the other answer is shown, and enter then puts the own one in its place.
func TestIncidentAnsweredMeanwhile(t *testing.T) {
	inRecord(t, func(t *testing.T, m *model, r *recorder) {
		typed(m, append([]string{"a"}, word("none of 41")...)...)
		q := m.form.choice()
		other := *r.incident
		other.Closing = slices.Clone(other.Closing)
		at := slices.IndexFunc(other.Closing, func(c api.ClosingQuestion) bool { return c.ID == q })
		other.Closing[at].Answer, other.Closing[at].By, other.Closing[at].At = "two were bad", "ben", time.Now()
		r.incident = &other
		bubble.Sleep(3 * time.Second)
		follow(m, m.askIncidents()) // that it came on the screen is not that it was read
		typed(m, "enter")
		wantRecorded(t, r)
		if m.form == nil || m.form.field.Value() != "none of 41" {
			t.Fatal("what was typed is lost")
		}
		screen := strings.Join(strings.Fields(screenOf(m)), " ")
		for _, want := range []string{"two were bad", "ben answered at", "enter then"} {
			if !strings.Contains(screen, want) {
				t.Errorf("%q is not said:\n%s", want, screenOf(m))
			}
		}
		typed(m, "enter")
		wantRecorded(t, r, "answer "+r.incident.ID+" "+q+" none of 41")
	})
}

// A form stays about the incident that it was opened for, and shows that one,
// whichever others are opened and closed meanwhile.
func TestIncidentFormStays(t *testing.T) {
	for _, k := range []string{"n", "a", "x"} {
		inRecord(t, func(t *testing.T, m *model, r *recorder) {
			id := r.incident.ID
			typed(m, k)
			other := openState()
			other.Incidents = []api.IncidentHead{{ID: "20261130-050000", Title: "another"}}
			give(m, other, nil, nil)
			bubble.Sleep(3 * time.Second)
			follow(m, m.askIncidents())
			if v := m.shownIncident(); v == nil || v.ID != id {
				t.Fatalf("%s: the form for %s shows %+v", k, id, v)
			}
			typed(m, "z", "enter")
			if len(r.recorded) != 1 || !strings.Contains(r.recorded[0], " "+id) {
				t.Errorf("%s: recorded %q", k, r.recorded)
			}
			if got := m.incidentID(); got != other.Incidents[0].ID {
				t.Errorf("%s: without the form %q is shown", k, got)
			}
		})
	}
}
