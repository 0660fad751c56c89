package ui

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/gatewaytest"
)

// The cases TUI-01 to TUI-20 and SEC-07 as far as they can be seen in this
// process; e2e has them with real terminals. Cases whose behaviour has tests of
// its own by another name: TUI-01 TestCrash, TestPanicKeys; TUI-02 TestRunEnds,
// TestHangUp; TUI-05 TestProgram; TUI-08 TestNoTerminal; TUI-09
// TestHangingQuestionEndsWithTheConsole; TUI-16 TestPasteNeverConfirms; TUI-20
// TestTUI20TailMemory; SEC-07 TestHostileStrings, TestHostileLogs,
// TestHostileRunbooks, TestHostileNumbers.

// TUI-01: a panic of a goroutine that nobody waits for ends the process with
// the terminal as it is. So what the console runs starts goroutines in few
// places: by sources' workers, which pass a panic on to who waits, and where
// there is nothing that could panic.
func TestTUI01NoGoroutineOfItsOwn(t *testing.T) {
	may := []string{"../sources/workers.go", "run.go", "signals_unix.go", "signals_other.go"}
	started := 0
	for _, dir := range []string{".", "text", "../sources", "../runbooks", "../gateway/operator/api"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				what := ""
				switch n := n.(type) {
				case *ast.GoStmt:
					what = "go"
				case *ast.SelectorExpr:
					if id, ok := n.X.(*ast.Ident); ok && id.Name == "sync" && n.Sel.Name == "WaitGroup" {
						what = "sync.WaitGroup"
					}
				}
				if what == "" {
					return true
				}
				started++
				if !slices.Contains(may, filepath.ToSlash(name)) {
					t.Errorf("%s has %s: a panic there would end the process with the terminal raw", name, what)
				}
				return true
			})
		}
	}
	if started == 0 {
		t.Error("nothing was found: does it look at the right files?")
	}
}

// TUI-04: with more upstreams than rows, and an alarm above them, what says
// where this is and what is wrong stays, the row under the cursor is there, and
// how far one is.
func TestTUI04TallContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		for _, size := range []struct{ w, h int }{{80, 24}, {100, 30}, {60, 15}, {40, 12}, {200, 60}} {
			m := testModel(size.w, size.h)
			s := incidentState()
			first := s.Upstreams[0]
			s.Upstreams = nil
			for i := range 40 {
				u := first
				u.Name = fmt.Sprintf("up-%02d", i)
				s.Upstreams = append(s.Upstreams, u)
			}
			s.SharedFault = &api.SharedFault{Reason: "dns", Detail: "corp", Upstreams: []string{"up-00", "up-01"}, Since: time.Now()}
			give(m, s, incidentEvents(), decisionsOf("breaker_open"))
			head := func(after string) []string {
				t.Helper()
				lines := strings.Split(screenOf(m), "\n")
				if len(lines) > size.h || !strings.Contains(lines[0], "PROD") || !strings.Contains(lines[0], "READ-ONLY") || !strings.Contains(lines[1], "gateway") || !strings.HasPrefix(lines[2], " SHARED FAULT") {
					t.Fatalf("%dx%d after %s the head is\n%s", size.w, size.h, after, strings.Join(lines, "\n"))
				}
				return lines
			}
			for i := range 40 {
				text := strings.Join(head(fmt.Sprintf("%d down", i)), "\n")
				if !strings.Contains(text, fmt.Sprintf(" > up-%02d", i)) {
					t.Fatalf("%dx%d: the cursor's row %d has left:\n%s", size.w, size.h, i, text)
				}
				if size.h < 48 && !strings.Contains(text, "/40") {
					t.Fatalf("%dx%d: it does not say how far it is:\n%s", size.w, size.h, text)
				}
				keys(m, "j")
			}
			for _, k := range []string{"G", "g", "enter", "b", "e", "d", "l", "i", "m", "w", "$", "?", "!", "1"} {
				keys(m, "o", k)
				head(k)
				keys(m, "G", "ctrl+d")
				head(k + " and its end")
			}
		}
	})
}

