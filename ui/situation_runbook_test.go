package ui

import (
	"fmt"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// quiet is an incident that is over: breakers closed, shares whole.
func quiet() api.State {
	s := incidentState()
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		u.Share, u.Health = 100, ""
		for j := range u.Breakers {
			u.Breakers[j] = bucket(u.Name, u.Breakers[j].Capability, "closed", time.Minute)
		}
	}
	return s
}

var runbookSituations = []struct {
	name string
	make func(m *model)
}{
	{"runbook", func(m *model) { incident(m); keys(m, "1") }},
	{"runbook-step", func(m *model) { incident(m); keys(m, "1", "j", "x", "j", "x", "j", "j", "j") }},
	{"runbook-failback", func(m *model) { comeback(m); keys(m, "1", "j", "j", "j", "j") }},
	{"runbook-end", func(m *model) { incident(m); keys(m, "1", "G") }},
	{"runbook-over", func(m *model) {
		incident(m)
		keys(m, "1", "j", "x", "j")
		give(m, quiet(), nil, nil)
	}},
	{"runbook-calm", func(m *model) { calm(m); keys(m, "1") }},
	{"runbook-down", func(m *model) { incident(m); keys(m, "1", "j"); silence(m, 12*time.Second, true) }},
	{"runbook-never", func(m *model) { keys(m, "1", "j") }},
	{"runbook-many", func(m *model) { many(m, 200); keys(m, "1", "j", "j") }},
}

func init() { situations = append(situations, runbookSituations...) }

// TestGoldenRunbooks has the situations of this file at each size.
func TestGoldenRunbooks(t *testing.T) {
	for _, s := range runbookSituations {
		for _, size := range []struct{ w, h int }{{80, 24}, {60, 20}, {40, 12}} {
			t.Run(fmt.Sprintf("%s/%dx%d", s.name, size.w, size.h), func(t *testing.T) {
				inSituation(t, s.name, size.w, size.h, func(t *testing.T, m *model) {
					golden(t, fmt.Sprintf("%s/%dx%d.txt", s.name, size.w, size.h), screenOf(m))
				})
			})
		}
	}
	t.Run("ascii", func(t *testing.T) {
		inSituation(t, "runbook-step", 100, 30, func(t *testing.T, m *model) {
			m.th.ascii = true
			m.gl = m.th.glyphs()
			golden(t, "runbook-step/100x30-ascii.txt", screenOf(m))
		})
	})
}
