package ui

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/sources"
)

// recorder is an API that notes the commands it is given, in this process: for
// tests of what is sent, not of how.
type recorder struct {
	nobody
	m      *model
	sent   []api.Command
	answer func(api.Command) (*api.Result, error)
	// What incidents were told, and what they are.
	recorded []string
	incident *api.Incident
	older    *api.Incident // another one, which was opened before it
	refuses  error
	fails    func(what string) error // of some of it; nil: nothing
}

func (r *recorder) SetShare(_ context.Context, _ string, c api.Command) (*api.Result, error) {
	r.sent = append(r.sent, c)
	if r.answer != nil {
		return r.answer(c)
	}
	return &api.Result{Message: "done"}, nil
}

// Asked again it says what the test gave last.
func (r *recorder) State(context.Context) (*api.State, error) {
	s := *r.m.live.state.Value()
	s.At = time.Now()
	return &s, nil
}

func (r *recorder) Events(context.Context, uint64) (*api.Events, error) {
	return &api.Events{At: time.Now()}, nil
}

func (r *recorder) Decisions(context.Context, api.Filter) (*api.Decisions, error) {
	d := *r.m.live.decisions.Value()
	d.At = time.Now()
	return &d, nil
}

// record gives m a recorder.
func record(m *model) *recorder {
	r := &recorder{m: m}
	m.o.Client, m.src.API = r, r
	return r
}

// follow runs commands and what their messages lead to, but for the ticks.
func follow(m *model, cmds ...tea.Cmd) (quit bool) {
	for _, cmd := range cmds {
		if cmd == nil {
			continue
		}
		switch msg := cmd().(type) {
		case nil, tickMsg:
		case tea.QuitMsg:
			quit = true
		case tea.BatchMsg:
			quit = follow(m, msg...) || quit
		default:
			_, next := m.Update(msg)
			quit = follow(m, next) || quit
		}
	}
	return quit
}

// typed presses keys slowly and runs what they lead to.
func typed(m *model, ks ...string) (quit bool) {
	for _, k := range ks {
		bubble.Sleep(400 * time.Millisecond)
		_, cmd := m.Update(press(k))
		quit = follow(m, cmd) || quit
	}
	return quit
}

// word is the keys of a word.
func word(s string) []string { return strings.Split(s, "") }

// inBubble runs f in a bubble, on a console with a recorder.
func inBubble(t *testing.T, make func(*model), f func(t *testing.T, m *model, r *recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(100, 30)
		m.o.DataDir = t.TempDir() // commands are run
		r := record(m)
		make(m)
		f(t, m, r)
	})
}

// everyKey is every key there is to press by accident.
func everyKey() []tea.KeyPressMsg {
	var ks []tea.KeyPressMsg
	for c := rune(' '); c < 0x7f; c++ {
		ks = append(ks, tea.KeyPressMsg{Code: c, Text: string(c)}, tea.KeyPressMsg{Code: c, Mod: tea.ModCtrl}, tea.KeyPressMsg{Code: c, Mod: tea.ModAlt})
	}
	for _, c := range []rune{tea.KeyEnter, tea.KeyTab, tea.KeyEscape, tea.KeyBackspace, tea.KeyDelete, tea.KeyInsert, tea.KeyUp, tea.KeyDown, tea.KeyLeft, tea.KeyRight, tea.KeyHome, tea.KeyEnd, tea.KeyPgUp, tea.KeyPgDown, tea.KeyKpEnter, tea.KeyF1, tea.KeyF5, tea.KeyF12} {
		for _, mod := range []tea.KeyMod{0, tea.ModShift, tea.ModCtrl, tea.ModAlt} {
			ks = append(ks, tea.KeyPressMsg{Code: c, Mod: mod})
		}
	}
	return ks
}

// TestOnlyYConfirms: in an open dialog that asks for nothing else, no key but
// y sends anything.
func TestOnlyYConfirms(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W")
		for _, k := range everyKey() {
			if k.String() == "y" {
				continue
			}
			m.dialog, m.leaving = nil, nil
			typed(m, "o", "<")
			if m.dialog == nil {
				t.Fatalf("no dialog: %s", m.message.text)
			}
			bubble.Sleep(time.Second)
			_, cmd := m.Update(k)
			follow(m, cmd)
			if len(r.sent) > 0 {
				t.Fatalf("%q sent %+v", k, r.sent[0])
			}
			calm(m) // the ages of a test that takes minutes
		}
		m.dialog, m.leaving = nil, nil
		m.armedUntil = m.now.Add(time.Hour)
		typed(m, "o", "<", "y")
		if len(r.sent) != 1 {
			t.Fatalf("y sent %d commands: %s", len(r.sent), m.message.text)
		}
		c := r.sent[0]
		if c.Share == nil || *c.Share != 75 || c.Revision == nil || *c.Revision != 1 || c.Override || c.Undo {
			t.Errorf("sent %+v", c)
		}
		if m.dialog != nil || !strings.Contains(m.message.text, "done") {
			t.Errorf("after success: dialog %v, message %q", m.dialog, m.message.text)
		}
	})
}

