package ui

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
)

// rowsAt are n lines of a millisecond each, from a time on.
func rowsAt(at time.Time, from, n int) (rows []sources.LogRow) {
	for i := range n {
		rows = append(rows, sources.LogRow{TS: at.Add(time.Duration(from+i) * time.Millisecond).UnixNano(), Line: fmt.Sprintf("line %d", from+i)})
	}
	return rows
}

// told is news as they come to the screen.
func told(m *model, n sources.TailNews) tailMsg {
	msg := tailMsg{gen: m.logs.tail.gen, state: n.State}
	for i := range n.Rows {
		msg.rows = append(msg.rows, tailRow{n.Rows[i], drawn(&n.Rows[i])})
	}
	return msg
}

func TestLQL05TailOnTheScreen(t *testing.T) {
	f := &fakeLoki{make: eventful}
	onLogs(t, f, func(m *model) {
		begun := time.Now()
		live := sources.TailState{Mode: sources.TailLive}
		f.tail = []sources.TailNews{{Rows: rowsAt(begun, 0, 3), State: live}}
		runKeys(m, "j", "j")
		shows(t, m, "T tail")
		msg := tailNews(m, keys(m, "T")[0])
		shows(t, m, "tail: connecting", "no line yet")
		m.Update(msg)
		shows(t, m, "tail: live", "line 2", "3 lines")
		for _, c := range []struct {
			state sources.TailState
			want  string
		}{
			{sources.TailState{Mode: sources.TailPolling, Why: "1011: max concurrent tail requests limit exceeded"}, "tail: polling every 2s: 1011: max concurrent tail requests limit exceeded"},
			{sources.TailState{Mode: sources.TailPolling, Why: "502 bad gateway"}, "tail: polling every 2s: 502 bad gateway"},
			{sources.TailState{Mode: sources.TailReconnecting, Why: "the connection broke", Dropped: 7}, "tail: reconnecting: the connection broke; the server left out 7 lines"},
			{live, "tail: live"},
		} {
			m.Update(told(m, sources.TailNews{State: c.state}))
			shows(t, m, c.want, "line 2")
		}

		// The newest is first and the cursor stays with it, or on its line.
		m.Update(told(m, sources.TailNews{Rows: rowsAt(begun, 3, 2), State: live}))
		if got := m.rowText(); !strings.HasSuffix(got, "line 4") {
			t.Errorf("the cursor is on %q", got)
		}
		keys(m, "j", "j")
		m.Update(told(m, sources.TailNews{Rows: rowsAt(begun, 5, 9), State: live}))
		if got := m.rowText(); !strings.HasSuffix(got, "line 2") {
			t.Errorf("the cursor went to %q", got)
		}
		// A late line is where its time is.
		m.Update(told(m, sources.TailNews{Rows: []sources.LogRow{{TS: begun.Add(2500 * time.Microsecond).UnixNano(), Line: "late"}}, State: live}))
		keys(m, "k")
		if got := m.rowText(); !strings.HasSuffix(got, "late") {
			t.Errorf("above it is %q", got)
		}

		// Frozen, nothing moves; afterwards all is there.
		keys(m, "f")
		m.Update(told(m, sources.TailNews{Rows: rowsAt(begun, 50, 1), State: live}))
		lacks(t, m, "line 50")
		keys(m, "f", "g")
		m.Update(tickMsg{})
		shows(t, m, "line 50")

		// T ends it, what is there stays, and what is told afterwards is nothing.
		late := told(m, sources.TailNews{Rows: rowsAt(begun, 60, 1), State: live})
		ended := tailEndedMsg{m.logs.tail.gen, context.Canceled}
		keys(m, "T")
		m.Update(late)
		m.Update(ended)
		lacks(t, m, "tail:", "line 60", "NO ANSWER")
		shows(t, m, "line 50")

		// The end of a tail by the server says why.
		f.tail = nil
		keys(m, "T")
		m.Update(tailEndedMsg{m.logs.tail.gen, refused("parse error at line 1, col 2: syntax error")})
		shows(t, m, "REFUSED: parse error at line 1, col 2")
		// The same is not followed again.
		keys(m, "T")
		shows(t, m, "T is off: this query was refused: a types another")
		// Numbers are not followed.
		runKeys(m, "esc", "j")
		keys(m, "T")
		shows(t, m, "T is off: numbers cannot be followed")
	})
}

