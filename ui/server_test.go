package ui

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources/gatewaytest"
)

// serverModel is a console on a gateway that really listens.
func serverModel(t *testing.T, ctx context.Context) (*model, *gatewaytest.Gateway) {
	t.Helper()
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) { *s = quietState() })
	for _, e := range incidentEvents() {
		g.Happen(e)
	}
	g.Decide(decisionsOf("breaker_open")...)
	m := newModel(ctx, Options{Client: g.Client(t), Version: "v1.2.3", DataDir: t.TempDir()})
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	poll(m)
	return m, g
}

// poll asks as a tick does.
func poll(m *model) {
	m.now = time.Now()
	follow(m, m.askAll())
}

// late makes the dialog one that opened a second ago.
func late(m *model) {
	m.dialog.opened = m.now.Add(-time.Second)
	m.dialog.lastKey, m.dialog.moved = time.Time{}, time.Time{}
}

func tap(m *model, ks ...string) {
	for _, k := range ks {
		_, cmd := m.Update(press(k))
		follow(m, cmd)
	}
}

// because types the reason that a step asks for which was not held for long.
func because(m *model) {
	late(m)
	tap(m, "p", "enter")
	late(m)
}

func TestRaiseOnAServer(t *testing.T) {
	m, g := serverModel(t, t.Context())
	if got := screenOf(m); !strings.Contains(got, "PROD gw-1") || !strings.Contains(got, "OPEN try in") || !strings.Contains(got, " breaker_open > vertex-us-central1 ok ") {
		t.Fatalf("the screen does not show the gateway:\n%s", got)
	}
	tap(m, "W", "j", "j", "j", ">")
	because(m)
	tap(m, "y")
	if u := g.Upstream("anthropic-eu-west-1"); u.Share != 25 || u.Revision != 119 {
		t.Fatalf("share %d, revision %d; said %q", u.Share, u.Revision, m.message.text)
	}
	poll(m)
	if got := screenOf(m); !strings.Contains(got, "25%  4.9% ... 0s") || !strings.Contains(got, "anthropic-eu-west-1 share 5% > 25%") {
		t.Errorf("the row or the changes do not show it:\n%s", got)
	}
	// And back by u, which is a way down.
	tap(m, "u")
	late(m)
	tap(m, "y")
	if u := g.Upstream("anthropic-eu-west-1"); u.Share != 5 || u.Undo == nil {
		t.Errorf("share %d; said %q", u.Share, m.message.text)
	}
	// And that lowering of one's own by the gateway's undo.
	poll(m)
	tap(m, "u")
	late(m)
	tap(m, "y")
	cs := g.Commands()
	if u := g.Upstream("anthropic-eu-west-1"); u.Share != 25 || !cs[len(cs)-1].Body.Undo {
		t.Errorf("share %d, sent %+v; said %q", u.Share, cs[len(cs)-1], m.message.text)
	}
}

// A revision that changed between the last answer and the command is refused by
// the gateway; after rereading it goes through.
func TestStaleOnAServer(t *testing.T) {
	m, g := serverModel(t, t.Context())
	tap(m, "W", "j", "j", "j", ">")
	because(m)
	g.Set(func(s *api.State) {
		s.Upstreams[3].Revision = 120
		s.Upstreams[3].StateBy = "ben"
		s.LastWrite = &api.Event{Event: "operator_command", Provider: "anthropic-eu-west-1", Action: "share", From: "25", To: "5", By: "ben", Result: "ok", Revision: 120}
	})
	tap(m, "y")
	if u := g.Upstream("anthropic-eu-west-1"); u.Share != 5 || m.dialog == nil {
		t.Fatalf("share %d, dialog %v", u.Share, m.dialog)
	}
	if got := screenOf(m); !strings.Contains(got, "refused: ben was first") || !strings.Contains(got, "y is off: it changed meanwhile") {
		t.Errorf("it does not say so:\n%s", got)
	}
	n := len(g.Commands())
	m.dialog.lastKey = time.Time{}
	tap(m, "y")
	if len(g.Commands()) != n {
		t.Error("y works although it changed meanwhile")
	}
	tap(m, "r")
	late(m)
	tap(m, "y")
	if u := g.Upstream("anthropic-eu-west-1"); u.Share != 25 {
		t.Errorf("after reread: share %d, said %q", u.Share, m.message.text)
	}
}