// TestStrayKeysChangeNothing: on every screen every key, with and without
// arming, leads to no command.
func TestStrayKeysChangeNothing(t *testing.T) {
	for _, arm := range []bool{false, true} {
		inBubble(t, incident, func(t *testing.T, m *model, r *recorder) {
			for _, screen := range []string{"o", "e", "d", "?", "!", "i", "m", "w", "$", "1"} {
				for _, k := range everyKey() {
					m.dialog, m.form, m.leaving, m.typing = nil, nil, nil, false
					m.home()
					m.armedUntil = time.Time{}
					if arm {
						m.armedUntil = m.now.Add(time.Hour)
					}
					keys(m, screen)
					_, cmd := m.Update(k)
					follow(m, cmd)
					if len(r.sent) > 0 || !arm && len(r.recorded) > 0 {
						t.Fatalf("armed %t, screen %s: %q sent %+v, recorded %q", arm, screen, k, r.sent, r.recorded)
					}
				}
			}
		})
	}
}

// TestReadOnlyOpensNothing: with --read-only, or for a viewer, there is not
// even a dialog.
func TestReadOnlyOpensNothing(t *testing.T) {
	for name, make := range map[string]func(*model){
		"flag": func(m *model) { m.o.ReadOnly = true; incident(m) },
		"viewer": func(m *model) {
			s := incidentState()
			s.You.ReadOnlyWhy = "the role of this token is viewer"
			give(m, s, incidentEvents(), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, make, func(t *testing.T, m *model, r *recorder) {
				for _, k := range []string{"W", ">", "<", "u"} {
					typed(m, k)
					if m.dialog != nil || m.armed() {
						t.Fatalf("%s opened a dialog or armed", k)
					}
					if !strings.Contains(m.message.text, "is off: ") {
						t.Errorf("%s does not say why it is off: %q", k, m.message.text)
					}
				}
				typed(m, "y", "enter", "y")
				if len(r.sent) > 0 {
					t.Fatalf("sent %+v", r.sent)
				}
			})
		})
	}
}

// TestPasteNeverConfirms: bracketed paste, and a burst of keys as paste without
// brackets has it.
func TestPasteNeverConfirms(t *testing.T) {
	open := func(m *model) {
		m.dialog = nil
		typed(m, "<")
		bubble.Sleep(time.Second)
	}
	inBubble(t, calm, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W")
		for _, p := range []string{"y", "y\n", "<y", "yyyy"} {
			open(m)
			_, cmd := m.Update(tea.PasteMsg{Content: p})
			follow(m, cmd)
			bubble.Sleep(time.Second)
			if m.dialog.why.Value() != "" {
				t.Errorf("a paste went into a field without the focus: %q", m.dialog.why.Value())
			}
		}
		for _, p := range []string{"dq:y\nquit", "y\n", "yy", "yes", "xy", "\ty", "q\ny", "y"} {
			for _, gap := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond} {
				open(m)
				var cmds []tea.Cmd
				for _, c := range strings.Split(p, "") {
					k := c
					switch c {
					case "\n":
						k = "enter"
					case "\t":
						k = "tab"
					}
					_, cmd := m.Update(press(k))
					cmds = append(cmds, cmd)
					bubble.Sleep(gap)
				}
				if p == "y" { // alone it is a key like any other
					m.dialog = nil
				}
				follow(m, cmds...)
				if len(r.sent) > 0 {
					t.Fatalf("the burst %q with gaps of %s sent %+v", p, gap, r.sent)
				}
				m.leaving = nil
			}
		}
	})
}

// TestHeldKey: the opening key held down opens once and does nothing more, and
// nothing is heard in the first 300 ms.
func TestHeldKey(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W")
		var cmds []tea.Cmd
		for range 60 {
			_, cmd := m.Update(press("<"))
			cmds = append(cmds, cmd)
			bubble.Sleep(30 * time.Millisecond)
		}
		follow(m, cmds...)
		if m.dialogs != 1 || m.dialog == nil || m.dialog.to != 75 || len(r.sent) > 0 {
			t.Fatalf("%d dialogs, to %v, sent %v", m.dialogs, m.dialog, r.sent)
		}
		m.dialog = nil
		typed(m, "<")
		bubble.Sleep(200 * time.Millisecond)
		for _, k := range []string{"y", "esc", "n", "right"} {
			_, cmd := m.Update(press(k))
			follow(m, cmd)
		}
		if m.dialog == nil || m.dialog.to != 75 || len(r.sent) > 0 {
			t.Errorf("it heard a key within 300 ms")
		}
	})
}

