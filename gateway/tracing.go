package gateway

import (
	"context"
	"fmt"

	"failback/gateway/config"
	"failback/gateway/operator/api"
	"failback/gateway/telemetry/spans"
	"failback/gateway/tracecontext"
)

// openSpans begins to export traces, if the configuration says where to.
func (g *Gateway) openSpans(cfg *config.Config) error {
	o := cfg.Telemetry.OTLP
	if o == nil {
		return nil
	}
	e, err := spans.New(g.ctx, spans.Options{
		Endpoint: o.Endpoint, Protocol: o.Protocol,
		Version: g.o.Version, Instance: g.instance, Environment: cfg.Environment,
	})
	if err != nil {
		return fmt.Errorf("telemetry.otlp: %w", err)
	}
	g.spans, g.traced = e, o.Sample
	g.onStop(func(ctx context.Context) error {
		// A collector that is gone loses spans, which is said; it fails nothing.
		if err := e.Stop(ctx); err != nil {
			g.o.Log(err.Error())
		}
		return nil
	})
	return nil
}

// traces is how the export of traces is doing.
func (g *Gateway) traces() api.Traces {
	if g.spans == nil {
		return api.Traces{}
	}
	return g.spans.Stats()
}

// place finds the request's place in a trace. Where the gateway makes no spans
// the client's trace passes through; else the request gets a span of its own,
// and a trace where it came without one.
func (x *exchange) place() {
	parent, ok := tracecontext.Of(x.r.Header)
	if x.g.spans != nil {
		sampled := parent.Sampled()
		if !ok {
			parent.TraceID, parent.Flags = tracecontext.NewTraceID(), tracecontext.Random
			sampled = tracecontext.Chosen(parent.TraceID, x.g.traced)
		}
		if sampled {
			parent.Flags |= tracecontext.Sampled
		}
		x.d.Span, x.d.ParentSpan, x.d.Sampled = tracecontext.NewSpanID(), parent.Span, sampled
	}
	x.d.TraceID, x.parent = parent.TraceID, parent
}
