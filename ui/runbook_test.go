package ui

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/runbooks"
	"failback/sources"
)

func embeddedRunbooks(t *testing.T) []runbooks.Runbook {
	t.Helper()
	rs, err := runbooks.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// Every key that a runbook names is in the table, on the screen it says.
func TestRunbookKeysExist(t *testing.T) {
	rs := embeddedRunbooks(t)
	for i := range rs {
		refs := rs[i].Keys()
		if len(refs) == 0 {
			t.Errorf("%s names no key", rs[i].File)
		}
		for _, ref := range refs {
			if why := noKey(ref); why != "" {
				t.Errorf("%s:%d: %s", rs[i].File, ref.Line, why)
			}
		}
	}
	for _, ref := range []runbooks.KeyRef{{Key: "y", Screen: "overview"}, {Key: "W", Screen: "dialog"}, {Key: "n"}, {Key: "n", Screen: "nowhere"}} {
		if noKey(ref) == "" {
			t.Errorf("%+v is said to be a key", ref)
		}
	}
	for _, ref := range []runbooks.KeyRef{{Key: "n", Screen: "incident"}, {Key: "R", Screen: "incident"}, {Key: "A", Screen: "logs"}, {Key: "m"}, {Key: "w"}, {Key: "$"}, {Key: "0", Screen: "money"}, {Key: "left", Screen: "dialog"}} {
		if why := noKey(ref); why != "" {
			t.Error(why)
		}
	}
}

// Every query that a runbook runs is there.
func TestRunbookQueriesExist(t *testing.T) {
	var names []string
	for _, c := range sources.CannedQueries(nil, "") {
		names = append(names, c.Name)
	}
	if err := runbooks.CheckQueries(embeddedRunbooks(t), names); err != nil {
		t.Error(err)
	}
}

// What the steps say can be pressed as they say it.
func TestRunbookStepsWork(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		// provider-5xx, step 8, for an upstream that has all of its traffic.
		keys(m, "1", "o", "j", "W", "<")
		if m.dialog == nil {
			t.Fatalf("no dialog: %s", m.message.text)
		}
		bubble.Sleep(time.Second)
		for range 5 {
			if strings.Contains(screenOf(m), "after   share 0%") {
				break
			}
			keys(m, "left")
			bubble.Sleep(time.Second) // it is deaf for a moment
		}
		got := screenOf(m)
		if !strings.Contains(got, "after   share 0%") || !strings.Contains(got, "stranded") {
			t.Fatalf("left does not lead to 0%%, or stranded is missing:\n%s", got)
		}
		bubble.Sleep(time.Second)
		if cmds := keys(m, "y"); cmds[0] == nil {
			t.Errorf("y sends nothing: %s", m.message.text)
		}
	})
	inSituation(t, "failback-armed", 100, 30, func(t *testing.T, m *model) {
		// manual-failback, steps 6 and 7.
		keys(m, "o", "b")
		if m.screen != failback {
			t.Fatalf("b leads to %s", m.screen)
		}
		for _, want := range []string{"STEP", "SHARE", "WINDOW", "VERDICT"} {
			if !strings.Contains(screenOf(m), want) {
				t.Errorf("the table has no %s:\n%s", want, screenOf(m))
			}
		}
		keys(m, "o", ">")
		if m.dialog == nil || !strings.Contains(screenOf(m), "req/s") {
			t.Fatalf("no dialog that says how many requests a second:\n%s", screenOf(m))
		}
		bubble.Sleep(time.Second)
		keys(m, "esc")
		if m.dialog != nil {
			t.Error("esc does not close it")
		}
		// Step 13.
		keys(m, "u")
		if m.dialog == nil {
			t.Errorf("u opens no dialog: %s", m.message.text)
		}
	})
}

// A runbook never runs a write: no key of its screen opens a dialog.
func TestRunbookWritesNothing(t *testing.T) {
	inSituation(t, "armed", 100, 30, func(t *testing.T, m *model) {
		for c := rune(' '); c < 0x7f; c++ {
			m.screen, m.stack, m.leaving, m.typing, m.logs.typing = overview, nil, nil, false, false
			keys(m, "1", "j", string(c))
			if m.dialog != nil {
				t.Fatalf("%q opened a dialog", c)
			}
		}
		for _, k := range []string{"enter", "tab", "left", "right", "space"} {
			m.screen, m.stack = overview, nil
			keys(m, "1", "j", k, k)
			if m.dialog != nil || m.screen != runbook {
				t.Fatalf("%s: dialog %v, screen %s", k, m.dialog != nil, m.screen)
			}
		}
	})
}