// TestFields: a WARN needs a reason, a no the name too, and what is typed is
// typed, not obeyed.
func TestFields(t *testing.T) {
	inBubble(t, incident, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", ">") // anthropic-us-east-1, its breaker is open
		d := m.dialog
		a := d.assess(m)
		if !a.needWhy || !a.needName || d.focus != whyField {
			t.Fatalf("needs why %t, name %t, focus %d", a.needWhy, a.needName, d.focus)
		}
		typed(m, "y", "n", "<", "enter") // text, then the next field
		if d.why.Value() != "yn<" || d.focus != nameField {
			t.Fatalf("why is %q, focus %d", d.why.Value(), d.focus)
		}
		bubble.Sleep(time.Second)
		m.Update(tea.PasteMsg{Content: "anthropic-us-\neast-2\x1b[2J\u202e"})
		if got := d.name.Value(); got != "anthropic-us- east-2[2J" {
			t.Errorf("pasted %q", got)
		}
		typed(m, "enter", "y")
		if len(r.sent) > 0 || !strings.Contains(m.message.text, "name") {
			t.Fatalf("the wrong name sent %v, or nothing was said: %q", r.sent, m.message.text)
		}
		d.name.SetValue("")
		typed(m, "tab", "tab")
		typed(m, word("anthropic-us-east-1")...)
		typed(m, "tab", "y")
		if len(r.sent) != 1 {
			t.Fatalf("sent %d: %s", len(r.sent), m.message.text)
		}
		if c := r.sent[0]; *c.Share != 5 || *c.Revision != 131 || !c.Override || c.Reason != "yn<" {
			t.Errorf("sent %+v", c)
		}
	})
}

// quietState is that of the incident with an anthropic-eu-west-1 that nothing
// speaks against.
func quietState() api.State {
	s := incidentState()
	s.Upstreams[3].Breakers[1].State = "closed"
	s.Upstreams[3].Since = time.Now().Add(-20 * time.Minute) // held as long as its step asks for
	return s
}

func quietly(m *model) { give(m, quietState(), nil, nil) }

// TestNoWarningNeedsNothing: a step that nothing speaks against is sent as it
// is, and LIVE is waited for.
func TestNoWarningNeedsNothing(t *testing.T) {
	inBubble(t, quietly, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "j", "j", "j", ">", "y")
		if len(r.sent) != 1 || r.sent[0].Override || *r.sent[0].Share != 25 || *r.sent[0].Revision != 118 {
			t.Fatalf("sent %+v: %s", r.sent, m.message.text)
		}
		s := quietState()
		u := &s.Upstreams[3]
		u.Share, u.Revision = 25, 119
		bubble.Sleep(3 * time.Second)
		give(m, s, nil, nil)
		if got := screenOf(m); !strings.Contains(got, "25%  4.9% ... 3s") || !strings.Contains(got, "given, waiting for LIVE 3s") {
			t.Errorf("the row does not wait for LIVE:\n%s", got)
		}
		bubble.Sleep(20 * time.Second)
		s.Upstreams[3].Live = val(0.23)
		give(m, s, nil, nil)
		m.expire()
		if got := screenOf(m); strings.Contains(got, "...") || !strings.Contains(got, "answers 23.0% of its own traffic at share 25%") {
			t.Errorf("LIVE has arrived and the row still waits:\n%s", got)
		}
	})
}

