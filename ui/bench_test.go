package ui

import (
	"strconv"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
)

// crowded is a console with 200 upstreams and 100,000 decisions.
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
	give(m, s, incidentEvents(), ds)
	return m, s
}

// BenchmarkUpdateView is what a console does each second, and with each key:
// take an answer and draw. To reach: 4 ms with 200 upstreams and 100,000
// decisions.
func BenchmarkUpdateView(b *testing.B) {
	for _, screen := range []string{"overview", "filtered", "decisions", "detail", "dialog"} {
		b.Run(screen, func(b *testing.B) {
			m, s := crowded()
			switch screen {
			case "filtered":
				keys(m, "/", "o", "p", "e", "n", "enter")
			case "decisions":
				m.enter(decisions)
			case "detail":
				keys(m, "enter")
			case "dialog":
				keys(m, "W", ">")
			}
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
}
