package sources

import (
	"context"

	"github.com/prometheus/common/model"
)

// query asks m a question of its own, the way each of an Overview is asked.
func query(ctx context.Context, m Metrics, promql string) (model.Vector, said, error) {
	p := m.(*prom)
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	clock, _, err := p.begin(ctx)
	if err != nil {
		return nil, said{}, err
	}
	return p.instant(ctx, promql, clock.At)
}

// asks is whether it could.
func asks(ctx context.Context, m Metrics, promql string) error {
	_, _, err := query(ctx, m, promql)
	return err
}