// TestStaleRevision: another person's change turns y off until it was reread,
// except for a way down.
func TestStaleRevision(t *testing.T) {
	changed := func(m *model, share int) {
		s := quietState()
		u := &s.Upstreams[3]
		u.Share, u.Revision, u.StateBy = share, 119, "ben"
		give(m, s, []api.Event{{Seq: 9, Event: "traffic_step", Time: time.Now(), Provider: u.Name, From: "25", To: strconv.Itoa(share), By: "ben", Why: "mine", Revision: 119}}, nil)
	}
	inBubble(t, quietly, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "j", "j", "j", ">")
		changed(m, 5)
		typed(m, "y")
		if len(r.sent) > 0 || !strings.Contains(m.message.text, "r rereads") {
			t.Fatalf("sent %v, said %q", r.sent, m.message.text)
		}
		if got := screenOf(m); !strings.Contains(got, `ben anthropic-eu-west-1 share 25% > 5%`) {
			t.Errorf("the other person's change is not shown:\n%s", got)
		}
		typed(m, "r")
		bubble.Sleep(quietFor)
		follow(m, keys(m, "y")...)
		if len(r.sent) > 0 || !strings.Contains(m.message.text, "has just changed") {
			t.Fatalf("right after the reread sent %+v, said %q", r.sent, m.message.text)
		}
		typed(m, "y")
		if len(r.sent) != 1 || *r.sent[0].Revision != 119 || *r.sent[0].Share != 25 {
			t.Fatalf("after reread sent %+v, said %q", r.sent, m.message.text)
		}
	})
	// So does one that is heard of while the y waits for quiet.
	for _, share := range []int{5, 100} { // under what was asked for, and beyond
		inBubble(t, quietly, func(t *testing.T, m *model, r *recorder) {
			typed(m, "W", "j", "j", "j", ">")
			bubble.Sleep(time.Second)
			cmds := keys(m, "y")
			changed(m, share)
			follow(m, cmds...)
			if len(r.sent) > 0 || !strings.Contains(m.message.text, "nothing was sent: it changed meanwhile") {
				t.Fatalf("by a change to %d%% sent %+v, said %q", share, r.sent, m.message.text)
			}
		})
	}
	// And one that the gateway alone knows of yet.
	inBubble(t, quietly, func(t *testing.T, m *model, r *recorder) {
		r.answer = func(api.Command) (*api.Result, error) {
			return nil, &api.Error{Code: api.CodeStaleRevision, Message: "changed"}
		}
		typed(m, "W", "j", "j", "j", ">", "y", "y")
		if len(r.sent) != 1 || !strings.Contains(m.message.text, "r rereads") {
			t.Fatalf("sent %+v, said %q", r.sent, m.message.text)
		}
		if typed(m, "r", "y"); len(r.sent) != 2 {
			t.Errorf("after reread sent %+v, said %q", r.sent, m.message.text)
		}
	})
	// Another who went further than what was asked for makes no lowering of it.
	inBubble(t, quietly, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "j", "j", "j", ">")
		before := m.dialog.to
		changed(m, 100)
		typed(m, "y")
		if got := screenOf(m); len(r.sent) > 0 || before >= 100 || !strings.Contains(m.message.text, "r rereads") || strings.Contains(got, "goes through") || !strings.Contains(got, "Send "+percent(before)) {
			t.Fatalf("sent %+v, said %q\n%s", r.sent, m.message.text, got)
		}
		typed(m, "r")
		if got := screenOf(m); !strings.Contains(got, "Lower ") {
			t.Errorf("reread it is no lowering:\n%s", got)
		}
		bubble.Sleep(time.Second)
		if typed(m, "y"); len(r.sent) != 1 || *r.sent[0].Share != before || *r.sent[0].From != 100 || *r.sent[0].Revision != 119 {
			t.Errorf("after the reread sent %+v, said %q", r.sent, m.message.text)
		}
	})
	// Who was asked for exactly that is told who did it.
	inBubble(t, quietly, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "j", "j", "j", ">")
		to := m.dialog.to
		changed(m, to)
		typed(m, "y")
		if got := screenOf(m); len(r.sent) > 0 || !strings.Contains(got, "share "+percent(to)+" is set already by ben: r rereads") || strings.Contains(got, "Lower ") {
			t.Fatalf("sent %+v, said %q\n%s", r.sent, m.message.text, got)
		}
		// Reread there is nothing to do: it says so, and what leads on, and promises no
		// way back.
		further := shareAbove(m.live.state.Value(), m.live.upstream(m.dialog.upstream), to)
		typed(m, "r")
		got := screenOf(m)
		if want := "y is off: it has " + percent(to) + " already: right chooses " + percent(further); !strings.Contains(got, want) {
			t.Errorf("%q is not said:\n%s", want, got)
		}
		for _, stale := range []string{"r rereads", "way back", "after   share", "Send ", "Lower "} {
			if strings.Contains(got, stale) {
				t.Errorf("%q is said still:\n%s", stale, got)
			}
		}
		bubble.Sleep(time.Second)
		if typed(m, "y"); len(r.sent) > 0 {
			t.Errorf("sent %+v", r.sent)
		}
		typed(m, "right")
		if got := screenOf(m); !strings.Contains(got, "Send "+percent(further)+" back") || strings.Contains(got, "already") {
			t.Errorf("right does not lead on:\n%s", got)
		}
	})
	// A lowering that another went below of raises nothing.
	inBubble(t, incident, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "j", "j", "j", "<")
		m.dialog.to, m.dialog.from = 5, 25
		changed(m, 0)
		typed(m, "y")
		if got := screenOf(m); len(r.sent) > 0 || !strings.Contains(m.message.text, "r rereads") || strings.Contains(got, "goes through") {
			t.Fatalf("sent %+v, said %q\n%s", r.sent, m.message.text, got)
		}
	})
	inBubble(t, incident, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "j", "j", "j", "<")
		changed(m, 25)
		typed(m, "y")
		// It is bound to what was shown: who reads the audit sees what was not known.
		if len(r.sent) != 1 || *r.sent[0].Share != 0 || *r.sent[0].Revision != 118 {
			t.Fatalf("a way down was blocked, or is of what nobody saw: sent %+v, said %q", r.sent, m.message.text)
		}
	})
	// What was a way down when it was opened is not one any more.
	inBubble(t, calm, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "<")
		s := incidentState()
		s.Upstreams[0].Revision = 2
		s.Upstreams[0].Share = 0
		give(m, s, nil, nil)
		typed(m, "y")
		if len(r.sent) > 0 {
			t.Fatalf("a raise was sent for a lowering: %+v", r.sent)
		}
	})
}

