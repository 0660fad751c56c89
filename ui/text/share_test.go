package text

import (
	"testing"

	"failback/gateway/operator/api"
)

func TestAtZero(t *testing.T) {
	for _, c := range []struct {
		by     string
		passed []int
		want   string
	}{
		{"auto", []int{ProbesAsked, ProbesAsked + 7}, "overflow only"},
		{"auto", []int{ProbesAsked, ProbesAsked - 1}, "gets nothing"},
		{"auto", nil, "gets nothing"},
		{"ana", []int{ProbesAsked}, "gets nothing"},
	} {
		u := &api.Upstream{HealthBy: c.by}
		for _, n := range c.passed {
			u.Probes = append(u.Probes, api.Probe{Passed: n})
		}
		if got := AtZero(u); got != c.want {
			t.Errorf("by %s, passed %v: %q, want %q", c.by, c.passed, got, c.want)
		}
	}
}