// What came too fast to be shown is counted: in the buffer, and while the screen is
// frozen. What is told of a tail that ended is not taken for the next one's.
func TestATailCountsWhatNobodySaw(t *testing.T) {
	b := newTailBuffer(3)
	b.put(sources.TailNews{Rows: rowsAt(time.Now(), 0, 5)})
	b.put(sources.TailNews{Rows: rowsAt(time.Now(), 5, 1)})
	if rows, _, skipped := b.take(); len(rows) != 3 || rows[2].Line != "line 5" || skipped != 3 {
		t.Errorf("%d rows, %d skipped", len(rows), skipped)
	}
	onLogs(t, &fakeLoki{make: eventful}, func(m *model) {
		live := sources.TailState{Mode: sources.TailLive}
		runKeys(m, "j", "j")
		keys(m, "T")
		late, ended := told(m, sources.TailNews{Rows: rowsAt(time.Now(), 60, 1), State: live}), tailEndedMsg{m.logs.tail.gen, refused("of before")}
		keys(m, "T")
		keys(m, "T")
		m.Update(late)
		m.Update(ended)
		if m.logs.tail == nil {
			t.Fatal("the end of another tail ended this one")
		}
		shows(t, m, "tail: connecting")
		lacks(t, m, "line 60", "of before")
		limit := m.logs.asked.q.Limit
		keys(m, "f")
		m.Update(told(m, sources.TailNews{Rows: rowsAt(time.Now(), 0, limit+4), State: live}))
		keys(m, "f")
		m.Update(tickMsg{})
		shows(t, m, "4 came too fast to be shown")
	})
}

// What waits for a tail and what reads it end with it.
func TestATailEnds(t *testing.T) {
	onLogs(t, &fakeLoki{make: eventful}, func(m *model) {
		done := make(chan tea.Msg, 2)
		for _, c := range keys(m, "j", "j", "T")[2]().(tea.BatchMsg) {
			go func() { done <- c() }()
		}
		synctest.Wait()
		runKeys(m, "r") // another question ends it
		synctest.Wait()
		for range 2 {
			select {
			case msg := <-done:
				if e, ok := msg.(tailEndedMsg); ok && !errors.Is(e.err, context.Canceled) {
					t.Errorf("ended with %v", e.err)
				}
			default:
				t.Fatal("something goes on")
			}
		}
	})
}

// Lines of a Loki that is asked no more are followed no more, and it is said;
// what another source of numbers is called does not matter.
func TestATailEndsWithItsSource(t *testing.T) {
	loki := &fakeLoki{make: eventful}
	onLogs(t, loki, func(m *model) {
		m.o.Connect = func(api.Sources) (sources.Metrics, sources.Logs, error) { return &fakeNumbers{}, loki, nil }
		s := m.live.state.Value().Sources
		m.connect(s)
		keys(m, "j", "j", "T")
		follows := m.logs.tail
		s.Prometheus.URL = "https://numbers.example"
		m.connect(s)
		if m.logs.tail != follows || follows.ctx.Err() != nil {
			t.Fatal("another source of numbers ended the tail")
		}
		s.Loki.URL = "https://lines.example"
		m.connect(s)
		if m.logs.tail != nil || follows.ctx.Err() == nil {
			t.Error("the tail of a source that is asked no more goes on")
		}
		shows(t, m, "T follows it there")
		keys(m, "T")
		if m.logs.tail == nil {
			t.Error("T does not follow the new source")
		}
	})
}

func TestLQL02PagesOnTheScreen(t *testing.T) {
	f := &fakeLoki{}
	onLogs(t, f, func(m *model) {
		begun := time.Now()
		marks := []*sources.LogMark{new(sources.LogMark), new(sources.LogMark), nil}
		f.make = func(a *sources.LogAnswer) {
			n := len(f.asked) - 1
			a.Rows = rowsAt(begun, 10*n, 10)
			a.More = marks[n]
			a.CutOff = a.More != nil
		}
		runKeys(m, "j", "j", "enter")
		shows(t, m, "first 10 only", "1 of 10")
		runKeys(m, "G")
		if len(f.asked) != 2 || f.asked[1].From != marks[0] || f.asked[1].Query != f.asked[0].Query || !f.asked[1].End.Equal(f.asked[0].End) {
			t.Fatalf("asked %+v", f.asked)
		}
		shows(t, m, "10 of 20", "line 9", "line 10", "first 20 only")
		// A page that does not come leaves what is there.
		f.err = errors.New("503: too many outstanding requests")
		runKeys(m, "G")
		shows(t, m, "the next page did not come: 503: too many outstanding requests", "line 19")
		f.err, f.asked = nil, f.asked[:2]
		runKeys(m, "j")
		shows(t, m, "20 of 30", "30 lines")
		lacks(t, m, "first ", "j asks for the next")
		runKeys(m, "G", "j")
		if len(f.asked) != 3 || len(m.logs.shown.rows) != 30 {
			t.Errorf("asked %d times, %d lines", len(f.asked), len(m.logs.shown.rows))
		}
		// Within the page nothing is asked.
		runKeys(m, "g", "j", "ctrl+d")
		if len(f.asked) != 3 {
			t.Error("a move within the page asks")
		}
	})
}

