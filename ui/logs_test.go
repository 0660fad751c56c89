package ui

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/sources"
)

// onLogs runs f on a log screen over a Loki.
func onLogs(t *testing.T, loki *fakeLoki, f func(m *model)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		begin()
		m := testModel(100, 30)
		withLoki(m, loki)
		keys(m, "l")
		f(m)
	})
}

func shows(t *testing.T, m *model, want ...string) {
	t.Helper()
	got := screenOf(m)
	for _, s := range want {
		if !strings.Contains(got, s) {
			t.Errorf("no %q in:\n%s", s, got)
		}
	}
}

func lacks(t *testing.T, m *model, others ...string) {
	t.Helper()
	got := screenOf(m)
	for _, s := range others {
		if strings.Contains(got, s) {
			t.Errorf("%q is in:\n%s", s, got)
		}
	}
}

// numbered answers each question with one line that has its number.
func numbered(f *fakeLoki) *fakeLoki {
	f.make = func(a *sources.LogAnswer) {
		a.Rows = []sources.LogRow{{TS: a.Query.End.UnixNano(), Line: "answer to question " + string(rune('0'+len(f.asked)))}}
	}
	return f
}

// The answer to an earlier question never stands under a later one, in
// whatever order they come.
func TestLateLogAnswersAreDropped(t *testing.T) {
	onLogs(t, numbered(&fakeLoki{}), func(m *model) {
		first := keys(m, "enter")
		keys(m, "esc") // given up
		second := keys(m, "j", "enter")
		late := first[0]().(logsMsg)
		m.Update(late)
		shows(t, m, "not-allowed: tasks", "asking")
		lacks(t, m, "answer to question")
		m.Update(second[1]().(logsMsg))
		shows(t, m, "answer to question 2")
		m.Update(late)
		shows(t, m, "answer to question 2")
	})
}

// waitingLoki answers when the question is given up.
type waitingLoki struct{ given bool }

func (*waitingLoki) Addr() string { return "" }

func (*waitingLoki) Told(api.Source) {}

func (w *waitingLoki) Query(ctx context.Context, gen uint64, _ sources.LogQuery) sources.Answer[sources.LogAnswer] {
	<-ctx.Done()
	w.given = true
	return sources.Answer[sources.LogAnswer]{Gen: gen, Err: ctx.Err()}
}

func TestARunningQueryCanBeGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(100, 30)
		withLoki(m, &fakeLoki{})
		w := &waitingLoki{}
		m.ask.logs = w
		cmds := keys(m, "l", "enter")
		answer := make(chan tea.Msg, 1)
		go func() { answer <- cmds[1]() }()
		synctest.Wait()
		bubble.Sleep(4 * time.Second)
		m.Update(nil)
		shows(t, m, "asking for 4s; esc gives it up")
		keys(m, "esc")
		synctest.Wait()
		m.Update(<-answer)
		if !w.given {
			t.Error("the question goes on")
		}
		shows(t, m, "the query was given up after 4s", "given up; r asks again")
		lacks(t, m, "NO ANSWER")

		// A new question ends the one that is out.
		w.given = false
		out := keys(m, "r")
		go func() { answer <- out[0]() }()
		synctest.Wait()
		keys(m, "]")
		synctest.Wait()
		if <-answer; !w.given {
			t.Error("the question before goes on")
		}
		// Quitting is one key, however long Loki takes.
		for _, k := range []string{"q", "ctrl+c"} {
			if cmd := keys(m, k)[0]; cmd == nil {
				t.Errorf("%s does not leave", k)
			} else if _, ok := cmd().(tea.QuitMsg); !ok {
				t.Errorf("%s does something else than leave", k)
			}
		}
		m.logs.cancel()
	})
}

