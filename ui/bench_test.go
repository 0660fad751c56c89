package ui

import (
	"strconv"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
)

// crowded is a console with 200 upstreams, 100,000 decisions and as many changes
// as are kept.
func crowded() (*model, api.State) {
	m := testModel(120, 40)
	s := incidentState()
	for i := len(s.Upstreams); i < 200; i++ {
		s.Upstreams = append(s.Upstreams, up("upstream-number-"+strconv.Itoa(i), "region-"+strconv.Itoa(i), true, float64(i)))
	}
	some := decisionsOf("breaker_open")
	ds := make([]api.Decision, 100_000)
	for i := range ds {
		ds[i] = some[i%len(some)]
		ds[i].RequestID = "req-" + strconv.Itoa(len(ds)-i)
	}
	var es []api.Event
	for len(es) < maxChanges {
		for _, e := range incidentEvents() {
			e.Seq = uint64(len(es) + 1)
			es = append(es, e)
		}
	}
	give(m, s, es, ds)
	return m, s
}

// benchScreens leads to each screen and each thing that can be open over one.
var benchScreens = []struct {
	name string
	make func(m *model)
}{
	{"overview", func(*model) {}},
	{"filtered", func(m *model) { keys(m, "/", "o", "p", "e", "n", "enter") }},
	{"typing", func(m *model) { keys(m, "/", "o", "p", "e", "n") }},
	{"detail", func(m *model) { keys(m, "enter") }},
	{"failback", func(m *model) { keys(m, "b") }},
	{"decisions", func(m *model) { keys(m, "d") }},
	{"decisions-held", func(m *model) { keys(m, "d", "j", "j") }},
	{"decisions-filtered", func(m *model) {
		keys(m, "d")
		m.lists[decisions].filter = "99"
		for cmd := m.searchBeside(); cmd != nil; cmd = m.searchBeside() {
			m.Update(cmd())
		}
	}},
	{"decision", func(m *model) { keys(m, "d", "j", "enter") }},
	{"logs", func(m *model) { keys(m, "l") }},
	{"logs-answer", func(m *model) {
		m.ask.logs = &fakeLoki{make: eventful}
		keys(m, "l")
		runKeys(m, "j", "j", "enter")
	}},
	{"runbook", func(m *model) { keys(m, "1", "j") }},
	{"changes", func(m *model) { keys(m, "e") }},
	{"changes-filtered", func(m *model) { keys(m, "e", "/", "o", "p", "e", "n", "enter") }},
	{"incident", func(m *model) { keys(m, "i"); giveIncident(m, theIncident()) }},
	{"map", func(m *model) { keys(m, "m") }},
	{"queue", func(m *model) { keys(m, "w") }},
	{"money", func(m *model) { keys(m, "$") }},
	{"help", func(m *model) { keys(m, "?") }},
	{"ownlog", func(m *model) { keys(m, "!") }},
	{"dialog", func(m *model) { keys(m, "W", ">") }},
	{"frozen", func(m *model) { keys(m, "f") }},
}

// BenchmarkUpdateView is what a console does each second, and with each key:
// take an answer and draw. To reach: 4 ms with 200 upstreams and 100,000
// decisions, on each screen.
func BenchmarkUpdateView(b *testing.B) {
	for _, screen := range benchScreens {
		b.Run(screen.name, func(b *testing.B) {
			m, s := crowded()
			screen.make(m)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				now := time.Now()
				s.At = now
				gen := ask(&m.live.state, now)
				m.Update(stateMsg{Gen: gen, Clock: sources.Clock{Sent: now, Received: now, At: now}, Value: &s})
				_ = m.View()
			}
		})
	}
	// 411 requests a second, of which each answer brings the newest 500.
	for _, filter := range []string{"", "99"} {
		b.Run("answer"+filter, func(b *testing.B) {
			m, _ := crowded()
			m.enter(decisions)
			m.lists[decisions].filter = filter
			for cmd := m.searchBeside(); cmd != nil; cmd = m.searchBeside() {
				m.Update(cmd())
			}
			some := decisionsOf("breaker_open")
			ds := make([]api.Decision, 500)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				n += 411
				for i := range ds {
					ds[i] = some[i%len(some)]
					ds[i].RequestID = "new-" + strconv.Itoa(n+len(ds)-i)
				}
				now := time.Now()
				gen := ask(&m.live.decisions, now)
				b.StartTimer()
				m.Update(decisionsMsg{Gen: gen, Clock: sources.Clock{Sent: now, Received: now, At: now}, Value: &api.Decisions{Decisions: ds, At: now}})
				_ = m.View()
			}
		})
	}
	b.Run("key", func(b *testing.B) {
		m, _ := crowded()
		down, upwards := press("j"), press("k")
		b.ReportAllocs()
		for b.Loop() {
			for _, k := range []tea.KeyPressMsg{down, upwards} {
				m.Update(k)
				_ = m.View()
			}
		}
	})
	// A filter over all that is held: each character, and the search beside it
	// until the last decision is searched.
	for _, whole := range []bool{false, true} {
		name := "filter-key"
		if whole {
			name = "filter-searched"
		}
		b.Run(name, func(b *testing.B) {
			m, _ := crowded()
			keys(m, "d", "/")
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				k := press("9")
				if n++; n%2 == 0 {
					k = press("backspace")
				}
				m.Update(k)
				_ = m.View()
				if !whole {
					continue
				}
				for cmd := m.searchBeside(); cmd != nil || m.search.running; cmd = m.searchBeside() {
					if cmd == nil {
						m.search.running = false
						continue
					}
					m.Update(cmd())
				}
				_ = m.View()
			}
		})
	}
}
