package ui

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/sources"
)

// A late answer to an old question does not overwrite a newer one.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(100, 30)
		now := time.Now()
		old, _ := m.live.state.Ask(now)
		bubble.Sleep(7 * time.Second) // nobody waits for it any more
		calm(m)
		s := incidentState()
		m.Update(stateMsg{Gen: old, Clock: sources.Clock{Sent: now, Received: time.Now(), At: now}, Value: &s})
		if got := screenOf(m); strings.Contains(got, "OPEN") || !strings.Contains(got, "412.0") {
			t.Errorf("a late answer was shown:\n%s", got)
		}
	})
}

// On waking, nothing from before the sleep is bright, not for a frame.
func TestSleep(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		bubble.Sleep(8 * time.Hour)
		m.Update(press("j")) // a key comes before the first answer
		if got := screenOf(m); strings.Contains(got, "412.0") || strings.Contains(got, "CLOSED") || !strings.Contains(got, "(100%)") {
			t.Errorf("numbers of before the sleep are shown as if they were now's:\n%s", got)
		}
	})
}

// Successes of the source do not hide that what it says stands still.
func TestSamplesThatStandStill(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		s := *m.live.state.Value()
		bubble.Sleep(10 * time.Second)
		give(m, s, nil, nil) // the same samples again, in a new answer
		if got := screenOf(m); !strings.Contains(got, "gateway 0s ok") || strings.Contains(got, "412.0") {
			t.Errorf("an old sample looks fresh:\n%s", got)
		}
	})
}

// A jump host whose clock is wrong is told, and changes no age.
func TestClockSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(100, 30)
		theirs := time.Now().Add(3 * time.Minute)
		s := baseState()
		s.At = theirs
		u := up("a", "r", true, 5)
		u.Live.At, u.RPS.At, u.ErrorRatio.At, u.FirstOutputP95.At = theirs, theirs, theirs, theirs
		u.Breakers = []api.Breaker{{State: "closed", Since: theirs.Add(-40 * time.Second)}}
		s.Upstreams = []api.Upstream{u}
		gen, _ := m.live.state.Ask(time.Now())
		m.Update(stateMsg{Gen: gen, Clock: sources.Clock{Sent: time.Now(), Received: time.Now(), At: theirs}, Value: &s})
		got := screenOf(m)
		for _, want := range []string{"the gateway's clock is 3m ahead of this host's", "04:15:31Z", "CLOSED", "40s", "99.8%"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing:\n%s", want, got)
			}
		}
	})
}

// What another person did is said.
func TestOthersAreSaid(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		if m.message.text != "" {
			t.Errorf("the past was said as news: %q", m.message.text)
		}
		event := func(seq uint64, by string) api.Event {
			return api.Event{Seq: seq, Event: "traffic_step", Time: time.Now(), Provider: "vertex-us-central1", From: "100", To: "25", By: by, Revision: 7}
		}
		give(m, incidentState(), []api.Event{event(7, "ana"), event(8, "auto")}, nil)
		if m.message.text != "" {
			t.Errorf("one's own or the gateway's change was said: %q", m.message.text)
		}
		give(m, incidentState(), []api.Event{event(9, "ben")}, nil)
		if !strings.Contains(m.message.text, "ben: vertex-us-central1 share 100% > 25%") {
			t.Errorf("said %q", m.message.text)
		}
		bubble.Sleep(sayFor)
		m.Update(tickMsg{})
		if m.message.text != "" {
			t.Error("it is said for ever")
		}
	})
}