// places are the screens, and how to come there from the first.
var places = map[screen][]string{
	overview: {"o"}, detail: {"enter"}, changes: {"e"}, change: {"e", "enter"}, decisions: {"d"}, decision: {"d", "enter"}, failback: {"b"},
	logs: {"l", "j", "j", "enter"}, logLine: {"l", "j", "j", "enter", "enter"}, runbook: {"1"}, incidents: {"i"}, faultMap: {"m"}, queue: {"w"}, money: {"$"},
	ownlog: {"!"}, help: {"?"},
}

// stray is a console on a gateway that counts what would change anything, with
// an incident that is open.
func stray(t *testing.T) (*model, *gatewaytest.Gateway) {
	t.Helper()
	m, g := serverModel(t, t.Context())
	g.Set(func(s *api.State) {
		*s = quietState()
		s.Incidents = []api.IncidentHead{theIncident().IncidentHead}
	})
	g.Record(*theIncident())
	m.ask.logs = &fakeLoki{make: eventful}
	poll(m)
	return m, g
}

// letGo closes all that is open and comes back to the first screen.
func letGo(m *model) {
	m.endTail()
	m.dialog, m.form, m.leaving, m.frozen, m.typing, m.logs.typing = nil, nil, nil, nil, false, false
	m.filter.SetValue("")
	for i := range m.lists {
		m.lists[i].filter, m.lists[i].held, m.lists[i].cursor = "", nil, 0
	}
	m.logs = logScreen{gen: m.logs.gen + 1}
	m.home()
}

// awake makes what is open one that opened long ago.
func awake(m *model) {
	long := m.now.Add(-time.Second)
	if m.dialog != nil {
		late(m)
	}
	if m.form != nil {
		m.form.opened = long
	}
	if m.leaving != nil {
		m.leaving.opened = long
	}
}

// runs is follow for commands of which some wait for what does not come.
func runs(m *model, cmd tea.Cmd) {
	if cmd == nil || m.logs.tail != nil && m.pressed == "T" { // that waits for the next line
		return
	}
	done := make(chan tea.Msg, 1)
	go func() { done <- cmd() }()
	select {
	case msg := <-done:
		switch msg := msg.(type) {
		case nil, tickMsg, tea.QuitMsg:
		case tea.BatchMsg:
			for _, c := range msg {
				runs(m, c)
			}
		default:
			_, next := m.Update(msg)
			runs(m, next)
		}
	case <-time.After(100 * time.Millisecond): // what it sends arrives all the same, and is counted later
	}
}

func taps(m *model, ks ...string) {
	for _, k := range ks {
		_, cmd := m.Update(press(k))
		runs(m, cmd)
	}
}

// everyPlace calls f at each screen, with what brings one there anew; also on a
// log that is followed and the list of log queries.
func everyPlace(t *testing.T, m *model, f func(name string, come func())) {
	t.Helper()
	for s := range screens {
		ks, ok := places[s]
		if !ok {
			t.Fatalf("how does one come to %s?", s)
		}
		come := func() {
			letGo(m)
			taps(m, ks...)
			if m.screen != s {
				t.Fatalf("%q leads to %s, not to %s: %q", ks, m.screen, s, m.message.text)
			}
		}
		if testing.Short() && s%4 != 0 {
			continue // some of them, with the race detector
		}
		poll(m)
		f(s.String(), come)
	}
	poll(m)
	f("log queries", func() { letGo(m); taps(m, "l") })
	f("a log that is followed", func() {
		letGo(m)
		taps(m, "l", "j", "j")
		m.Update(press("T"))
		m.Update(told(m, sources.TailNews{Rows: rowsAt(time.Now(), 0, 30), State: sources.TailState{Mode: sources.TailLive}}))
		if m.logs.tail == nil {
			t.Fatal("it is not followed")
		}
	})
}

