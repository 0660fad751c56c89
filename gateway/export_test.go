package gateway

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"failback/gateway/decision"
	"failback/gateway/health/probe"
	"failback/gateway/operator"
	"failback/gateway/operator/api"
	"failback/gateway/traffic"
)

// StartAlone is Start without serving operators, whose socket is a real one: a
// goroutine that waits on it would hold a test's time still.
func (g *Gateway) StartAlone(ctx context.Context) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	cfg, err := g.o.Load(ctx)
	if err != nil {
		return err
	}
	g.startedWith = cfg
	if err := os.MkdirAll(cfg.DataDir, 0o750); err != nil {
		return err
	}
	if err := g.claim(cfg); err != nil {
		return err
	}
	if err := g.openRooms(cfg); err != nil {
		return err
	}
	serve, err := g.listenClients(cfg)
	if err != nil {
		return err
	}
	g.running.Go(serve)
	g.run(g.breakers.Run)
	return nil
}

// StartWithCare is StartAlone with all that watches over the upstreams, which
// speaks over DialContext alone. The share table is kept in storage.
func (g *Gateway) StartWithCare(ctx context.Context, storage traffic.Storage) error {
	g.storage = storage
	g.started = time.Now()
	if err := g.StartAlone(ctx); err != nil {
		return err
	}
	g.startCare()
	return nil
}

// ServeClient answers r as the client listener does.
func (g *Gateway) ServeClient(w http.ResponseWriter, r *http.Request) { g.serveClient(w, r) }

// Control is the gateway as its operators command it.
func (g *Gateway) Control() operator.Control { return (*control)(g) }

// Probing reports whether a probe is under way.
func (g *Gateway) Probing() bool {
	return slices.ContainsFunc(g.prober.Snapshot(), func(s probe.Status) bool { return s.Running })
}

// OperatorState is what the operator API tells.
func (g *Gateway) OperatorState() api.State { return (*control)(g).State(api.You{}) }

// Buffered is how many bytes of requests and held answers are reserved.
func (g *Gateway) Buffered() int64 { return g.memory.used.Load() }

// Feed gives the keeper n lines, as events.
func (g *Gateway) Feed(n int) {
	for range n {
		g.lines.Event(decision.Event{Kind: decision.KindProbe, Time: time.Now()})
	}
}

// Unlogged is how many lines the decision log has yet to write.
func (g *Gateway) Unlogged() int { return g.log.Stats().Queued }

// Counted sums what the counter name of /metrics says where its labels have
// all the given values.
func (g *Gateway) Counted(name string, labels map[string]string) float64 {
	families, err := g.registry.Gather()
	if err != nil {
		panic(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			same := 0
			for _, l := range m.GetLabel() {
				if v, ok := labels[l.GetName()]; ok && v == l.GetValue() {
					same++
				}
			}
			if same == len(labels) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// Exposed is what /metrics shows, without the format's comments.
func (g *Gateway) Exposed() string {
	families, err := g.registry.Gather()
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	for _, f := range families {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

// Series are those of /metrics as name{label="value",...}, the labels by their
// names, with _count and _sum for a histogram.
func (g *Gateway) Series() map[string]float64 {
	families, err := g.registry.Gather()
	if err != nil {
		panic(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var l []string
			for _, p := range m.GetLabel() {
				l = append(l, fmt.Sprintf("%s=%q", p.GetName(), p.GetValue()))
			}
			labels := "{" + strings.Join(l, ",") + "}"
			switch {
			case m.GetHistogram() != nil:
				all[f.GetName()+"_count"+labels] = float64(m.GetHistogram().GetSampleCount())
				all[f.GetName()+"_sum"+labels] = m.GetHistogram().GetSampleSum()
			case m.GetGauge() != nil:
				all[f.GetName()+labels] = m.GetGauge().GetValue()
			default:
				all[f.GetName()+labels] = m.GetCounter().GetValue()
			}
		}
	}
	return all
}