// Events come once, whatever a restarted gateway's numbers are.
func TestEventsOfARestartedGateway(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		n := len(m.live.changes)
		give(m, incidentState(), incidentEvents(), nil)
		if len(m.live.changes) != n {
			t.Errorf("%d changes, %d after the same came again", n, len(m.live.changes))
		}
		give(m, incidentState(), []api.Event{{Seq: 1001, Event: "config_reload", Time: time.Now(), By: "ana"}}, nil)
		if m.live.after != 1001 || len(m.live.changes) != n+1 || m.live.changes[0].Seq != 1001 {
			t.Errorf("after %d, %d changes", m.live.after, len(m.live.changes))
		}
		// The clock of the gateway's host was set back: its numbers are lower.
		give(m, incidentState(), []api.Event{{Seq: 500, Event: "config_reload", Time: time.Now(), By: "ana"}}, nil)
		if m.live.after != 500 || m.live.changes[0].Seq != 500 {
			t.Errorf("after %d, newest %d", m.live.after, m.live.changes[0].Seq)
		}
	})
}

// What the ring lost before the console began is not lost: nobody waited for it.
func TestChangesLostBeforeTheConsole(t *testing.T) {
	inSituation(t, "never", 120, 30, func(t *testing.T, m *model) {
		give(m, incidentState(), nil, nil)
		m.live.events = newData().events
		answer := func(seq uint64) {
			now := time.Now()
			m.Update(eventsMsg{Gen: ask(&m.live.events, now), Value: &api.Events{At: now, Dropped: 7, Events: []api.Event{{Seq: seq, Event: "config_reload", Time: now, By: "ana"}}}})
		}
		answer(11)
		lacks(t, m, "lost before seen")
		answer(20)
		shows(t, m, "7 changes lost before seen")
	})
}

// A list that is read does not move.
func TestHeldList(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		keys(m, "d", "j")
		want := m.openDecision().RequestID
		fresh := decisionsOf("breaker_open")
		for i := range fresh {
			fresh[i].RequestID = "new-" + fresh[i].RequestID
		}
		give(m, incidentState(), nil, fresh)
		if got := m.openDecision().RequestID; got != want {
			t.Errorf("the row under the cursor moved from %s to %s", want, got)
		}
		if got := screenOf(m); !strings.Contains(got, "held; g follows") {
			t.Errorf("it does not say that it is held:\n%s", got)
		}
		keys(m, "g")
		if got := m.openDecision().RequestID; got != "new-req-100" {
			t.Errorf("g does not follow the newest: %s", got)
		}
		keys(m, "enter")
		give(m, incidentState(), nil, decisionsOf("weight"))
		if got := screenOf(m); !strings.Contains(got, "new-req-100") {
			t.Errorf("an opened decision changed under the reader:\n%s", got)
		}
	})
}

func TestFilter(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		keys(m, "/", "v", "e", "r", "t", "e", "x")
		if m.current().Name != "vertex-us-central1" {
			t.Errorf("the cursor is on %s", m.current().Name)
		}
		keys(m, "q") // typed, not obeyed
		if got := screenOf(m); !strings.Contains(got, "0 of 4, filter: vertexq") || !strings.Contains(got, "none of 4 matches the filter") {
			t.Errorf("a filter that nothing matches is not said:\n%s", got)
		}
		if m.current() != nil || m.noRaise() == "" {
			t.Error("a key would act on a row that is not shown")
		}
		m.Update(tea.PasteMsg{Content: "x\ny"})
		if m.lists[overview].filter != "vertexqx y" {
			t.Errorf("pasted %q", m.lists[overview].filter)
		}
		for range 20 {
			keys(m, "backspace")
		}
		keys(m, "enter", "esc")
		if m.lists[overview].filter != "" || m.screen != overview {
			t.Error("esc does not clear the filter")
		}
		keys(m, "d", "j", "j", "/")
		keys(m, strings.Split("permission", "")...)
		keys(m, "enter")
		if got := screenOf(m); !strings.Contains(got, "4 of 12, filter: permission") {
			t.Errorf("decisions are not filtered:\n%s", got)
		}
		if l := &m.lists[decisions]; l.cursor != 0 || l.held != nil {
			t.Errorf("a new filter is not seen from its first row, of the newest: %+v", l)
		}
		keys(m, "esc", "esc")
		if m.screen != overview {
			t.Errorf("esc twice leads to %s", m.screen)
		}
	})
}

