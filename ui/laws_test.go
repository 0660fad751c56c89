package ui

import (
	"flag"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
)

var allSizes = flag.Bool("all-sizes", false, "check the width law at each of the 10136 sizes in each situation")

// eachSize calls f with windows from 20x5 to 200x60, as many as a situation
// takes of them: the nth situation takes other ones than the next, so that all
// of them together see every size several times, and those where the layout
// changes in every third.
func eachSize(nth int, f func(w, h int)) {
	edges := map[int]bool{20: true, 39: true, 40: true, 55: true, 56: true, 63: true, 64: true, 79: true, 80: true, 99: true, 100: true, 200: true}
	every, edge := 12, 3
	if testing.Short() {
		every, edge = 41, 41
	}
	for w := 20; w <= 200; w++ {
		for h := 5; h <= 60; h++ {
			if *allSizes || edges[w] && (h+nth)%edge == 0 || (w+h+nth)%every == 0 {
				f(w, h)
			}
		}
	}
}

// TestWidthLaw: no line is wider than the window, no frame is higher, and
// where this is and whether it may write is always there.
func TestWidthLaw(t *testing.T) {
	for nth, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			inSituation(t, s.name, 100, 30, func(t *testing.T, m *model) {
				env := "PROD"
				if m.live.state.Value() == nil {
					env = "waiting"
				}
				mode := "READ-ONLY"
				if m.armed() {
					mode = "ARMED"
				}
				eachSize(nth, func(w, h int) {
					m.Update(tea.WindowSizeMsg{Width: w, Height: h})
					v := m.View()
					lines := strings.Split(ansi.Strip(v.Content), "\n")
					if len(lines) > h {
						t.Fatalf("%dx%d: %d rows", w, h, len(lines))
					}
					for i, l := range lines {
						if len(l) <= w {
							continue // no character is wider than its bytes
						}
						if n := ansi.StringWidth(l); n > w {
							t.Fatalf("%dx%d: row %d is %d wide: %q", w, h, i+1, n, l)
						}
						if n := ansi.StringWidthWc(l); n > w {
							t.Fatalf("%dx%d: row %d is %d wide by wcwidth: %q", w, h, i+1, n, l)
						}
					}
					if !strings.Contains(lines[0], env) || !strings.Contains(lines[0], mode) {
						t.Fatalf("%dx%d: the first row has lost %s or %s: %q", w, h, env, mode, lines[0])
					}
					if m.frozen != nil && w >= 40 && !strings.Contains(lines[0], "FROZEN") {
						t.Fatalf("%dx%d: the first row has lost FROZEN: %q", w, h, lines[0])
					}
					if !strings.Contains(lines[1], "gateway") {
						t.Fatalf("%dx%d: the second row is not the freshness: %q", w, h, lines[1])
					}
					if c := v.Cursor; c != nil && (c.X < 0 || c.Y < 0 || c.X >= w || c.Y >= h) {
						t.Fatalf("%dx%d: the cursor is at %d,%d", w, h, c.X, c.Y)
					}
					// A dialog that can be answered can be read.
					if d := m.dialog; d != nil && !m.tiny() {
						text := strings.Join(lines, "\n")
						wanted := []string{"after   share", "esc"}
						if d.act == toShare && d.scroll == 0 {
							wanted = append(wanted, "stranded at "+percent(d.to)+": ")
						}
						for _, want := range wanted {
							if !strings.Contains(text, want) {
								t.Fatalf("%dx%d: the dialog has lost %q:\n%s", w, h, want, text)
							}
						}
					}
				})
			})
		})
	}
}

var sgr = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// TestColourLaw: only attributes and the 16 colours of text occur, never a
// background and no other sequence at all; with NO_COLOR no colour.
func TestColourLaw(t *testing.T) {
	colours := regexp.MustCompile(`^(|0|1|2|7|22|27|3[0-7]|39|9[0-7])$`)
	attributes := regexp.MustCompile(`^(|0|1|2|7|22|27)$`)
	for _, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			inSituation(t, s.name, 100, 30, func(t *testing.T, m *model) {
				for _, colour := range []bool{true, false} {
					m.th.colour = colour
					legal := attributes
					if colour {
						legal = colours
					}
					content := m.View().Content
					for _, p := range sgr.FindAllStringSubmatch(content, -1) {
						for n := range strings.SplitSeq(p[1], ";") {
							if !legal.MatchString(n) {
								t.Fatalf("colour %t: %q is used", colour, p[0])
							}
						}
					}
					if rest := sgr.ReplaceAllString(content, ""); strings.Contains(rest, "\x1b") {
						t.Fatalf("colour %t: another escape than a style is used", colour)
					}
				}
				with := screenOf(m)
				m.th.colour = true
				if screenOf(m) != with {
					t.Error("colours change the text")
				}
			})
		})
	}
}