// TUI-11: no stray key changes anything: each on each screen, with and without
// arming, then enter, enter again and the key again.
func TestTUI11StrayKeys(t *testing.T) {
	for _, arm := range []bool{false, true} {
		t.Run(fmt.Sprintf("armed %t", arm), func(t *testing.T) {
			m, g := stray(t)
			everyPlace(t, m, func(name string, come func()) {
				for _, k := range everyKey() {
					come()
					m.armedUntil = time.Time{}
					if arm {
						m.armedUntil = m.now.Add(time.Hour)
					}
					before := len(g.Commands())
					press := func(k tea.KeyPressMsg) {
						_, cmd := m.Update(k)
						runs(m, cmd)
						awake(m)
					}
					press(k)
					press(tea.KeyPressMsg{Code: tea.KeyEnter})
					press(tea.KeyPressMsg{Code: tea.KeyEnter})
					if k.String() != "y" {
						press(k)
					}
					for _, c := range g.Commands()[before:] {
						// A step that is ticked off is a step that was done, and no traffic.
						if !arm || !strings.HasSuffix(c.Path, "/tick") || k.String() != "x" {
							t.Fatalf("armed %t, on %s %q sent %+v", arm, name, k, c)
						}
					}
					if !arm && m.armed() && k.String() != "W" {
						t.Fatalf("on %s %q armed", name, k)
					}
				}
			})
		})
	}
}

// TUI-11: backspace that is held in a filter that has just lost the focus, or in
// a field that was closed, is a key that does nothing.
func TestTUI11HeldBackspace(t *testing.T) {
	m, g := stray(t)
	m.armedUntil = m.now.Add(time.Hour)
	everyPlace(t, m, func(name string, come func()) {
		for _, ks := range [][]string{{"/", "a", "n", "enter"}, {"/", "a", "esc"}, {"n", "x", "esc"}, {"a", "x", "esc"}, {"<", "esc"}} {
			come()
			m.armedUntil = m.now.Add(time.Hour)
			for _, k := range ks {
				taps(m, k)
				awake(m)
			}
			if m.typing || m.form != nil || m.dialog != nil || m.logs.typing {
				letGo(m)
				continue // it took what was typed for something else
			}
			on, selected, filter := m.screen, m.selected, m.lists[m.screen].filter
			for range 40 {
				taps(m, "backspace")
			}
			if m.screen != on || m.selected != selected || m.lists[m.screen].filter != filter || m.dialog != nil || m.form != nil || m.leaving != nil {
				t.Errorf("on %s after %q backspace went to %s, filter %q", name, ks, m.screen, m.lists[m.screen].filter)
			}
		}
	})
	if cs := g.Commands(); len(cs) > 0 {
		t.Errorf("sent %+v", cs)
	}
}