// TestAnswersOfTheGateway: what it refuses is said in the dialog, which stays.
func TestAnswersOfTheGateway(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want []string // on the screen
	}{
		{"stale", &api.Error{Code: api.CodeStaleRevision, Message: "changed", LastWrite: &api.Event{Event: "operator_command", Provider: "x", Action: "share", From: "100", To: "5", By: "ben", Result: "ok"}}, []string{"refused: ben was first"}},
		{"blocked", &api.Error{Code: api.CodeBlocked, Message: "two probes failed"}, nil},
		{"forbidden", &api.Error{Code: api.CodeForbidden, Message: "viewers do not write"}, []string{"refused: viewers do not write"}},
		{"lost", &api.UnreachableError{Target: "x", Err: context.DeadlineExceeded, MayHaveHappened: true}, []string{"it may have taken effect"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, calm, func(t *testing.T, m *model, r *recorder) {
				r.answer = func(api.Command) (*api.Result, error) { return nil, tt.err }
				typed(m, "W", "<", "y")
				if m.dialog == nil || m.dialog.sending {
					t.Fatal("the dialog is gone, or waits on")
				}
				got := screenOf(m)
				for _, w := range tt.want {
					if !strings.Contains(got, w) {
						t.Errorf("%q is not said:\n%s", w, got)
					}
				}
				if len(m.settling) > 0 {
					t.Error("LIVE is waited for after a failure")
				}
			})
		})
	}
	// What is in force and not in the audit yet is said so.
	inBubble(t, calm, func(t *testing.T, m *model, r *recorder) {
		r.answer = func(api.Command) (*api.Result, error) { return &api.Result{Message: "done", AuditPending: true}, nil }
		typed(m, "W", "<", "y")
		if m.message.text != "done (in force; the audit cannot be written now)" || m.message.style != warn {
			t.Errorf("said %+v", m.message)
		}
	})
	// A gate that objects at the last moment asks for a reason, and gets it.
	inBubble(t, quietly, func(t *testing.T, m *model, r *recorder) {
		r.answer = func(c api.Command) (*api.Result, error) {
			if !c.Override {
				return nil, &api.Error{Code: api.CodeBlocked, Message: "two probes failed"}
			}
			return &api.Result{Message: "done"}, nil
		}
		typed(m, "W", "j", "j", "j", ">", "y")
		if got := screenOf(m); !strings.Contains(got, "the gateway objects: two probes failed") {
			t.Fatalf("the objection is not shown:\n%s", got)
		}
		typed(m, "y")
		if len(r.sent) != 1 {
			t.Fatal("sent again without a reason")
		}
		typed(m, "tab", "o", "k", "tab", "y")
		if len(r.sent) != 2 || !r.sent[1].Override || r.sent[1].Reason != "ok" || m.dialog != nil {
			t.Errorf("sent %+v", r.sent)
		}
	})
}

// TestDarkGateway: with nothing known any more a way down is tried all the
// same, and a way up needs the name.
func TestDarkGateway(t *testing.T) {
	dark := func(m *model, d time.Duration) {
		for range int(d / time.Second) {
			bubble.Sleep(time.Second)
			refuseConnection(m)
		}
	}
	inBubble(t, calm, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W")
		dark(m, 40*time.Second)
		typed(m, "<")
		if got := screenOf(m); !strings.Contains(got, "the gateway does not answer") {
			t.Errorf("it does not say so:\n%s", got)
		}
		typed(m, "y")
		if len(r.sent) != 1 {
			t.Fatalf("a way down was blocked: %s", m.message.text)
		}
	})
	for _, tt := range []struct {
		silent    time.Duration
		why, name bool
	}{{0, false, false}, {2 * time.Second, true, false}, {8 * time.Second, true, true}, {35 * time.Second, true, true}} {
		inBubble(t, quietly, func(t *testing.T, m *model, _ *recorder) {
			keys(m, "W", "j", "j", "j")
			dark(m, tt.silent)
			keys(m, ">")
			if a := m.dialog.assess(m); a.needWhy != tt.why || a.needName != tt.name {
				t.Errorf("silent for %s: needs why %t, name %t; want %t, %t: %+v", tt.silent, a.needWhy, a.needName, tt.why, tt.name, a.checks)
			}
			// What was heard last vouches for nothing that may have changed since.
			got := screenOf(m)
			if known, asks := strings.Contains(got, "nothing changed since you opened this"), strings.Contains(got, "??    whether it changed since you opened this (rev "); known != (tt.silent == 0) || asks == known {
				t.Errorf("silent for %s:\n%s", tt.silent, got)
			}
			if m.whole().State == sources.Unknown && slices.ContainsFunc(m.dialog.assess(m).checks, func(c check) bool { return c.mark == "ok" }) {
				t.Errorf("silent for %s, and something is ok:\n%s", tt.silent, got)
			}
		})
	}
}

// TestArmingRunsOut: a way up stops with it, a way down does not.
func TestArmingRunsOut(t *testing.T) {
	for _, key := range []string{">", "<"} {
		inBubble(t, incident, func(t *testing.T, m *model, r *recorder) {
			typed(m, "W", "j", "j", "j", key)
			bubble.Sleep(armFor)
			incident(m)
			m.expire()
			m.dialog.why.SetValue("because")
			m.dialog.focus = noField
			typed(m, "y")
			if sent := len(r.sent) > 0; sent != (key == "<") {
				t.Errorf("%s: sent %t, said %q", key, sent, m.message.text)
			}
		})
	}
}