// What is chosen is asked, at once where an answer is read.
func TestLogChoices(t *testing.T) {
	f := &fakeLoki{make: eventful}
	onLogs(t, f, func(m *model) {
		last := func() sources.LogQuery { return f.asked[len(f.asked)-1] }
		runKeys(m, "j", "j", "enter")
		if q := last(); q.End.Sub(q.Start) != 15*time.Minute || q.Limit != 500 || q.Forward {
			t.Errorf("asked %+v", q)
		}
		for _, c := range []struct {
			key   string
			over  time.Duration
			limit int
			fwd   bool
		}{
			{"]", time.Hour, 500, false}, {"]", 6 * time.Hour, 500, false}, {"]", 24 * time.Hour, 500, false}, {"]", 15 * time.Minute, 500, false}, // its own
			{"[", 24 * time.Hour, 500, false}, {"[", 6 * time.Hour, 500, false},
			{"+", 6 * time.Hour, 1000, false}, {"+", 6 * time.Hour, 5000, false}, {"+", 6 * time.Hour, 500, false},
			{"-", 6 * time.Hour, 100, false}, {"t", 6 * time.Hour, 100, true},
		} {
			n := len(f.asked)
			runKeys(m, c.key)
			if q := last(); len(f.asked) != n+1 || q.End.Sub(q.Start) != c.over || q.Limit != c.limit || q.Forward != c.fwd {
				t.Errorf("%s: asked %d times, %s, limit %d, forward %t", c.key, len(f.asked)-n, q.End.Sub(q.Start), q.Limit, q.Forward)
			}
		}
		n := len(f.asked)
		keys(m, "esc")
		runKeys(m, "[", "j")
		if len(f.asked) != n {
			t.Error("a choice among the queries asks")
		}
		runKeys(m, "enter")
		if q := last(); !q.Instant || !strings.Contains(q.Query, "[1h]") {
			t.Errorf("asked %+v", q)
		}
		runKeys(m, "M")
		if q := last(); q.Instant || q.Step != 2*time.Minute {
			t.Errorf("over the range: asked %+v", q)
		}
	})
}

func TestOwnQuery(t *testing.T) {
	f := &fakeLoki{make: eventful}
	onLogs(t, f, func(m *model) {
		keys(m, "a", "ctrl+u")
		m.Update(tea.PasteMsg{Content: "{service_name=\"failback\"}\n| json"})
		keys(m, "q", "y") // typed, not done
		shows(t, m, ` LogQL: {service_name="failback"} | jsonqy`)
		if m.leaving != nil || len(f.asked) != 0 {
			t.Fatal("keys of the field did something")
		}
		keys(m, "backspace", "backspace")
		runKeys(m, "enter")
		if q := f.asked[0]; q.Query != `{service_name="failback"} | json` || q.Instant || q.End.Sub(q.Start) != time.Hour {
			t.Errorf("asked %+v", q)
		}
		// It begins with what is looked at, and esc leaves it as it was.
		keys(m, "a", "x", "esc")
		if m.logs.own != f.asked[0].Query || m.screen != logs {
			t.Errorf("esc took the text over: %q", m.logs.own)
		}
		keys(m, "esc")
		runKeys(m, "enter") // the cursor is on it
		if len(f.asked) != 2 || f.asked[1].Query != f.asked[0].Query {
			t.Errorf("asked %d times", len(f.asked))
		}
	})
}

func TestLogsOfARequest(t *testing.T) {
	f := &fakeLoki{make: eventful}
	onLogs(t, f, func(m *model) {
		keys(m, "o", "d", "j")
		id := m.openDecision().RequestID
		runKeys(m, "L")
		q := f.asked[0]
		if q.Query != `{service_name="failback"} |= "`+id+`"` {
			t.Errorf("asked %s", q.Query)
		}
		keys(m, "esc", "esc")
		if m.screen != decisions || m.openDecision().RequestID != id {
			t.Errorf("esc comes to the %s, not to the decision", m.screen)
		}
		d := m.openDecision()
		if !q.Start.Before(d.Time) || !q.End.After(d.Time.Add(time.Duration(d.DurationMS)*time.Millisecond)) {
			t.Errorf("from %s to %s, the decision is of %s", q.Start, q.End, d.Time)
		}
		keys(m, "enter")
		runKeys(m, "L")
		shows(t, m, `|= "`+id+`"`)
		// From there the range is as that of any query.
		runKeys(m, "]")
		if q := f.asked[len(f.asked)-1]; q.End.Sub(q.Start) != time.Hour {
			t.Errorf("asked %s", q.End.Sub(q.Start))
		}
	})
}