func TestLQL09RangeOnTheScreen(t *testing.T) {
	york, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Skip("requires the time zone database")
	}
	f := &fakeLoki{make: eventful}
	onLogs(t, f, func(m *model) { // it is 2000-01-01
		m.zone = york
		runKeys(m, "j", "j", "enter")
		typed := func(s string) {
			keys(m, "R", "ctrl+u")
			runKeys(m, typedKeys(s)...)
		}
		keys(m, "R")
		shows(t, m, "RANGE in EST (UTC-05:00), Z for UTC: 1999-12-31 22:57 to 1999-12-31 23:12")
		keys(m, "esc")
		for _, c := range []struct{ typed, from, to, says string }{
			{"1999-04-04 02:30 to 1999-10-31 01:30", "1999-04-04T07:30:00Z", "1999-10-31T05:30:00Z", "1999-04-04 02:30 does not exist"},
			{"1999-10-31 01:30 to 1999-11-01", "1999-10-31T05:30:00Z", "1999-11-01T05:00:00Z", "1999-10-31 01:30 comes twice"},
			{"14:00 to 14:30", "1999-12-31T19:00:00Z", "1999-12-31T19:30:00Z", "from 1999-12-31 14:00:00 EST (UTC-05:00)"},
			{"1999-12-31 14:00Z to 1999-12-31 14:30", "1999-12-31T14:00:00Z", "1999-12-31T19:30:00Z", "14:00:00Z to 19:30:00Z UTC"},
			{"1999-12-31 14:00Z to 1999-12-31 14:30+01:00", "", "", "ends 1999-12-31 13:30:00Z, before it begins"},
		} {
			n := len(f.asked)
			typed(c.typed)
			shows(t, m, c.says)
			if c.from == "" {
				if len(f.asked) != n || !m.logs.typing {
					t.Errorf("%s: was taken", c.typed)
				}
				keys(m, "esc")
				continue
			}
			q := f.asked[len(f.asked)-1]
			if from, to := q.Start.UTC().Format(time.RFC3339), q.End.UTC().Format(time.RFC3339); len(f.asked) != n+1 || from != c.from || to != c.to {
				t.Errorf("%s: asked from %s to %s", c.typed, from, to)
			}
		}
		typed("-2h")
		if q := f.asked[len(f.asked)-1]; q.End.Sub(q.Start) != 2*time.Hour {
			t.Errorf("-2h: asked %s", q.End.Sub(q.Start))
		}
		typed("tomorrow")
		shows(t, m, "from when? 2006-01-02 15:04")
		keys(m, "esc")
		// A key of the ranges lets go of it.
		runKeys(m, "[")
		if q := f.asked[len(f.asked)-1]; q.End.Sub(q.Start) != time.Hour {
			t.Errorf("[: asked %s", q.End.Sub(q.Start))
		}
	})
}

// 200 lines a second of 2 KB for ten minutes: what is kept has a bound, read or
// not.
func TestTUI20TailMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	line := strings.Repeat("x", 2048)
	batch := func(n, of int) []sources.LogRow {
		rows := rowsAt(time.Unix(1e9, 0), n*of, of)
		for i := range rows {
			rows[i].Line = fmt.Sprintf("%d %s", n, line)
		}
		return rows
	}
	before := heap()
	b := newTailBuffer(sources.MaxLogsLimit)
	for n := range 600 {
		b.put(sources.TailNews{Rows: batch(n, 200)})
	}
	if rows, _, skipped := b.take(); len(rows) > sources.MaxLogsLimit || len(rows)*2048 > tailBytes || uint64(len(rows))+skipped != 600*200 {
		t.Errorf("%d rows, %d skipped", len(rows), skipped)
	}
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(100, 30)
		withLoki(m, &fakeLoki{})
		m.logs.limit = sources.MaxLogsLimit
		keys(m, "l", "j", "j", "T")
		var half uint64
		for n := range 600 {
			m.Update(told(m, sources.TailNews{Rows: batch(n, 200), State: sources.TailState{Mode: sources.TailLive}}))
			if n == 300 {
				_ = m.View()
				half = heap()
			}
		}
		shows(t, m, "older ones have left")
		if n := len(m.logs.shown.rows); n > sources.MaxLogsLimit {
			t.Errorf("%d rows", n)
		}
		end := heap()
		if grown := int64(end) - int64(half); grown > 8<<20 || int64(end)-int64(before) > 150<<20 {
			t.Errorf("the heap has %d MB, %d MB at half of the time, %d MB before", end>>20, half>>20, before>>20)
		}
		m.endTail()
	})
}
