package ui

import (
	"context"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
)

// fakeNumbers is a Prometheus that knows what a test set. It does no I/O.
type fakeNumbers struct {
	addr     string
	overview sources.Overview
	history  sources.History
	err      error
	told     api.Source
}

func (f *fakeNumbers) Addr() string          { return f.addr }
func (f *fakeNumbers) Told(s api.Source)     { f.told = s }
func (f *fakeNumbers) Period() time.Duration { return 15 * time.Second }
func (f *fakeNumbers) Window() time.Duration { return 5 * time.Minute }

func (f *fakeNumbers) Overview(_ context.Context, gen uint64) sources.Answer[sources.Overview] {
	return answered(gen, f.overview, f.err)
}

func (f *fakeNumbers) History(_ context.Context, gen uint64, _ *float64) sources.Answer[sources.History] {
	return answered(gen, f.history, f.err)
}

// fakeLines is a Loki that has one line, or none.
type fakeLines struct {
	addr string
	none bool
	err  error
	told api.Source
}

func (f *fakeLines) Addr() string { return f.addr }

func (f *fakeLines) Told(s api.Source) { f.told = s }

func (f *fakeLines) Query(_ context.Context, gen uint64, q sources.LogQuery) sources.Answer[sources.LogAnswer] {
	return answered(gen, f.answer(q), f.err)
}

func (f *fakeLines) answer(q sources.LogQuery) sources.LogAnswer {
	a := sources.LogAnswer{Query: q, Kind: sources.LogLines, SearchedBytes: 1 << 20, Unparsed: -1}
	if !f.none {
		a.Rows = []sources.LogRow{{TS: time.Now().UnixNano(), Line: "{}"}}
	}
	return a
}

func answered[T any](gen uint64, v T, err error) sources.Answer[T] {
	now := time.Now()
	a := sources.Answer[T]{Gen: gen, Clock: sources.Clock{Sent: now, Received: now}}
	if err != nil {
		a.Err = err
		return a
	}
	a.Clock.At, a.Value = now, &v
	return a
}

// kept is what a console asks beside the gateway.
type kept struct {
	*fakeNumbers
	lines *fakeLines
}

// keep connects m, which knows its gateway, with sources beside it.
func keep(m *model, k kept) {
	m.o.Connect = func(api.Sources) (sources.Metrics, sources.Logs, error) { return k.fakeNumbers, k.lines, nil }
	m.ask = asking{epoch: m.ask.epoch}
	if s := m.live.state.Value(); s != nil {
		m.connect(s.Sources)
	} else {
		m.connect(api.Sources{})
	}
	answerKept(m, k)
}

// answerKept answers the questions to the sources.
func answerKept(m *model, k kept) {
	now, ctx := time.Now(), context.Background()
	m.Update(metricsMsg{m.ask.epoch, k.Overview(ctx, ask(&m.live.metrics, now))})
	m.Update(historyMsg{m.ask.epoch, k.History(ctx, ask(&m.live.history, now), nil)})
	m.Update(lokiMsg{m.ask.epoch, k.lines.Query(ctx, ask(&m.live.loki, now), sources.LogQuery{})})
}

func read(v float64) sources.Reading {
	return sources.Reading{Number: api.Number{State: api.StateValue, Value: v, At: sampled()}}
}

func readAs(state, why string) sources.Reading {
	return sources.Reading{Number: api.Number{State: state, At: sampled()}, Why: why}
}

// sampled is when the newest sample was taken.
func sampled() time.Time { return time.Now().Add(-4 * time.Second) }

// sparkOf is a history of one point a minute: a digit is that many times four
// percent, i is idle and a space is none.
func sparkOf(s string) []sources.Point {
	end := time.Now().Truncate(time.Minute)
	points := make([]sources.Point, len(s))
	for i, c := range []byte(s) {
		p := sources.Point{At: end.Add(time.Duration(i-len(s)+1) * time.Minute), State: api.StateValue, Value: float64(c-'0') * 0.04}
		switch c {
		case 'i':
			p.State, p.Value = api.StateIdle, 0
		case ' ':
			p.State, p.Value = api.StateNone, 0
		case '~':
			p.Value = 0.002
		}
		points[i] = p
	}
	return points
}

func calmNumbers() kept {
	return kept{&fakeNumbers{
		overview: sources.Overview{
			Ratio: read(0.002), Traffic: read(449), FailedBefore: read(0.001), FirstOutputP95Before: read(1.1), Sampled: sampled(),
			PerModel:    []sources.RatioRow{{Name: "sonnet", Reading: read(0.002)}},
			PerUpstream: []sources.RatioRow{{Name: "anthropic-eu-west-1", Reading: read(0)}, {Name: "anthropic-us-east-1", Reading: read(0.002)}},
		},
		history: sources.History{Spark: sparkOf("000~~000~~~000~~000~~~~00~~~~~"), Over: sources.Over{State: sources.OverNot}},
	}, &fakeLines{}}
}

func incidentNumbers() kept {
	k := calmNumbers()
	k.overview.Ratio = read(0.381)
	k.overview.PerModel[0].Reading, k.overview.PerUpstream[0].Reading, k.overview.PerUpstream[1].Reading = read(0.381), read(0.951), read(1)
	k.history = sources.History{Spark: sparkOf("00~~0122579999i 99887766899999"), Over: sources.Over{State: sources.OverSince, Since: time.Now().Truncate(time.Minute).Add(-25 * time.Minute)}}
	return k
}