// The numbers open what is proposed, in its order, from every screen, and esc
// leads back to where one was.
func TestRunbookNumbers(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		ps := m.proposals()
		if len(ps) != 4 || ps[0].Runbook.ID != "provider-5xx" || ps[1].Runbook.ID != "provider-unreachable" || ps[2].Runbook.ID != "fallback-ratio-high" || ps[3].Runbook.ID != "manual-failback" {
			t.Fatalf("proposed: %+v", ps)
		}
		if got := screenOf(m); !strings.Contains(got, "START WITH  [1] provider returns 5xx ") || !strings.Contains(got, "[2] provider unreachable ") || !strings.Contains(got, "[3] fallback ratio high") || !strings.Contains(got, "and 1 more") {
			t.Errorf("the overview proposes otherwise:\n%s", got)
		}
		for _, from := range []struct {
			keys []string
			to   screen
		}{
			{nil, overview}, {[]string{"enter"}, detail}, {[]string{"e"}, changes}, {[]string{"e", "enter"}, change}, {[]string{"d"}, decisions},
			{[]string{"d", "enter"}, decision}, {[]string{"b"}, failback}, {[]string{"l"}, logs}, {[]string{"!"}, ownlog}, {[]string{"?"}, help},
		} {
			keys(m, "o")
			keys(m, from.keys...)
			if m.screen != from.to {
				t.Fatalf("%v leads to %s", from.keys, m.screen)
			}
			keys(m, "1")
			if m.screen != runbook || m.runbook.open.ID != "provider-5xx" {
				t.Errorf("1 on %s: screen %s", from.to, m.screen)
			}
			keys(m, "4")
			if m.screen != runbook || m.runbook.open.ID != "manual-failback" {
				t.Errorf("4 on the runbook: screen %s, %s", m.screen, m.runbook.open.ID)
			}
			if keys(m, "esc"); m.screen != from.to {
				t.Errorf("esc leads to %s, not back to %s", m.screen, from.to)
			}
		}
		keys(m, "o", "9")
		if n := len(m.runbookSet()); n < 9 && (m.screen != overview || !strings.Contains(m.message.text, "there is no runbook 9: the last one is "+strconv.Itoa(n))) {
			t.Errorf("9: screen %s, %q", m.screen, m.message.text)
		}
	})
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		if got := screenOf(m); strings.Contains(got, "[1]") || !strings.Contains(got, "no runbook fits") {
			t.Errorf("calm:\n%s", got)
		}
		if keys(m, "1"); m.screen != runbook || !strings.Contains(screenOf(m), "does not match now") {
			t.Errorf("1 in a calm: %s\n%s", m.message.text, screenOf(m))
		}
	})
	// Nothing is said of a gateway that was never heard of.
	inSituation(t, "never", 100, 30, func(t *testing.T, m *model) {
		if got := screenOf(m); strings.Contains(got, "no runbook fits") {
			t.Errorf("said of a gateway never heard of:\n%s", got)
		}
	})
}