// Leaving: at once where there is nothing to ask, always in a demo, with a
// question where this console started the gateway.
func TestLeave(t *testing.T) {
	tests := []struct {
		name          string
		started, demo bool
		keys          []string
		quit, stop    bool
	}{
		{name: "another's gateway", keys: []string{"q"}, quit: true},
		{name: "another's gateway, ctrl+c", keys: []string{"ctrl+c"}, quit: true},
		{name: "demo", started: true, demo: true, keys: []string{"q"}, quit: true},
		{name: "started, asked", started: true, keys: []string{"q"}},
		{name: "started, enter", started: true, keys: []string{"q", "enter", "q", "y"}},
		{name: "started, not armed", started: true, keys: []string{"q", "s", "y", "s", "y"}},
		{name: "started, status", started: true, keys: append([]string{"q"}, word("status")...)},
		{name: "started, armed, status", started: true, keys: append([]string{"W", "q"}, word("status")...)},
		{name: "started, armed, stop", started: true, keys: append([]string{"W", "q"}, word("stop")...)},
		{name: "started, armed, s alone", started: true, keys: []string{"W", "q", "s", "s", "enter"}},
		{name: "started, y alone", started: true, keys: []string{"W", "q", "y"}},
		{name: "started, s and no", started: true, keys: []string{"W", "q", "s", "esc", "y"}},
		{name: "started, leave it", started: true, keys: []string{"q", "l"}, quit: true},
		{name: "started, stop it", started: true, keys: []string{"W", "q", "s", "y"}, quit: true, stop: true},
		{name: "started, s and leave it", started: true, keys: []string{"W", "q", "s", "l"}, quit: true},
		{name: "started, stay", started: true, keys: []string{"q", "esc", "s", "l"}},
		{name: "started, ctrl+c twice", started: true, keys: []string{"ctrl+c", "ctrl+c"}, quit: true},
		{name: "from a dialog, ctrl+c", keys: []string{"W", "<", "ctrl+c"}, quit: true},
		{name: "esc never leaves", keys: []string{"esc", "esc", "esc"}},
		{name: "q in a dialog is no leaving", keys: []string{"W", "<", "q"}},
		{name: "from another screen", keys: []string{"e", "q"}, quit: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
				m.o.Started, m.o.Demo = tt.started, tt.demo
				if got := typed(m, tt.keys...); got != tt.quit || m.stop != tt.stop {
					t.Errorf("left %t, stop %t; want %t, %t", got, m.stop, tt.quit, tt.stop)
				}
			})
		})
	}
	// ctrl+c ends what was open: whoever stays is asked nothing of before.
	inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
		m.o.Started = true
		typed(m, "W", "<", "ctrl+c", "esc")
		if m.dialog != nil || m.leaving != nil {
			t.Errorf("the dialog is there again:\n%s", screenOf(m))
		}
	})
	// Held, q does not answer its own question.
	inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
		m.o.Started = true
		for _, k := range []string{"q", "s", "l", "q"} {
			_, cmd := m.Update(press(k))
			if follow(m, cmd) {
				t.Fatalf("%s left within 300 ms", k)
			}
		}
	})
}

