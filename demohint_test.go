package main

import (
	"testing"

	"failback/gateway/demo"
	"failback/gateway/operator/api"
)

// What the demo asks for is what the gateway allows now.
func TestTheDemoAsksForWhatIsAllowed(t *testing.T) {
	for _, tt := range []struct {
		what string
		s    api.State
		want demo.Standing
	}{
		{"may go on", api.State{Upstreams: []api.Upstream{{Name: "b"}, {Name: demo.East, Share: 75, NextStep: api.NextStep{Share: 100}}}}, demo.Away},
		{"tripped", api.State{Upstreams: []api.Upstream{{Name: demo.East, Share: 75, NextStep: api.NextStep{Share: 100, BlockedBy: "breaker stream is open"}}}}, demo.Held},
		{"back", api.State{Upstreams: []api.Upstream{{Name: demo.East, Share: 100}}, Incidents: []api.IncidentHead{{ID: "1"}}}, demo.Back},
		{"over", api.State{Upstreams: []api.Upstream{{Name: demo.East, Share: 100}}}, demo.Over},
	} {
		if got := demoStanding(&tt.s); got != tt.want {
			t.Errorf("%s: %d", tt.what, got)
		}
	}
}
