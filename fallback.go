package main

import (
	"context"
	"os"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// ratioTime bounds the wait of `failback status` for Prometheus: the gateway's
// own state is what it is for.
const ratioTime = 5 * time.Second

// fallbackFacts asks the Prometheus that the gateway names what the console
// asks it. That it does not answer is one of the facts.
func fallbackFacts(ctx context.Context, gw sources.Embedded, s *api.State) text.Fallback {
	ctx, cancel := context.WithTimeout(ctx, ratioTime)
	defer cancel()
	metrics, _, _ := sources.Connect(gw, s.Sources, os.LookupEnv) // what is set wrongly is in the answer
	return factsOf(metrics.Overview(ctx, 1), metrics.Addr(), metrics.Period(), s.Limit)
}

// factsOf are the facts of one answer of a Prometheus at addr that takes a
// sample every period, judged as the console does.
func factsOf(a sources.Answer[sources.Overview], addr string, period time.Duration, limit *api.Limit) text.Fallback {
	f := text.Fallback{
		Window: text.Age(sources.Window(period)), Prometheus: addr, Series: text.SeriesUnknown,
		Ratio: text.Fact{State: sources.Unknown.String()}, Traffic: text.Fact{State: sources.Unknown.String()},
	}
	if limit != nil {
		f.Limit = &limit.FallbackRatio
	}
	if a.Err != nil {
		f.Error = sources.Why(a.Err)
		return f
	}
	v := a.Value
	judge := func(r sources.Reading) text.Fact {
		n := sources.Judge(r.Number, a.Clock, a.Clock.Received, period, false)
		fact := text.Fact{State: n.State.String(), Why: r.WhyOf(n)}
		old := "the newest sample is " + text.Age(n.Age) + " old"
		switch {
		case n.State == sources.Value || n.State == sources.Ageing:
			fact.Value = &n.Value
		case n.Dim && fact.Why != "":
			fact.Why += "; " + old
		case n.Dim:
			fact.Why = old
		}
		if !r.At.IsZero() {
			age := n.Age.Seconds()
			fact.At, fact.AgeSeconds = r.At.UTC(), &age
		}
		return fact
	}
	f.Ratio, f.Traffic, f.Warnings, f.Notes = judge(v.Ratio), judge(v.Traffic), v.Warnings, v.Notes
	if skew := a.Clock.Skew(); skew.Abs() > 2*time.Second {
		f.ClockSkewSeconds = skew.Seconds()
	}
	if t := f.Traffic.Value; t != nil && *t == 0 {
		f.Traffic.State, f.Traffic.Value = sources.Idle.String(), nil
	}
	f.Series = text.SeriesPresent
	if v.Ratio.State == api.StateNone {
		f.Series = text.SeriesAbsent
	}
	if f.Limit != nil && f.Ratio.Value != nil {
		over := *f.Ratio.Value > *f.Limit
		f.OverLimit = &over
	}
	return f
}