func TestLogCopies(t *testing.T) {
	onLogs(t, &fakeLoki{make: hostileLines}, func(m *model) {
		m.o.DataDir = t.TempDir()
		runKeys(m, "j", "j", "enter")
		readable := func(what, s string) {
			t.Helper()
			for _, r := range s {
				if r != '\n' && !unicode.IsGraphic(r) {
					t.Errorf("the %s holds %U", what, r)
				}
			}
		}
		readable("row", m.rowText())
		if !strings.HasPrefix(m.rowText(), "2000-01-01T04:12:31.") {
			t.Errorf("the row has no time: %q", m.rowText())
		}
		cmd := keys(m, "A")[0]
		for _, c := range cmd().(tea.BatchMsg) {
			if msg, ok := c().(copiedMsg); ok {
				m.Update(msg)
			}
		}
		shows(t, m, "copied the answer, also to ")
		files, _ := filepath.Glob(filepath.Join(m.o.DataDir, "copies", "answer-*"))
		if len(files) != 1 {
			t.Fatal("there is no file")
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		readable("answer", string(b))
		for _, want := range []string{"# affected: {service_name=", "# 2000-01-01 03:57:31Z to 04:12:31Z UTC", "# partial: ", `\x1b]52;c;`} {
			if !strings.Contains(string(b), want) {
				t.Errorf("the answer lacks %q", want)
			}
		}
		if got := m.lookedAt().q.Logcli(); !strings.HasPrefix(got, "logcli query ") || !strings.Contains(got, "--from=2000-01-01T03:57:31") {
			t.Errorf("logcli: %s", got)
		}
		if keys(m, "x")[0] == nil {
			t.Error("x copies nothing")
		}
	})
}

// A line that is open stays what it is, whatever is answered meanwhile.
func TestAnOpenLineStays(t *testing.T) {
	f := &fakeLoki{make: eventful}
	onLogs(t, f, func(m *model) {
		runKeys(m, "j", "j", "enter")
		keys(m, "j")
		again := keys(m, "r")
		keys(m, "enter")
		shows(t, m, "req-099")
		f.make = func(*sources.LogAnswer) {}
		m.Update(again[0]().(logsMsg))
		shows(t, m, "LOG LINE", "req-099")
		keys(m, "esc")
		shows(t, m, "none in 15m")
	})
}

// Whatever Loki sends, nothing of it drives the terminal, at any size, read,
// filtered or open.
func TestHostileLogs(t *testing.T) {
	for _, mk := range []func(a *sources.LogAnswer){hostileLines, func(a *sources.LogAnswer) {
		a.Kind = sources.LogVector
		for _, h := range hostile {
			a.Series = append(a.Series, sources.LogSeries{Labels: map[string]string{h: h, "a": h}, Points: []sources.LogPoint{{Value: 1}}})
		}
	}} {
		for i := range 2 * len(hostile) {
			onLogs(t, &fakeLoki{make: mk, addr: hostile[i/2]}, func(m *model) {
				runKeys(m, "j", "j", "enter")
				for range i {
					keys(m, "j")
				}
				for _, ks := range [][]string{nil, {"enter"}, {"esc", "/", "a"}, {"enter"}, {"esc", "esc"}} {
					keys(m, ks...)
					for _, size := range []struct{ w, h int }{{100, 30}, {40, 12}, {20, 5}, {200, 60}} {
						m.Update(tea.WindowSizeMsg{Width: size.w, Height: size.h})
						harmless(t, m, size.w, size.h)
					}
					for _, r := range m.rowText() + m.screenText() {
						if r != '\n' && !unicode.IsGraphic(r) {
							t.Fatalf("a copy holds %U", r)
						}
					}
				}
			})
		}
	}
	for _, h := range hostile {
		onLogs(t, &fakeLoki{err: refused("parse error at line 1, col 9: " + h)}, func(m *model) {
			m.logs.own = "{a=\"" + h + "\"}"
			keys(m, "G")
			runKeys(m, "enter")
			harmless(t, m, 100, 30)
			m.Update(tea.WindowSizeMsg{Width: 40, Height: 12})
			harmless(t, m, 40, 12)
		})
	}
}

// A frozen screen and a gateway that is gone do not keep anybody from the logs.
func TestLogsWithoutAGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(100, 30)
		keys(m, "l", "enter")
		shows(t, m, "first-switch", "this console has no source of log lines")
		f := &fakeLoki{make: eventful}
		withLoki(m, f)
		keys(m, "f")
		refuseConnection(m)
		runKeys(m, "j", "j", "enter")
		shows(t, m, "req-100", "FROZEN")
	})
}