// What a lowering moves is said by what the upstream gets now: nothing where that is
// less than its share already; and a spare has no LIVE.
func TestWhatALoweringMoves(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
		shown := func(rps float64) string {
			s := *m.live.state.Value()
			s.Upstreams = slices.Clone(s.Upstreams)
			for i := range s.Upstreams {
				s.Upstreams[i].RPS, s.Upstreams[i].OwnRPS = val(rps), val(400)
			}
			give(m, s, nil, nil)
			return strings.Join(strings.Fields(screenOf(m)), " ")
		}
		typed(m, "W", "<")
		if got := shown(350); !strings.Contains(got, "that moves about 50.0 req/s away from anthropic-us-east-1; it keeps 300.0") {
			t.Errorf("it gets more than that:\n%s", got)
		}
		if got := shown(100); !strings.Contains(got, "that is at most 300.0 req/s to anthropic-us-east-1; it gets 100.0 now") {
			t.Errorf("it gets less already:\n%s", got)
		}
		typed(m, "esc", "j", "<")
		if got := shown(1); !strings.Contains(got, "now share 100%, spare nobody else") {
			t.Errorf("of a spare:\n%s", got)
		}
	})
}

// What a gateway refuses with is text.
func TestARefusalIsText(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, r *recorder) {
		r.answer = func(api.Command) (*api.Result, error) {
			return nil, &api.Error{Code: api.CodeForbidden, Message: "no\x1b[2J\u202e\nFAKE"}
		}
		typed(m, "W", "<", "y")
		if want := "refused: " + m.th.outside("no\x1b[2J\u202e\nFAKE"); m.dialog == nil || m.dialog.refusal != want || strings.ContainsAny(want, "\x1b\u202e\n") {
			t.Errorf("%+v", m.dialog)
		}
	})
}

// Who may write no more, armed or not, is told that and not to arm.
func TestARoleThatIsTakenAway(t *testing.T) {
	inBubble(t, quietly, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "j", "j", "j", ">")
		s := quietState()
		s.You.ReadOnlyWhy = "the role of this token is viewer"
		give(m, s, nil, nil)
		typed(m, "y")
		if len(r.sent) > 0 || m.message.text != "y is off: the role of this token is viewer" {
			t.Errorf("sent %+v, said %q", r.sent, m.message.text)
		}
	})
}

// TestUpstreamRemoved: its row is selected and its dialog open.
func TestUpstreamRemoved(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "<")
		s := baseState()
		s.Upstreams = []api.Upstream{up("vertex-us-central1", "us-central1", true, 1)}
		give(m, s, nil, nil)
		if got := screenOf(m); !strings.Contains(got, "anthropic-us-east-1 is no longer configured") {
			t.Errorf("it does not say so:\n%s", got)
		}
		typed(m, "y")
		if len(r.sent) > 0 {
			t.Fatalf("sent %+v", r.sent)
		}
		typed(m, "esc")
		if m.dialog != nil || m.current().Name != "vertex-us-central1" {
			t.Errorf("the cursor is on %+v", m.current())
		}
		typed(m, "enter") // the detail of what is under the cursor
		give(m, baseState(), nil, nil)
		if got := screenOf(m); !strings.Contains(got, "no longer configured") {
			t.Errorf("the detail does not say so:\n%s", got)
		}
	})
}

// TestCursorStaysOnItsUpstream although rows move.
func TestCursorStaysOnItsUpstream(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
		typed(m, "j", "j", "W")
		want := m.current().Name
		s := baseState()
		s.Upstreams = []api.Upstream{up("new-1", "a", true, 1), up("new-2", "b", true, 1), up("new-3", "c", true, 1), up(want, "us-west-2", false, 0)}
		give(m, s, nil, nil)
		if got := m.current().Name; got != want {
			t.Errorf("the cursor moved from %s to %s", want, got)
		}
		typed(m, "<")
		if m.dialog.upstream != want {
			t.Errorf("the dialog is about %s", m.dialog.upstream)
		}
	})
}

