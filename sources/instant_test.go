package sources

import (
	"context"
	"time"
)

// instant is the answer to an instant query, in Prometheus's order.
type instant struct {
	Samples []sample
	// At is when it was evaluated, by Prometheus's clock.
	At       time.Time
	Warnings []string
}

// sample is one series of an instant. A scalar has no labels.
type sample struct {
	Labels map[string]string // text from outside
	Value  float64           // may be NaN or infinite
}

// query asks m an instant query, as each question of an answer is asked.
func query(ctx context.Context, m Metrics, gen uint64, promql string) Answer[instant] {
	p := m.(*prom)
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	clock, _, err := p.begin(ctx)
	if err != nil {
		return Answer[instant]{Gen: gen, Clock: Clock{Sent: clock.Sent, Received: clock.Received}, Err: err}
	}
	v, besides, err := p.instant(ctx, promql, clock.At)
	if err != nil {
		return Answer[instant]{Gen: gen, Clock: Clock{Sent: clock.Sent, Received: time.Now()}, Err: err}
	}
	a := &instant{At: clock.At, Warnings: besides.warnings}
	for _, s := range v {
		labels := make(map[string]string, len(s.Metric))
		for name, value := range s.Metric {
			labels[string(name)] = string(value)
		}
		a.Samples = append(a.Samples, sample{Labels: labels, Value: float64(s.Value)})
	}
	return Answer[instant]{Gen: gen, Clock: clock, Value: a}
}