// Ticks stay in this session, each runbook has its own, and they can be copied.
func TestTicks(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		keys(m, "1", "x")
		if len(m.reading().ticks) != 0 || !strings.Contains(m.message.text, "no step under the cursor") {
			t.Errorf("a section was ticked: %q", m.message.text)
		}
		keys(m, "j", "x", "j", " ")
		if got := screenOf(m); !strings.Contains(got, "2 of 12 ticked") || !strings.Contains(got, "[x]  1.") || !strings.Contains(got, " > [x]  2.") {
			t.Fatalf("x and space do not tick:\n%s", got)
		}
		keys(m, "esc", "2")
		if got := screenOf(m); !strings.Contains(got, "0 of ") {
			t.Errorf("another runbook has the ticks:\n%s", got)
		}
		keys(m, "esc", "e", "1")
		if got := screenOf(m); !strings.Contains(got, "2 of 12 ticked") || !strings.Contains(got, " > [x]  2.") {
			t.Errorf("ticks or cursor are lost:\n%s", got)
		}
		row := m.runbookRowText()
		if !strings.HasPrefix(row, "[x] 04:12:31Z  2. Which bucket, and why?") || strings.ContainsAny(row, "*`") {
			t.Errorf("the row is copied as %q", row)
		}
		all := m.tickedText()
		lines := strings.Split(all, "\n")
		if len(lines) != 14 || !strings.HasPrefix(lines[0], "1970-01-01T04:12:31Z runbook provider returns 5xx (provider-5xx), PROD gw-1, 2 of 12 ticked") && !strings.Contains(lines[0], "T04:12:31Z runbook provider returns 5xx (provider-5xx), PROD gw-1, 2 of 12 ticked") {
			t.Errorf("copied:\n%s", all)
		}
		if !strings.Contains(lines[1], "matches breaker class server_error") || !strings.HasPrefix(lines[2], "[x] 04:12:31Z  1. ") || !strings.HasPrefix(lines[4], "[ ]            3. ") {
			t.Errorf("copied:\n%s", all)
		}
		if cmds := keys(m, "T", "c", "C"); slices.ContainsFunc(cmds, func(c tea.Cmd) bool { return c == nil }) {
			t.Error("T, c or C copies nothing")
		}
		if got := m.screenText(); !strings.Contains(got, "[x]  1. Are people hurt?") {
			t.Errorf("the screen is copied without ticks:\n%s", got)
		}
		keys(m, "x")
		if got := screenOf(m); !strings.Contains(got, "1 of 12 ticked") {
			t.Errorf("x does not take a tick away:\n%s", got)
		}
		keys(m, "X")
		if got := screenOf(m); !strings.Contains(got, "0 of 12 ticked") {
			t.Errorf("X leaves ticks:\n%s", got)
		}
		if keys(m, "X"); !strings.Contains(m.message.text, "X is off") {
			t.Errorf("X without ticks: %q", m.message.text)
		}
	})
}

// l runs the query of the step, esc comes back to it.
func TestStepQuery(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		if keys(m, "1", "l"); m.screen != logs || m.logs.asked != nil {
			t.Errorf("l on a section: screen %s, asked %+v", m.screen, m.logs.asked)
		}
		keys(m, "esc", "j", "j", "x")
		if m.screen != runbook {
			t.Fatalf("esc leads to %s", m.screen)
		}
		cmds := keys(m, "l")
		if m.screen != logs || m.logs.asked == nil || m.logs.asked.Name != "breakers" || cmds[0] == nil {
			t.Fatalf("l on step 2: screen %s, asked %+v", m.screen, m.logs.asked)
		}
		for range 3 {
			if m.screen == logs {
				keys(m, "esc")
			}
		}
		if m.screen != runbook || !strings.Contains(screenOf(m), " > [x]  2.") {
			t.Errorf("esc leads to %s:\n%s", m.screen, screenOf(m))
		}
	})
}

// A runbook that no longer matches stays open and says so; with old news it
// says how old they are.
func TestNoLongerMatches(t *testing.T) {
	inSituation(t, "runbook-step", 100, 30, func(t *testing.T, m *model) {
		before := m.reading().cursor
		give(m, quiet(), nil, nil)
		if got := screenOf(m); !strings.Contains(got, "RUNBOOK provider returns 5xx") || !strings.Contains(got, "NO LONGER MATCHES; opened for breaker class server_error") || m.reading().cursor != before {
			t.Errorf("the incident is over:\n%s", got)
		}
		give(m, incidentState(), nil, nil)
		if got := screenOf(m); !strings.Contains(got, " matches breaker class server_error") {
			t.Errorf("it is back:\n%s", got)
		}
		refuseConnection(m)
		bubble.Sleep(12 * time.Second)
		m.Update(nil)
		if got := screenOf(m); !strings.Contains(got, "as of 12s ago") {
			t.Errorf("old news look like new ones:\n%s", got)
		}
	})
}

// What is stale is never green, also beside a step.
func TestStaleRunbookIsNeverGreen(t *testing.T) {
	green := func(m *model) bool {
		for _, r := range m.runbookWindow(m.width, m.bodyRoom()) {
			if slices.ContainsFunc(r, func(s span) bool { return s.style == good }) {
				return true
			}
		}
		return false
	}
	for _, name := range []string{"runbook-over", "runbook-calm", "runbook-failback"} {
		inSituation(t, name, 100, 40, func(t *testing.T, m *model) {
			if !green(m) {
				t.Fatal("nothing is green when all is fresh")
			}
			bubble.Sleep(4 * time.Second)
			m.Update(nil)
			if green(m) {
				t.Errorf("green although it is 4 s old:\n%s", screenOf(m))
			}
		})
	}
}

