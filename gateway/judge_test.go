package gateway

import (
	"testing"

	"failback/gateway/health"
	"failback/gateway/traffic"
)

// What the machine raises and an operator raised further meanwhile stays there.
func TestAnOvertakenMachineDoesNotLower(t *testing.T) {
	for name, c := range map[string]struct {
		from int
		wish health.Wish
	}{
		"out of degraded": {0, health.Wish{Move: health.Recover, To: 5}},
		"the next step":   {5, health.Wish{Move: health.Climb, To: 25}},
	} {
		t.Run(name, func(t *testing.T) {
			g := spending(t, t.TempDir(), "g", newSpentUpstream(t).URL, "", "")
			seen, err := g.traffic.Set(traffic.Command{Upstream: "a", Share: c.from, By: "ana"})
			if err != nil {
				t.Fatal(err)
			}
			in := g.inspect()
			if _, err := g.traffic.Set(traffic.Command{Upstream: "a", Share: traffic.Full, Revision: &seen.Revision, By: "ben", Why: "known", Override: true}); err != nil {
				t.Fatal(err)
			}
			g.act(in, &in.setup.cfg.Upstreams[0], seen, c.wish)
			if s, _ := g.traffic.Get("a"); s.Share != traffic.Full || s.By != "ben" {
				t.Errorf("at %d%% by %s", s.Share, s.By)
			}
		})
	}
}