// The gateway's own refusal of a viewer is shown: the screen is not the guard.
func TestForbiddenOnAServer(t *testing.T) {
	m, g := serverModel(t, t.Context())
	g.Refuse(&api.Error{Code: api.CodeForbidden, Message: "the role of this token is viewer", Hint: "ask for an operator's"})
	tap(m, "W", "j", "j", "j", "<")
	late(m)
	tap(m, "y")
	if got := screenOf(m); !strings.Contains(got, "refused: the role of this token is viewer (ask for an operator's)") {
		t.Errorf("it does not say so:\n%s", got)
	}
}

// The gateway dies and comes back: the console says so, waits, and goes on.
func TestDisconnect(t *testing.T) {
	m, g := serverModel(t, t.Context())
	g.Stop()
	poll(m)
	if got := screenOf(m); !strings.Contains(got, "gateway NO ANSWER 0s: ") || !strings.Contains(got, "last good ") {
		t.Errorf("it does not say that nobody answers:\n%s", got)
	}
	if got := screenOf(m); !strings.Contains(got, "408.3 0s") {
		t.Errorf("the last numbers are gone at once, or look fresh:\n%s", got)
	}
	g.Start(t)
	poll(m)
	if got := screenOf(m); !strings.Contains(got, "gateway 0s ok") || strings.Contains(got, "408.3 0s") {
		t.Errorf("it does not go on:\n%s", got)
	}
	want := []string{"gateway answers", "gateway does not answer", "gateway answers"}
	for _, l := range m.log.lines {
		if len(want) > 0 && strings.Contains(l, want[0]) {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("the own log does not tell it: %q", m.log.lines)
	}
}

// A question that hangs does not keep the console, and ends with it.
func TestHangingQuestionEndsWithTheConsole(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m, g := serverModel(t, ctx)
	g.Hang(true)
	m.now = time.Now()
	cmd := m.askState()
	done := make(chan tea.Msg, 1)
	go func() { done <- cmd() }()
	waitFor(t, func() bool { return g.Hung() == 1 })
	if _, c := m.Update(press("q")); !follow(m, c) {
		t.Error("q does not leave while a question hangs")
	}
	cancel()
	if msg := (<-done).(stateMsg); !errors.Is(msg.Err, context.Canceled) {
		t.Errorf("the question ended with %v", msg.Err)
	}
	waitFor(t, func() bool { return g.Hung() == 0 })
}

// waitFor waits until a condition of another goroutine holds.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen within 10 s")
		}
		<-tick.C
	}
}

// What is copied is in a file, whole.
func TestCopy(t *testing.T) {
	m, _ := serverModel(t, t.Context())
	tap(m, "e", "C", "c", "o", "c", "m", "c")
	files, _ := filepath.Glob(filepath.Join(m.o.DataDir, "copies", "*.txt"))
	if len(files) < 2 { // two of one name may share a millisecond
		t.Fatalf("files %q, said %q", files, m.message.text)
	}
	var all string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all += string(b)
		of := regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.]*Z`)
		if !of.Match(b) {
			t.Errorf("%s does not say of when it is:\n%s", f, b)
		}
	}
	if texts, _ := filepath.Glob(filepath.Join(m.o.DataDir, "copies", "text-*.txt")); len(texts) != 1 {
		t.Errorf("texts %q", texts)
	}
	for _, want := range []string{"failback console on unix:", "CHANGES AND TRIPS", "anthropic-us-east-1  OPEN try in", "p95 idle"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q was not copied:\n%s", want, all)
		}
	}
	if !strings.Contains(m.message.text, filepath.Join(m.o.DataDir, "copies")) {
		t.Errorf("the file is not named: %q", m.message.text)
	}
}

// What the console did is in a file too.
// A copy that has no file says so.
func TestACopyWithoutAFile(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
		m.o.DataDir = filepath.Join(m.o.DataDir, "file")
		if err := os.WriteFile(m.o.DataDir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		typed(m, "c")
		if !strings.Contains(m.message.text, "; no file: ") || m.message.style != bad {
			t.Errorf("said %+v", m.message)
		}
	})
}

func TestOwnLogFile(t *testing.T) {
	m, _ := serverModel(t, t.Context())
	tap(m, "W")
	follow(m, m.flushLog())
	b, err := os.ReadFile(filepath.Join(m.o.DataDir, logFile))
	if err != nil || !strings.Contains(string(b), "armed for 15m") {
		t.Errorf("%v: %q", err, b)
	}
}