// Every live name that a runbook can name shows something, in good times and
// in bad ones, and no name is left that shows nothing.
func TestLiveNames(t *testing.T) {
	for _, situation := range []string{"incident", "calm", "down", "waiting", "many", "prom-off"} {
		inSituation(t, situation, 100, 30, func(t *testing.T, m *model) {
			d, now := m.d()
			for _, n := range runbooks.LiveNames {
				for _, stack := range []bool{true, false} {
					l := live{m: m, d: d, now: now, w: 38, stack: stack}
					l.value(n)
					if len(l.rows) == 0 || strings.TrimSpace(l.rows[0].text()) == n {
						t.Errorf("%s shows nothing: %v", n, l.rows)
					}
					for _, r := range l.rows {
						if r.width() > 38 {
							t.Errorf("%s: %q is %d wide", n, r.text(), r.width())
						}
					}
				}
			}
		})
	}
}

// glue is text without what wrapping and marks may change.
func glue(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune("`*[]", r) {
			return -1
		}
		return r
	}, s)
}

// The text is never wider than the window, and no letter of it is lost.
func TestRunbookTextFits(t *testing.T) {
	if testing.Short() {
		t.Skip("requires a run without -short: it draws each runbook many times")
	}
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(100, 30)
		rs := append(slices.Clone(embeddedRunbooks(t)), strange(t)...)
		for i := range rs {
			m.runbook.open = &rs[i]
			var want strings.Builder
			for _, s := range rs[i].Sections {
				want.WriteString(strings.ToUpper(s.Title))
				for _, b := range s.Blocks {
					for j, p := range b.Paragraphs {
						if b.Kind == runbooks.Bullet && j == 0 {
							want.WriteString("-")
						}
						want.WriteString(m.th.outside(p))
					}
					if b.Query != "" {
						want.WriteString("l:" + queryTitle(b.Query))
					}
				}
			}
			for w := 20; w <= 200; w++ {
				text := m.layoutRunbook(w)
				var got strings.Builder
				for _, l := range text.lines {
					n := l.text.width() + markWidth
					if l.step > 0 {
						n += tickWidth - markWidth
					}
					if n > w {
						t.Fatalf("%s at %d: %q is %d wide", rs[i].ID, w, l.text.text(), n)
					}
					got.WriteString(l.text.text())
				}
				if glue(got.String()) != glue(want.String()) {
					t.Fatalf("%s at %d: text was lost:\ngot  %s\nwant %s", rs[i].ID, w, glue(got.String()), glue(want.String()))
				}
			}
		}
	})
}