// A y that stops the gateway stands alone, and comes while writing is armed.
func TestStopTakesALoneY(t *testing.T) {
	asked := func(f func(m *model) []tea.Cmd) (quit, stop bool, said string) {
		inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
			m.o.Started = true
			typed(m, "W", "q", "s")
			if !strings.Contains(screenOf(m), "Stop the gateway?") {
				t.Fatalf("it does not ask:\n%s", screenOf(m))
			}
			quit = follow(m, f(m)...)
			stop, said = m.stop, m.message.text
		})
		return quit, stop, said
	}
	if quit, stop, _ := asked(func(m *model) []tea.Cmd { bubble.Sleep(time.Second); return keys(m, "y") }); !quit || !stop {
		t.Error("a lone y does not stop it")
	}
	for name, f := range map[string]func(m *model) []tea.Cmd{
		"at once":     func(m *model) []tea.Cmd { return keys(m, "y") },
		"and another": func(m *model) []tea.Cmd { bubble.Sleep(time.Second); return keys(m, "y", "e") },
		"pasted": func(m *model) []tea.Cmd {
			bubble.Sleep(time.Second)
			_, cmd := m.Update(tea.PasteMsg{Content: "y"})
			return []tea.Cmd{cmd}
		},
		"and a paste": func(m *model) []tea.Cmd {
			bubble.Sleep(time.Second)
			c := keys(m, "y")
			_, cmd := m.Update(tea.PasteMsg{Content: "es"})
			return append(c, cmd)
		},
		"and pasted before it": func(m *model) []tea.Cmd {
			bubble.Sleep(time.Second)
			_, cmd := m.Update(tea.PasteMsg{Content: "e"})
			bubble.Sleep(time.Second)
			return append(keys(m, "y"), cmd)
		},
		"no more armed": func(m *model) []tea.Cmd { bubble.Sleep(armFor); return keys(m, "y") },
	} {
		if quit, stop, said := asked(f); quit || stop || said == "" {
			t.Errorf("%s: left %t, stop %t, said %q", name, quit, stop, said)
		}
	}
}

// The question says what it asks for, and that a stray key closed it.
func TestLeavingSaysHow(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
		m.o.Started = true
		typed(m, "q")
		if s := screenOf(m); !strings.Contains(s, "off, read-only: W arms") || !strings.Contains(s, "any other key closes") {
			t.Error(s)
		}
		typed(m, "s")
		if m.leaving == nil || !strings.Contains(m.message.text, "W arms") {
			t.Errorf("not armed: %q", m.message.text)
		}
		typed(m, "t")
		if m.leaving != nil || !strings.Contains(m.message.text, "t closed the question") {
			t.Errorf("t: %q", m.message.text)
		}
	})
}

// Writing is armed for 15 minutes and not longer, and W ends it.
func TestArm(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
		typed(m, "W")
		if !m.armed() || !strings.Contains(screenOf(m), "ARMED 15:00") {
			t.Fatal("not armed")
		}
		bubble.Sleep(armFor - time.Second)
		m.Update(tickMsg{})
		if !strings.Contains(screenOf(m), "ARMED 0:01") {
			t.Errorf("no countdown:\n%s", screenOf(m))
		}
		bubble.Sleep(time.Second)
		m.Update(tickMsg{})
		if m.armed() || !strings.Contains(screenOf(m), "READ-ONLY") || !strings.Contains(m.message.text, "no longer armed") {
			t.Errorf("armed %t, said %q", m.armed(), m.message.text)
		}
		typed(m, "W", "W")
		if m.armed() {
			t.Error("W does not disarm")
		}
	})
}

// The freshness row lives on while the view is frozen.
func TestFrozenFreshness(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		keys(m, "f")
		bubble.Sleep(8 * time.Second)
		refuseConnection(m)
		if got := screenOf(m); !strings.Contains(got, "NO ANSWER 8s") || !strings.Contains(got, "412.0") || !strings.Contains(got, "FROZEN 8s") {
			t.Errorf("frozen:\n%s", got)
		}
		keys(m, "f")
		if got := screenOf(m); strings.Contains(got, "412.0") || strings.Contains(got, "FROZEN") {
			t.Errorf("let go:\n%s", got)
		}
	})
}