// TestUndo: one's own lowering is restored at once; another person's change is
// shown first and needs a reason.
func TestUndo(t *testing.T) {
	lowered := func(by string) func(*model) {
		return func(m *model) {
			s := incidentState()
			u := &s.Upstreams[3]
			u.Breakers[1].State = "closed"
			u.Share, u.Revision, u.StateBy = 5, 119, by
			u.Undo = &api.Undo{Share: 100, By: by, Until: time.Now().Add(4 * time.Minute)}
			give(m, s, []api.Event{{Seq: 9, Event: "traffic_step", Time: time.Now().Add(-time.Minute), Provider: u.Name, From: "100", To: "5", By: by, Why: "errors", Revision: 119}}, nil)
		}
	}
	inBubble(t, lowered("ana"), func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "u")
		if got := screenOf(m); !strings.Contains(got, "Put back 100% for anthropic-eu-west-1 in PROD?") || !strings.Contains(got, "undoes your own change") {
			t.Errorf("it does not say what it does:\n%s", got)
		}
		typed(m, "y")
		if len(r.sent) != 1 || !r.sent[0].Undo || r.sent[0].Share != nil || *r.sent[0].Revision != 119 {
			t.Errorf("sent %+v: %s", r.sent, m.message.text)
		}
	})
	inBubble(t, lowered("ben"), func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "u")
		if got := screenOf(m); !strings.Contains(got, "WARN  undoes ben's change: anthropic-eu-west-1 share 100% > 5%") {
			t.Errorf("another person's change is not shown:\n%s", got)
		}
		typed(m, "esc", "u")
		m.dialog.focus = noField
		typed(m, "y")
		if len(r.sent) > 0 {
			t.Fatalf("stepped over another person's change: %+v", r.sent)
		}
	})
	// Another step than the one that is restored is a step like any other.
	inBubble(t, lowered("ana"), func(t *testing.T, m *model, _ *recorder) {
		typed(m, "W", "u", "left")
		d := m.dialog
		a := d.assess(m)
		if c, _, _ := d.command(&a); d.to != 75 || c.Undo || c.Share == nil || *c.Share != 75 || !a.needName || strings.Contains(screenOf(m), "undoes") {
			t.Errorf("to %d, %+v, needs the name %t:\n%s", d.to, c, a.needName, screenOf(m))
		}
	})
	// A raise of one's own is put back by an ordinary way down.
	inBubble(t, incident, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "u", "y")
		if len(r.sent) != 1 || r.sent[0].Undo || *r.sent[0].Share != 0 {
			t.Errorf("sent %+v: %s", r.sent, m.message.text)
		}
	})
	// Nor is what a plan did, though it bears a name.
	inBubble(t, lowered("plan:ben"), func(t *testing.T, m *model, _ *recorder) {
		typed(m, "W", "u")
		if m.dialog != nil || !strings.Contains(m.message.text, "u is off: nobody changed a share lately") {
			t.Errorf("a step of a plan is taken for a person's: %q", m.message.text)
		}
	})
	// A screen about another upstream offers no change of this one, nor does a list that
	// shows others alone.
	inBubble(t, lowered("ben"), func(t *testing.T, m *model, _ *recorder) {
		typed(m, "W", "enter", "u")
		if m.dialog != nil || m.selected == "anthropic-eu-west-1" || !strings.Contains(m.message.text, "u is off: nobody changed a share of "+m.selected+" lately") {
			t.Errorf("on the screen of %s, said %q", m.selected, m.message.text)
		}
		typed(m, "esc", "/", "u", "s", "-", "e", "a", "s", "t", "enter", "u")
		if m.dialog != nil || !strings.Contains(m.message.text, "u is off: nobody changed a share of those shown lately") {
			t.Errorf("filtered, said %q", m.message.text)
		}
		typed(m, "esc", "u")
		if m.dialog == nil || m.dialog.upstream != "anthropic-eu-west-1" {
			t.Errorf("unfiltered, said %q\n%s", m.message.text, screenOf(m))
		}
	})
	// There is nothing to put back, and it says why.
	inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
		typed(m, "W", "u")
		if m.dialog != nil || !strings.Contains(m.message.text, "u is off: nobody changed a share lately") {
			t.Errorf("said %q", m.message.text)
		}
	})
}

// TestChooseAnotherStep: the arrows choose, and skipping one needs the name.
func TestChooseAnotherStep(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "<")
		var got []int
		for _, k := range []string{"left", "left", "left", "left", "right", "right", "right", "right", "right"} {
			typed(m, k)
			got = append(got, m.dialog.to)
		}
		if want := []int{25, 5, 0, 0, 5, 25, 75, 75, 75}; !slices.Equal(got, want) {
			t.Errorf("chose %v, want %v", got, want)
		}
		typed(m, "left", "left", "left", "y")
		if len(r.sent) != 1 || *r.sent[0].Share != 0 {
			t.Errorf("sent %+v", r.sent)
		}
	})
	inBubble(t, quietly, func(t *testing.T, m *model, _ *recorder) {
		typed(m, "W", "j", "j", "j", ">", "right")
		if a := m.dialog.assess(m); m.dialog.to != 75 || !a.needName {
			t.Errorf("to %d, needs the name %t", m.dialog.to, a.needName)
		}
	})
}

// TestDialogUnfreezes, since nobody may act on a frozen number, and in a window
// too small to read nothing is answered.
func TestDialogUnfreezes(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "f")
		if m.frozen == nil {
			t.Fatal("not frozen")
		}
		typed(m, "<")
		if m.frozen != nil {
			t.Error("frozen under a dialog")
		}
		m.Update(tea.WindowSizeMsg{Width: 20, Height: 5})
		typed(m, "y")
		if len(r.sent) > 0 {
			t.Error("answered a question that cannot be read")
		}
		m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
		if m.dialog == nil {
			t.Error("the dialog is gone after the window was small")
		}
		typed(m, "y")
		if len(r.sent) != 1 {
			t.Error("y does nothing in a window that is large again")
		}
	})
}

// A step whose beginning nobody knows was not held for as long as it asks.
func TestAStepOfUnknownAgeWarns(t *testing.T) {
	inBubble(t, quietly, func(t *testing.T, m *model, _ *recorder) {
		s := quietState()
		s.Upstreams[3].Since = time.Time{}
		give(m, s, nil, nil)
		typed(m, "W", "j", "j", "j", ">")
		if a := m.dialog.assess(m); !a.needWhy || !slices.Contains(a.checks, check{"WARN", "held at 5% for ??; the step asks for 10m"}) {
			t.Errorf("needs why %t: %+v", a.needWhy, a.checks)
		}
	})
}