// strange is a runbook that is hard to wrap and to draw.
func strange(t *testing.T) []runbooks.Runbook {
	t.Helper()
	const text = `---
id: strange
title: 模型 "&amp;" \x1b %s
contact: 模型模型模型模型模型模型模型模型模型
reviewed: 2026-11-30
when:
  - ratio: over limit
---
## What it looks like here
模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型模型
- _abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz_0123456789
## What to check first
1. **` + "`a-very-long-piece-of-code-that-fits-into-no-window-at-all-and-has-no-spaces`" + `** 👩‍🔬🇩🇪 e` + "\u0301" + ` %d {{x}} a & b; 3 < 4
   query: unheard-of
## What to do
x
## How to go back
x
## When to escalate
x
`
	clean := strings.ReplaceAll(text, "\u200d", "") // joiners do not show what they are
	rs, err := runbooks.Load(fstest.MapFS{"strange.md": {Data: []byte(strings.ReplaceAll(clean, "_", ""))}})
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// Every row of a runbook comes into sight by j alone, and again by k, in any window.
func TestEveryRowIsReached(t *testing.T) {
	for _, size := range []struct{ w, h int }{{40, 12}, {60, 20}, {80, 24}, {100, 30}, {200, 60}, {100, 12}} {
		inSituation(t, "runbook", size.w, size.h, func(t *testing.T, m *model) {
			for _, key := range []string{"j", "k", "ctrl+d", "ctrl+u"} {
				r := m.reading()
				seen := make(map[int]bool)
				for range 200 {
					p := m.planRunbook(m.width, m.bodyRoom()-runbookHead)
					m.View()
					for i := r.top; i < min(r.top+p.room, len(p.text.lines)); i++ {
						seen[i] = true
					}
					s := p.text.stops[r.cursor]
					if s.end <= r.top || s.start >= r.top+p.room {
						t.Fatalf("%dx%d %s: the cursor is out of sight", size.w, size.h, key)
					}
					keys(m, key)
				}
				for i, l := range m.runbook.wrapped.lines {
					if (key == "j" || key == "k") && l.text != nil && !seen[i] {
						t.Errorf("%dx%d %s: never seen: %q", size.w, size.h, key, l.text.text())
					}
				}
				if stops := len(stopsOf(m.runbook.open)); (key == "j" || key == "ctrl+d") && r.cursor != stops-1 || (key == "k" || key == "ctrl+u") && r.cursor != 0 {
					t.Errorf("%dx%d: %s ends at stop %d of %d", size.w, size.h, key, r.cursor, stops)
				}
			}
		})
	}
}

// Hostile names reach neither the terminal nor a copy as they are.
func TestHostileRunbooks(t *testing.T) {
	if testing.Short() {
		t.Skip("requires a run without -short: it draws each runbook many times")
	}
	odd := strange(t)
	sizes := []struct{ w, h int }{{100, 30}, {80, 24}, {40, 12}, {20, 5}, {200, 60}}
	for nth, h := range hostile {
		synctest.Test(t, func(t *testing.T) {
			begin()
			m := testModel(100, 30)
			s := incidentState()
			s.Failback.Owner, s.Environment, s.Instance = h, h, h
			for i := range s.Upstreams {
				u := &s.Upstreams[i]
				u.Name, u.Health, u.Credential, u.NextStep.BlockedBy, u.Elsewhere, u.Share = h, h, h, h, []string{h}, 5
				u.Stranded = []api.TaskRate{{Task: h, RPS: 2, Why: h}}
				for j := range u.Breakers {
					b := &u.Breakers[j]
					b.Capability, b.Detail = h, h+"(server_error x3)"+h
				}
			}
			give(m, s, nil, nil)
			m.runbook.all = append(slices.Clone(m.runbookSet()), odd...)
			for n := range len(m.runbookSet()) {
				m.showRunbook(m.numbered()[n])
				// Each text at one size of a runbook, all of them at all sizes together.
				size := sizes[(n+nth)%len(sizes)]
				m.Update(tea.WindowSizeMsg{Width: size.w, Height: size.h})
				keys(m, "g")
				for range len(stopsOf(m.runbook.open)) {
					harmless(t, m, size.w, size.h)
					keys(m, "x", "j")
				}
				for _, s := range []string{m.rowText(), m.screenText(), m.tickedText()} {
					for _, r := range s {
						if r != '\n' && !unicode.IsGraphic(r) {
							t.Fatalf("%q: a copy holds %U", h, r)
						}
					}
				}
			}
			for w := 20; w <= 200; w += 7 {
				m.Update(tea.WindowSizeMsg{Width: w, Height: 20})
				harmless(t, m, w, 20)
			}
		})
	}
}

// Without runbooks, or with none open, the console says so and goes on.
func TestNoRunbooks(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		m.runbook = runbookScreen{loaded: true}
		if got := screenOf(m); !strings.Contains(got, "there is no runbook") {
			t.Errorf("without runbooks:\n%s", got)
		}
		if keys(m, "1"); m.screen != overview || !strings.Contains(m.message.text, "1-9 is off: there is no runbook") {
			t.Errorf("1: %q", m.message.text)
		}
		m.enter(runbook)
		keys(m, "j", "x", "T", "X", "c", "C", "G", "ctrl+d")
		if got := screenOf(m); !strings.Contains(got, "there is no runbook") {
			t.Errorf("no list:\n%s", got)
		}
	})
}

// BenchmarkRunbookLayout wraps a runbook for a width not seen before.
func BenchmarkRunbookLayout(b *testing.B) {
	rs, err := runbooks.Embedded()
	if err != nil {
		b.Fatal(err)
	}
	m := testModel(100, 30)
	m.runbook.open = &rs[0]
	for b.Loop() {
		m.runbook.wrapped = nil
		m.layoutRunbook(60)
	}
}