// The key table: each key has one meaning on a screen, a text, and a function;
// y is nowhere in it.
func TestKeyTable(t *testing.T) {
	for s := range screens {
		seen := make(map[string]string)
		for _, b := range table {
			if !b.on.has(s) {
				continue
			}
			for _, k := range b.Keys() {
				if other, ok := seen[k]; ok {
					t.Errorf("on %s %q is both %q and %q", s, k, other, b.long)
				}
				seen[k] = b.long
				if k == "y" {
					t.Errorf("y has a meaning of its own on %s", s)
				}
			}
			if b.long == "" || b.do == nil || b.rank > 0 && b.Help().Desc == "" {
				t.Errorf("binding %q is incomplete", b.Keys())
			}
		}
	}
	if n := len(Keys()); n != len(table)+len(dialogTable) {
		t.Errorf("%d keys are documented", n)
	}
}

// The help line has the way out and ? at every width, and dims what is off.
func TestHelpLine(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		for w := 20; w < 200; w++ {
			r := m.helpLine(w)
			if r.width() > w || !strings.Contains(r.text(), "q leave") || w >= 40 && !strings.Contains(r.text(), "? keys") {
				t.Fatalf("%d columns: %q", w, r.text())
			}
		}
		raise := func() style {
			for _, s := range m.helpLine(200) {
				if s.text == "<" {
					return s.style
				}
			}
			return normal
		}
		if raise() != dim {
			t.Error("a key that is off is not dimmed")
		}
		keys(m, "W")
		if raise() != accent {
			t.Error("a key that works is dimmed")
		}
	})
}

// The plan of the overview uses the room it has, never more, and keeps what
// matters most.
func TestPlan(t *testing.T) {
	for w := 40; w <= 200; w += 20 {
		for room := 7; room <= 60; room++ {
			for _, n := range []int{0, 1, 4, 17, 200} {
				for _, filtered := range []bool{false, true} {
					p := planOverview(w, room, n, filtered)
					used := 1 + 1 + p.upstreams + 1 // users, header, rows, way back
					for _, on := range []bool{p.who, p.fallback, p.ruleTop, p.ruleTable, p.ruleWay, p.ruleLast} {
						if on {
							used++
						}
					}
					if p.changes > 0 {
						used += 2 + p.changes
					}
					if p.decisions > 0 {
						used += 2 + p.decisions
					}
					if used > room || p.upstreams < 1 || p.upstreams > max(n, 1) {
						t.Fatalf("w %d, room %d, n %d: uses %d: %+v", w, room, n, used, p)
					}
				}
			}
		}
	}
	if p := planOverview(100, 26, 4, false); p.upstreams != 4 || p.changes < 4 || p.decisions < 3 || !p.ruleLast {
		t.Errorf("at 100x30: %+v", p)
	}
	if p := planOverview(80, 20, 4, false); p.upstreams != 4 || p.changes < 4 || p.decisions != 0 || !p.ruleLast {
		t.Errorf("at 80x24: %+v", p)
	}
}

// A panic anywhere ends the program in order, once, and what is returned can be
// drawn.
func TestGuard(t *testing.T) {
	ended := 0
	g := &guard{end: func() { ended++ }} // without a model all of it panics
	g.Init()
	next, cmd := g.Update(nil)
	if next != tea.Model(g) || cmd != nil {
		t.Errorf("Update returned %v, %v", next, cmd)
	}
	if v := g.View(); !v.AltScreen || v.Content != "" {
		t.Errorf("View returned %+v", v)
	}
	if msg := g.guarded(func() tea.Msg { panic("late") })(); msg != nil {
		t.Errorf("a command returned %v", msg)
	}
	if ended == 0 || g.crashed() == nil || g.crashed().where != "Init" {
		t.Errorf("ended %d times, crash %+v", ended, g.crashed())
	}
	batch := g.guarded(tea.Batch(func() tea.Msg { panic("one") }, func() tea.Msg { return "two" }))().(tea.BatchMsg)
	if batch[0]() != nil || batch[1]() != "two" {
		t.Error("the commands of a batch are not guarded")
	}
	g.wait()
	if msg := g.guarded(func() tea.Msg { return "after" })(); msg != nil {
		t.Errorf("a command began after the end: %v", msg)
	}
}