// TUI-13: with --read-only, and for a viewer, nothing that would change
// anything leaves the console: by no key, however one comes to it, not by
// paste, and not if it were armed by mistake.
func TestTUI13ReadOnly(t *testing.T) {
	for name, how := range map[string]func(m *model, g *gatewaytest.Gateway){
		"flag": func(m *model, _ *gatewaytest.Gateway) { m.o.ReadOnly = true },
		"viewer": func(_ *model, g *gatewaytest.Gateway) {
			g.Set(func(s *api.State) {
				s.You.Role, s.You.ReadOnlyWhy = api.RoleViewer, "the role of this token is viewer"
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, g := stray(t)
			how(m, g)
			poll(m)
			m.o.Started, m.o.Demo = true, false
			everyPlace(t, m, func(place string, come func()) {
				for _, mistake := range []bool{false, true} {
					try := func(ks ...string) {
						come()
						m.armedUntil = time.Time{}
						if mistake {
							m.armedUntil = m.now.Add(time.Hour)
						}
						for _, k := range ks {
							taps(m, k)
							awake(m)
							_, cmd := m.Update(tea.PasteMsg{Content: "y\nyes\n"})
							runs(m, cmd)
						}
						if m.armed() && !mistake {
							t.Fatalf("on %s %q armed", place, ks)
						}
						if m.dialog != nil || m.form != nil && place == "incident" {
							t.Fatalf("on %s %q opened a dialog", place, ks)
						}
						if cs := g.Commands(); len(cs) > 0 {
							t.Fatalf("on %s %q sent %+v", place, ks, cs)
						}
					}
					for i := range table {
						for _, k := range table[i].Keys() {
							if k != "/" && k != "T" { // what is typed then is text; it waits for what does not come
								try("W", k, "y", "enter", "y")
							}
						}
					}
					try("W", "n", "a", "b", "enter")
					try("W", "a", "a", "b", "enter")
				}
			})
			// Stopping the gateway that it started is a change of traffic too.
			letGo(m)
			taps(m, "q")
			awake(m)
			if _, cmd := m.Update(press("s")); name == "flag" && (cmd != nil || m.stop) {
				t.Error("s stops the gateway")
			}
		})
	}
}

// bracketed are lines that a terminal's markup or a highlighter would eat.
var bracketed = []string{
	`[2026-01-01][ERROR] match[] a[red]b`, `{"a":[1,[2,[]]],"b":["[green]x[-]"],"c":{}}`, `[::b]bold[::-] [#ff0000]x [[x]] [white:red:u]y`,
	`<red>x</red> {{.Name}} ${HOME} %s %d **md** _x_`, `[`, `]`, `[]`, `\[ \] \x1b[31m is six characters`,
}

// TUI-15: brackets are text, on every screen and in every copy.
func TestTUI15Brackets(t *testing.T) {
	loki := &fakeLoki{make: func(a *sources.LogAnswer) {
		for i, l := range bracketed {
			a.Rows = append(a.Rows, sources.LogRow{TS: a.Query.End.Add(-time.Duration(i) * time.Second).UnixNano(), Line: l, Labels: map[string]string{"pod": "[red]x[]"}})
		}
	}}
	onLogs(t, loki, func(m *model) {
		m.o.DataDir = t.TempDir()
		runKeys(m, "j", "j", "enter")
		shows(t, m, bracketed...)
		for i, l := range bracketed {
			if got := m.rowText(); !strings.HasSuffix(got, " "+l) {
				t.Errorf("the row %d is copied as %q", i, got)
			}
			keys(m, "enter")
			if i != 1 { // whose line is opened member by member
				shows(t, m, l, "[red]x[]")
			}
			if got := m.rowText(); !strings.Contains(got, l) {
				t.Errorf("the open line %d is copied as %q", i, got)
			}
			keys(m, "esc", "j")
		}
		follow(m, keys(m, "A")...)
		files, _ := filepath.Glob(filepath.Join(m.o.DataDir, "copies", "answer-*"))
		if len(files) != 1 {
			t.Fatalf("files %q: %s", files, m.message.text)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		var copied []string
		for line := range strings.Lines(string(b)) {
			if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
				copied = append(copied, strings.TrimSuffix(line, "\n"))
			}
		}
		for i, l := range bracketed {
			if i >= len(copied) || !strings.HasSuffix(copied[i], " "+l) {
				t.Errorf("the file has not %q:\n%s", l, b)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(200, 60)
		s := incidentState()
		s.Environment, s.Upstreams[1].Name = "PROD[red]", "vertex[::b]x[]"
		es := incidentEvents()
		es[0].Why, es[0].Detail = "a[red]b", "match[]"
		give(m, s, es, nil)
		shows(t, m, "PROD[red]", "vertex[::b]x[]")
	})
}

// TUI-16: pasted text goes where text is typed, on one line, and nowhere else;
// without brackets it is keys, of which no run confirms anything.
func TestTUI16Paste(t *testing.T) {
	const pasted = "dq:y\nquit\n{app=\"x\"}"
	for _, arm := range []bool{false, true} {
		m, g := stray(t)
		everyPlace(t, m, func(name string, come func()) {
			come()
			if arm {
				m.armedUntil = m.now.Add(time.Hour)
			}
			before := m.screen
			_, cmd := m.Update(tea.PasteMsg{Content: pasted})
			runs(m, cmd)
			if m.screen != before || m.dialog != nil || m.leaving != nil || !strings.Contains(m.message.text, "pasted text") {
				t.Errorf("on %s a paste led to %s: %q", name, m.screen, m.message.text)
			}
			for _, field := range []string{"/", "n", "a"} {
				come()
				if arm {
					m.armedUntil = m.now.Add(time.Hour)
				}
				taps(m, field)
				awake(m)
				in := ""
				_, cmd := m.Update(tea.PasteMsg{Content: pasted})
				runs(m, cmd)
				switch {
				case m.form != nil:
					in = m.form.field.Value()
				case m.typing:
					in = m.filter.Value()
				case m.logs.typing:
					in = m.logs.field.Value()
				default:
					continue
				}
				if !strings.HasSuffix(in, `dq:y quit {app="x"}`) {
					t.Errorf("on %s after %s the field has %q", name, field, in)
				}
			}
			// The same as keys, in a burst.
			come()
			if arm {
				m.armedUntil = m.now.Add(time.Hour)
			}
			for c := range strings.SplitSeq(pasted, "") {
				k := press(c)
				if c == "\n" {
					k = press("enter")
				}
				_, cmd := m.Update(k)
				runs(m, cmd)
			}
			if m.stop {
				t.Errorf("on %s it stops the gateway", name)
			}
		})
		// In a dialog that hears.
		letGo(m)
		m.armedUntil = m.now.Add(time.Hour)
		for _, p := range []string{pasted, "y", "y\n", "< y"} {
			letGo(m)
			taps(m, "j", "j", "j", "<")
			if m.dialog == nil {
				t.Fatalf("no dialog: %s", m.message.text)
			}
			late(m)
			_, cmd := m.Update(tea.PasteMsg{Content: p})
			runs(m, cmd)
		}
		if cs := g.Commands(); len(cs) > 0 {
			t.Errorf("armed %t: sent %+v", arm, cs)
		}
	}
}

// SEC-07: the screens of an incident, of fault domains, of what waits and of
// money, with hostile text in every word of theirs, and what is copied of them.
func TestSEC07Screens(t *testing.T) {
	for _, h := range hostile {
		inBubble(t, func(m *model) {
			s := placesState()
			v := theIncident()
			v.Title, v.OpenedBy, v.Upstreams, v.Unanswered = h, h, []string{h}, []string{h}
			for i := range v.Closing {
				c := &v.Closing[i]
				c.ID, c.Text, c.Fact, c.Answer, c.By = h+"x", h, h, h, h
			}
			for i := range v.Timeline {
				e := &v.Timeline[i]
				e.Kind, e.By, e.Text = h, h, h
			}
			for i := range v.Layers {
				v.Layers[i].Name = h
			}
			v.Requests.Kept = []string{h}
			s.Incidents = []api.IncidentHead{v.IncidentHead}
			for i := range s.Upstreams {
				s.Upstreams[i].FaultDomains = map[string]string{"dns": h, h: h}
			}
			s.Tasks = []api.Task{{Name: h, Fallback: h, OnUnavailable: h, UserSees: h, RPS: val(1)}, {Name: h + "x", OnUnavailable: "queue", UserSees: h, RPS: val(1)}}
			s.Models[0].Name = h
			for i := range s.Models[0].Domains {
				d := &s.Models[0].Domains[i]
				d.Kind, d.Accepted, d.Unknown = h, h, []string{h}
				for j := range d.Groups {
					d.Groups[j].Value, d.Groups[j].Upstreams = h, []string{h}
				}
			}
			b := &s.Models[0].Budgets[0]
			b.Objective, b.By[0].Provider, b.By[0].Reason = h, h, h
			give(m, s, nil, nil)
			giveIncident(m, v)
		}, func(t *testing.T, m *model, r *recorder) {
			m.armedUntil = m.now.Add(time.Hour)
			for _, ks := range [][]string{{"i"}, {"n"}, {"esc", "i", "a"}, {"esc", "i", "x"}, {"esc", "o", "m"}, {"o", "w"}, {"o", "$"}} {
				for _, k := range ks {
					keys(m, k)
					awake(m)
				}
				for _, size := range []struct{ w, h int }{{100, 30}, {40, 12}, {20, 5}, {200, 60}} {
					m.Update(tea.WindowSizeMsg{Width: size.w, Height: size.h})
					keys(m, "pgdown")
					harmless(t, m, size.w, size.h)
				}
				for _, c := range m.rowText() + m.screenText() {
					if c != '\n' && !unicode.IsGraphic(c) {
						t.Fatalf("%q: a copy of %s holds %U", h, m.screen, c)
					}
				}
			}
			// What a gateway says of a record that it does not take.
			m.Update(recordedMsg{what: "a note", err: &api.Error{Code: "failed", Message: h, Hint: h}})
			harmless(t, m, 200, 60)
			m.Update(recordedMsg{what: "a note", result: &api.Result{Message: h}})
			harmless(t, m, 200, 60)
		})
	}
}
