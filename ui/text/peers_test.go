package text

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// A gateway that says nothing any more is a notice, and the status names all.
func TestStatusShowsTheGateways(t *testing.T) {
	s := &api.State{At: now, Store: api.Store{Kind: "nats"}, Gateways: []api.Peer{
		{Instance: "gw-1", LastSeen: now, Answers: true, You: true},
		{Instance: "gw-2", LastSeen: now.Add(-9 * time.Second), Answers: true},
		{Instance: "gw-3\x1b[2J", LastSeen: now.Add(-45 * time.Second)},
	}}
	got := Status(s)
	for _, want := range []string{"gateways     3: gw-1 (this one), gw-2, gw-3", "SILENT for 45s", "SILENT", "has said nothing for 45s"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Error("an instance's name reaches the terminal raw")
	}
	s.Gateways = nil
	if got := Status(s); strings.Contains(got, "gateways") || strings.Contains(got, "SILENT") {
		t.Errorf("a store of its own:\n%s", got)
	}
	s.Gateways = []api.Peer{{Instance: "gw-1", Answers: true, You: true}}
	if ns := Notices(s, now); len(ns) != 0 {
		t.Errorf("all answer: %v", ns)
	}
}