// A panic's value is shown without secrets, escapes and pages of text.
func TestSafe(t *testing.T) {
	for _, s := range []string{"Authorization: Bearer fbt-abcdef", "bearer abcdef", "sk-ant-api03-abcdef", "token=abcdef", "api_key: abcdef", `password="abcdef"`} {
		if got := safe("it broke: " + s); strings.Contains(got, "abcdef") || !strings.Contains(got, "it broke: ") {
			t.Errorf("%q becomes %q", s, got)
		}
	}
	if got := safe("\x1b[2J" + strings.Repeat("x", 10000)); strings.Contains(got, "\x1b") || len(got) > 600 {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
	if got := safe("index out of range [3] with length 3"); got != "index out of range [3] with length 3" {
		t.Errorf("an ordinary panic becomes %q", got)
	}
}

func TestCutMiddle(t *testing.T) {
	for _, tt := range []struct {
		s    string
		n    int
		want string
	}{
		{"anthropic-us-east-1", 30, "anthropic-us-east-1"},
		{"anthropic-us-east-1", 12, "anthro~ast-1"},
		{"anthropic-us-east-1", 4, "ant~"},
		{"模型模型模型", 7, "模~型"},
		{"abcdefgh模型", 7, "abc~型"},
	} {
		got := cutMiddle(tt.s, tt.n, "~")
		if width(got) > tt.n || got != tt.want {
			t.Errorf("%q in %d: %q, want %q", tt.s, tt.n, got, tt.want)
		}
	}
}

func TestUTF8Locale(t *testing.T) {
	for _, tt := range []struct {
		env  []string
		want bool
	}{
		{nil, false},
		{[]string{"LANG=C"}, false},
		{[]string{"LANG=en_US.UTF-8"}, true},
		{[]string{"LC_ALL=C", "LANG=en_US.UTF-8"}, false},
		{[]string{"LC_CTYPE=de_DE.utf8"}, true},
	} {
		if got := utf8Locale(tt.env); got != tt.want {
			t.Errorf("%q: %t", tt.env, got)
		}
	}
}

// LIVE has arrived when it went most of the way, not before the command.
func TestArrived(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		u := *m.live.upstream("anthropic-eu-west-1")
		at := m.now
		for _, tt := range []struct {
			share int
			from  float64
			live  float64
			when  time.Duration
			want  bool
		}{
			{25, 0.05, 0.05, time.Second, false}, {25, 0.05, 0.12, time.Second, false}, {25, 0.05, 0.22, time.Second, true}, {25, 0.05, 0.24, time.Second, true},
			{25, 0.05, 0.4, time.Second, true}, {25, 0.05, 0.24, -time.Second, false}, {25, 0.05, math.NaN(), time.Second, false},
			{25, 0.05, 0.12, 2 * time.Minute, false},
			// Overflow had it near already: that says nothing, until it is of after the change alone.
			{5, 0.043, 0.044, time.Second, false}, {5, 0.043, 0.05, 59 * time.Second, false}, {5, 0.043, 0.044, time.Minute, true}, {5, 0.043, 0.1, time.Minute, false},
			{5, 0.05, 0.05, time.Second, false}, {5, 0, 0.042, time.Second, true}, {5, 0, 0.035, time.Second, false},
			{25, 1, 0.3, time.Second, true}, {25, 1, 0.6, time.Second, false},
		} {
			u.Share, u.Live = tt.share, api.Number{State: "value", Value: tt.live, At: at.Add(tt.when)}
			if got := m.arrived(&u, settling{share: tt.share, from: tt.from, at: at}); got != tt.want {
				t.Errorf("%d%%, LIVE from %v to %v, %s after: %t", tt.share, tt.from, tt.live, tt.when, got)
			}
		}
	})
}