// TestLateAnswerOfAClosedDialog is said, and closes no other dialog.
func TestLateAnswerOfAClosedDialog(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
		typed(m, "W", "<")
		old := m.dialog.id
		m.dialog.sending = true
		typed(m, "esc", "<")
		m.Update(shareMsg{dialog: old, upstream: "anthropic-us-east-1", result: &api.Result{Message: "late"}})
		if m.dialog == nil || !strings.Contains(m.message.text, "late") {
			t.Errorf("dialog %v, said %q", m.dialog, m.message.text)
		}
		m.Update(quietMsg{dialog: old, try: 1})
		if m.dialog.sending {
			t.Error("the y of another dialog was taken for this one's")
		}
	})
}

// A raise on a breaker that is open asks for the upstream's name, also where its
// probe only waits for traffic and the step would bring it.
func TestRaiseOnAnOpenBreakerAsksForTheName(t *testing.T) {
	for _, due := range []bool{false, true} {
		inSituation(t, "calm", 100, 40, func(t *testing.T, m *model) {
			s := incidentState()
			b := &s.Upstreams[0].Breakers[1]
			if due {
				b.NextProbeAt, b.ProbeDue = time.Time{}, true
			}
			give(m, s, nil, nil)
			keys(m, "W", ">")
			bubble.Sleep(time.Second)
			m.dialog.why.SetValue("it is well again")
			a := m.dialog.assess(m)
			if !a.needName || !strings.Contains(m.dialog.notReady(&a), "name") {
				t.Errorf("probe due %t: y would send: %+v", due, a)
			}
			m.dialog.name.SetValue("anthropic-us-east-1")
			if a := m.dialog.assess(m); m.dialog.notReady(&a) != "" {
				t.Errorf("probe due %t: with its name: %s", due, m.dialog.notReady(&a))
			}
		})
	}
}

// After r a restore asks for what it restores now, and is none where that is no
// longer one's own.
func TestRereadOfARestore(t *testing.T) {
	state := func(rev uint64, by string, to int) api.State {
		s := incidentState()
		u := &s.Upstreams[3]
		u.Share, u.Revision, u.Undo = 0, rev, &api.Undo{Share: to, By: by, Until: time.Now().Add(4 * time.Minute)}
		return s
	}
	inBubble(t, func(m *model) { give(m, state(119, "ana", 25), nil, nil) }, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "j", "j", "j", "u")
		if m.dialog == nil || !m.dialog.restore || m.dialog.to != 25 {
			t.Fatalf("%+v: %s", m.dialog, m.message.text)
		}
		give(m, state(121, "ana", 75), nil, nil)
		m.dialog.focus = noField
		typed(m, "r")
		if !m.dialog.restore || m.dialog.to != 75 {
			t.Errorf("it restores 75%% and says %d%%, restore %t", m.dialog.to, m.dialog.restore)
		}
		give(m, state(122, "ben", 100), nil, nil)
		m.dialog.focus = noField
		typed(m, "r")
		if m.dialog.restore || m.dialog.undo || !strings.Contains(m.message.text, "no longer yours") {
			t.Errorf("another's undo: restore %t, said %q", m.dialog.restore, m.message.text)
		}
		if typed(m, "y"); len(r.sent) > 0 {
			t.Errorf("sent %+v", r.sent)
		}
	})
}

// In a window with no room for all of it, what decides comes first, and a raise waits
// until all that speaks against it was in view; a way down waits for nothing.
func TestSmallDialogIsRead(t *testing.T) {
	small := func(m *model) {
		m.Update(tea.WindowSizeMsg{Width: 40, Height: 12})
		screenOf(m)
	}
	inSituation(t, "plan-dialog", 40, 12, func(t *testing.T, m *model) {
		first := screenOf(m)
		a := m.dialog.assess(m)
		if why := m.dialog.notReady(&a); why != "pgdn first" {
			t.Fatalf("y: %q\n%s", why, first)
		}
		seen := map[string]bool{}
		for range 20 {
			for l := range strings.SplitSeq(screenOf(m), "\n") {
				seen[l] = true
			}
			if m.dialog.notReady(&a) == "" {
				break
			}
			typed(m, "pgdown")
		}
		if why := m.dialog.notReady(&a); why != "" {
			t.Fatalf("y: %q after all was read\n%s", why, screenOf(m))
		}
		all := strings.Join(slices.Collect(maps.Keys(seen)), "\n")
		for _, c := range a.checks {
			if c.mark != "ok" && c.mark != "" && !strings.Contains(all, c.text[:min(len(c.text), 12)]) {
				t.Errorf("y works, and %q was never in view", c.text)
			}
		}
	})
	inBubble(t, incident, func(t *testing.T, m *model, r *recorder) {
		small(m)
		typed(m, "W", "j", "j", "j", "<")
		if got := screenOf(m); !strings.Contains(got, "stranded at ") {
			t.Errorf("it does not say who is stranded:\n%s", got)
		}
		if typed(m, "y"); len(r.sent) != 1 {
			t.Errorf("a way down waits: %q", m.message.text)
		}
	})
}