// TestStatesWithoutColour: the six states of a number, and a breaker's and a
// share's, are told apart by what is written.
func TestStatesWithoutColour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		seen := make(map[string]string)
		cell := func(name string, n func() api.Number, wait time.Duration) {
			m := testModel(100, 30)
			s := incidentState()
			s.Upstreams = s.Upstreams[:1]
			s.Upstreams[0].ErrorRatio = n()
			give(m, s, nil, nil)
			bubble.Sleep(wait)
			m.Update(nil)
			c := m.cells(m.live.upstream(s.Upstreams[0].Name), &m.live, m.now, false)
			if other, ok := seen[c.err.text]; ok {
				t.Errorf("%s and %s both look like %q", name, other, c.err.text)
			}
			seen[c.err.text] = name
		}
		zero := func() api.Number { return val(0) }
		cell("zero", zero, 0)
		cell("value", func() api.Number { return val(0.004) }, 0)
		cell("ageing", zero, 5*time.Second)
		cell("unknown", zero, 6*time.Second)
		cell("none", none, 0)
		cell("idle", idle, 0)
		m := testModel(100, 30)
		if got := m.number(m.live.state.Number(api.Number{}, m.now), nil); seen[got] != "" {
			t.Errorf("waiting looks like %s: %q", seen[got], got)
		}
	})
}

// TestStaleIsNeverGreen: no number and no state that is not fresh turns green.
func TestStaleIsNeverGreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(100, 30)
		give(m, healthyState(), nil, nil)
		green := func() bool {
			for _, u := range m.live.state.Value().Upstreams {
				if c := m.cells(&u, &m.live, m.now, false); c.breaker.style == good || c.health[0].style == good {
					return true
				}
			}
			return false
		}
		if !green() {
			t.Fatal("closed and fresh is not green")
		}
		refuseConnection(m)
		if green() {
			t.Error("green although the gateway does not answer")
		}
		bubble.Sleep(4 * time.Second)
		m.Update(nil)
		if green() {
			t.Error("green although it is 4 s old")
		}
	})
}

// hostile is text that drives terminals, hides, or is very long.
var hostile = []string{
	"\x1b[2J\x1b[H\x1b[31mFAKE\x1b[m", "\x1b]52;c;cm0gLXJm\x07", "\x1b]0;owned\x07", "\x1b[?1049l", "\x1bP1;2|x\x1b\\", "\u009b2J\x9b2J",
	"ok\rFAILED", "a\nb\nc", "\u202egnp.exe", "\u2066a\u2069", "a\u200b\u200db", "\xff\xfe", "e\u0301\u0301\u0301\u0301\u0301\u0301",
	strings.Repeat("very-long-", 60), "模型模型模型模型模型模型", "\U0001f469\u200d\U0001f52c\U0001f1e9\U0001f1ea", "[red]a[] {{x}} %s %d", "", " ", "\t",
}

