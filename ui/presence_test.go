package ui

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
)

// watcher is a client that counts what it is told of its operator.
type watcher struct {
	sources.API
	active, left atomic.Int32
	hangs        bool
}

func (w *watcher) Active() { w.active.Add(1) }

func (w *watcher) Leave(ctx context.Context) error {
	w.left.Add(1)
	if w.hangs {
		<-ctx.Done()
	}
	return ctx.Err()
}

// Keys say that somebody is here; what comes by itself does not.
func TestKeysArePresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testModel(100, 30)
		w := &watcher{API: m.o.Client}
		m.o.Client = w
		m.Init()
		if n := w.active.Load(); n != 1 {
			t.Errorf("who starts a console is there: told %d times", n)
		}
		for _, msg := range []tea.Msg{tickMsg{}, tea.WindowSizeMsg{Width: 90, Height: 30}, drawMsg{}} {
			m.Update(msg)
		}
		give(m, baseState(), nil, nil)
		if n := w.active.Load(); n != 1 {
			t.Errorf("told %d times without a key", n)
		}
		keys(m, "j", "?", "esc")
		m.Update(tea.PasteMsg{Content: "x"})
		m.Update(tea.ResumeMsg{})
		if n := w.active.Load(); n != 6 {
			t.Errorf("told %d times, want 6", n)
		}
	})
}

// A console that ends takes leave, whatever the gateway does about it.
func TestAConsoleThatEndsTakesLeave(t *testing.T) {
	for name, hangs := range map[string]bool{"the gateway answers": false, "the gateway hangs": true} {
		t.Run(name, func(t *testing.T) {
			y := newTTY(t)
			o := ptyOptions(t, y)
			w := &watcher{API: o.Client, hangs: hangs}
			o.Client = w
			done := make(chan error, 1)
			go func() { done <- Run(t.Context(), o) }()
			waitFor(t, func() bool { return strings.Contains(y.written(), "OPEN try in") })
			if n := w.left.Load(); n != 0 {
				t.Errorf("left %d times before its end", n)
			}
			began := time.Now()
			_, _ = y.master.WriteString("q")
			if err := <-done; err != nil {
				t.Errorf("returned %v", err)
			}
			if took := time.Since(began); took > leaveWait+time.Second {
				t.Errorf("took %v", took)
			}
			if n := w.left.Load(); n != 1 {
				t.Errorf("left %d times", n)
			}
			y.restored(t)
		})
	}
}

// leaver notes with what context it was told that its console ends.
type leaver struct {
	nobody
	err error
	has bool // a bound
}

func (*leaver) Active() {}

func (l *leaver) Leave(ctx context.Context) error {
	_, l.has = ctx.Deadline()
	l.err = ctx.Err()
	return nil
}

// A console that is ended from outside takes leave too, within a bound.
func TestAnEndedConsoleTakesLeave(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var l leaver
	if goodbye(ctx, Options{Client: &l}); l.err != nil || !l.has {
		t.Errorf("told with %v, bounded %t", l.err, l.has)
	}
}

// WHO calls idle who pressed no key for longer than another gateway's word of it
// may be old, however often their console asks.
func TestWhoIsIdle(t *testing.T) {
	for _, tc := range []struct {
		name         string
		active, seen time.Duration
		want         string
	}{
		{"keys just now", time.Second, 0, "ben"},
		{"at another gateway, said twice since", 21 * time.Second, 10 * time.Second, "ben"},
		{"asleep, its console asks", 4 * time.Minute, 0, "ben, idle 4m"},
		{"of a gateway that does not say, asking", -1, 2 * time.Second, "ben"},
		{"of a gateway that does not say, gone", -1, 3 * time.Minute, "ben, idle 3m"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin()
			m := testModel(100, 30)
			s := baseState()
			ben := api.Session{Name: "ben", Instance: "gw-1", LastSeen: ago(tc.seen), Since: ago(time.Hour)}
			if tc.active >= 0 {
				ben.Active = ago(tc.active)
			}
			s.Sessions = []api.Session{ben}
			give(m, s, nil, nil)
			got := strings.TrimSpace(strings.TrimPrefix(m.who(&m.live, m.now, 100).text(), " WHO"))
			got, _, _ = strings.Cut(got, "  ")
			if got != tc.want {
				t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
			}
		})
	}
}

// Names are never cut: this console's is first, and who has no room is counted.
func TestWhoHasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(100, 30)
		s := baseState()
		s.LastWrite = &api.Event{Event: api.KindCommand, By: "longname", Revision: 7, Time: ago(time.Minute)}
		s.Sessions = nil
		for i := range 8 {
			s.Sessions = append(s.Sessions, api.Session{Name: fmt.Sprintf("operator-%d", i), Instance: "gw-1", LastSeen: ago(0), Active: ago(10 * time.Minute), You: i == 5})
		}
		give(m, s, nil, nil)
		for w := 40; w <= 240; w++ {
			got := m.who(&m.live, m.now, w).text()
			named := regexp.MustCompile(`operator-\d`).FindAllString(got, -1)
			more := 0
			if n := regexp.MustCompile(`and (\d+) more`).FindStringSubmatch(got); n != nil {
				more, _ = strconv.Atoi(n[1])
			}
			if !strings.HasPrefix(got, " WHO   operator-5 (you)") || len(named)+more != 8 || strings.Contains(got, "…") || w >= 72 && !strings.Contains(got, "last write rev 7 ") {
				t.Fatalf("%d columns: %q", w, got)
			}
		}
	})
}