// TestHostileStrings puts hostile text everywhere text comes from outside.
func TestHostileStrings(t *testing.T) {
	for _, h := range hostile {
		synctest.Test(t, func(t *testing.T) {
			begin()
			m := testModel(100, 30)
			s := incidentState()
			s.Environment, s.Instance, s.Scope, s.You.Name, s.Demo = h, h, h, h, h
			s.Config.LastError, s.Log.Error, s.Audit.Error, s.Audit.Pending = h, h, h, 1
			s.Passthrough = &api.Passthrough{Order: []string{h}, By: h, Why: h, Until: time.Now().Add(time.Minute)}
			s.Sessions = append(s.Sessions, api.Session{Name: h, Instance: h, LastSeen: time.Now()})
			s.LastWrite = &api.Event{By: h, Time: time.Now(), Revision: 3}
			s.SharedFault = &api.SharedFault{Reason: h, Detail: h, Upstreams: []string{h}, Since: time.Now()}
			s.Dependencies = []api.Dependency{{Name: h, Domain: h, Kind: h, Result: "failed", Detail: h, Upstreams: []string{h}}}
			s.Jobs = []api.Job{{Name: h, Late: true, Error: h}}
			s.Notify, s.Store = api.Notify{Configured: true, LastError: h + "x"}, api.Store{Kind: h, Error: h}
			for i := range s.Upstreams {
				u := &s.Upstreams[i]
				u.Health, u.HealthBy, u.HealthReason, u.FailbackID = api.Recovering, h, h, h
				if i == 1 {
					u.Health = h
				}
				u.Plan = &api.Plan{By: h, At: time.Now()}
				u.Signals = []api.Signal{{Group: h, Name: h, Colour: h, Value: h, BlindSpot: h}}
				u.Probes = []api.Probe{{Model: h, Capability: h, Result: h, Detail: h, Held: h, Failed: 1}}
				u.Evidence = &api.Evidence{Verdict: h, Share: u.Share, At: time.Now(), BaselineSource: h, Rows: []api.EvidenceRow{{Name: h, Verdict: h, Text: h}, {Name: "classes", Verdict: api.Fail, Text: h}}}
				if i > 0 {
					u.Name = h
				}
				u.Region, u.Dialect, u.StateBy, u.StateWhy, u.Credential, u.NextStep.BlockedBy = h, h, h, h, h, h
				u.PrimaryOf, u.Elsewhere = []string{h}, []string{h}
				u.Stranded = []api.TaskRate{{Task: h, RPS: 2, Why: h}}
				u.Undo = &api.Undo{Share: 100, By: h, Until: time.Now().Add(time.Minute)}
				for j := range u.Breakers {
					b := &u.Breakers[j]
					b.Reason, b.Detail, b.Capability, b.Forced, b.ForcedBy, b.Mode = h, h, h, h, h, h
					b.Weights = []api.Weight{{Model: h, Weight: 2, Effective: 1}}
				}
			}
			e := api.Event{Seq: 1, Event: h, Time: time.Now(), Provider: h, Region: h, Capability: h, Model: h, From: h, To: h, Reason: h, Detail: h, By: h, Why: h, Action: h, Result: h}
			step := e
			step.Seq, step.Event, step.From, step.To, step.Provider, step.Revision = 2, "traffic_step", "5", "0", s.Upstreams[0].Name, s.Upstreams[0].Revision
			d := api.Decision{
				Time: time.Now(), RequestID: h, TaskType: h, Model: h, Endpoint: h, Conversation: h, TraceID: h, WorkflowStatus: h, Route: h, Reason: h,
				PrimaryProvider: h, SelectedProvider: h, SelectedModel: h,
				Candidates: []api.DecisionCandidate{{Provider: h, Model: h, Skipped: h}, {Provider: "x" + h, Model: h}},
				Attempts:   []api.DecisionAttempt{{Provider: "x" + h, Region: h, Capability: h, Class: h, Code: h, Detail: h, UpstreamRequestID: h}},
			}
			give(m, s, []api.Event{e, step}, []api.Decision{d})
			for _, ks := range [][]string{
				nil, {"enter"}, {"o", "e"}, {"enter"}, {"o", "d"}, {"enter"}, {"?"}, {"!"}, {"o", "/", "a"}, {"esc", "W", ">"}, {"esc", "u"}, {"esc", "p"}, {"esc", "D"}, {"esc", "b"}, {"o", "f"},
			} {
				if m.dialog != nil {
					bubble.Sleep(time.Second) // it is deaf at first
				}
				keys(m, ks...)
				for _, size := range []struct{ w, h int }{{100, 30}, {80, 24}, {40, 12}, {20, 5}, {200, 60}} {
					m.Update(tea.WindowSizeMsg{Width: size.w, Height: size.h})
					harmless(t, m, size.w, size.h)
				}
				m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
			}
			// What the gateway says of a command, and why it does not answer.
			m.Update(shareMsg{upstream: h, change: "x", err: &api.Error{Code: "failed", Message: h, Hint: h}})
			harmless(t, m, 100, 30)
			m.Update(shareMsg{upstream: h, result: &api.Result{Message: h}})
			harmless(t, m, 100, 30)
			gen, _ := m.live.state.Ask(m.now)
			m.Update(stateMsg{Gen: gen, Err: &api.UnreachableError{Target: h, Hint: h, Err: &api.Error{Message: h}}})
			harmless(t, m, 100, 30)
			// What is copied can be pasted into a shell or a channel.
			for _, s := range []string{m.rowText(), m.screenText()} {
				for _, r := range s {
					if r != '\n' && !unicode.IsGraphic(r) {
						t.Fatalf("%q: a copy holds %U", h, r)
					}
				}
			}
		})
	}
}

// harmless looks for what must never reach a terminal.
func harmless(t *testing.T, m *model, w, h int) {
	t.Helper()
	content := sgr.ReplaceAllString(m.View().Content, "")
	lines := strings.Split(content, "\n")
	if len(lines) > h {
		t.Fatalf("%dx%d: %d rows", w, h, len(lines))
	}
	for i, l := range lines {
		if n := max(ansi.StringWidth(l), ansi.StringWidthWc(l)); n > w {
			t.Fatalf("%dx%d: row %d is %d wide: %q", w, h, i+1, n, l)
		}
		for _, r := range l {
			if !unicode.IsGraphic(r) {
				t.Fatalf("%dx%d: row %d has %U: %q", w, h, i+1, r, l)
			}
		}
	}
}
