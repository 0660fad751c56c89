package spans

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"

	"failback/gateway/decision"
	"failback/gateway/internal/otlptest"
	"failback/gateway/tracecontext"
)

// sampled is a decision of two attempts: the primary failed, another answered.
// It has five spans.
func sampled() *decision.Decision {
	return &decision.Decision{
		Time: time.Now(), RequestID: "req-1", TraceID: tracecontext.NewTraceID(), Span: tracecontext.NewSpanID(), Sampled: true,
		Model: "m", Task: "t", Route: decision.RouteFallback, Status: decision.DegradedCompleted, Reason: "server_error",
		Primary: "a", Selected: "b", Failed: "a", Fallback: true, Duration: 100 * time.Millisecond, HTTPStatus: 200,
		Candidates: []decision.Candidate{{Provider: "a", Primary: true}, {Provider: "b"}},
		Attempts: []decision.Attempt{
			{Provider: "a", Model: "x", Primary: true, Started: time.Millisecond, Span: tracecontext.NewSpanID(), Next: decision.NextSwitch, Why: decision.WhyRepeated,
				Outcome: decision.Outcome{Class: decision.ServerError, Status: 500, Duration: 9 * time.Millisecond}},
			{Provider: "b", Model: "x", Started: 20 * time.Millisecond, Span: tracecontext.NewSpanID(), Next: decision.NextAnswered, Why: "ok",
				Outcome: decision.Outcome{Class: decision.OK, Status: 200, Duration: 70 * time.Millisecond, FirstOutput: 30 * time.Millisecond, HasFirstOutput: true}},
		},
	}
}

const spansOfOne = 5

// start begins an exporter with short times, and sees that it leaves nothing.
func start(t *testing.T, o Options) *Exporter {
	t.Helper()
	before := runtime.NumGoroutine()
	if o.batchEvery == 0 {
		o.batchEvery = time.Millisecond
	}
	e, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = e.Stop(context.Background())
		otlptest.Until(t, "the exporter's goroutines end", func() bool { return runtime.NumGoroutine() <= before })
	})
	return e
}

func protocols(t *testing.T, f func(*testing.T, *otlptest.Collector, Options)) {
	for _, p := range []string{HTTP, GRPC} {
		t.Run(p, func(t *testing.T) {
			c := otlptest.Start(t, p)
			f(t, c, Options{Endpoint: c.Endpoint, Protocol: p, Version: "1.2", Instance: "gw-1", Environment: "TEST"})
		})
	}
}

func TestExported(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=ml")
	protocols(t, func(t *testing.T, c *otlptest.Collector, o Options) {
		e := start(t, o)
		unsampled := sampled()
		unsampled.Sampled = false
		e.Observe(unsampled)
		d := sampled()
		e.Observe(d)
		for _, s := range c.Await(t, spansOfOne) {
			if s.Trace() != d.TraceID || s.Resource["service.name"] != "failback" || s.Resource["service.version"] != "1.2" ||
				s.Resource["service.instance.id"] != "gw-1" || s.Resource["deployment.environment.name"] != "TEST" || s.Resource["team"] != "ml" {
				t.Errorf("%s of trace %s, %v", s.Name, s.Trace(), s.Resource)
			}
		}
		otlptest.Until(t, "the count", func() bool { return e.Stats().Exported == spansOfOne })
		if s := e.Stats(); s.Dropped != 0 || s.Error != "" || s.LastOK.IsZero() || !s.ErrorAt.IsZero() || !s.Configured {
			t.Errorf("%+v", s)
		}
		if got := c.Header("x-tenant"); got != "blue" {
			t.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %q", got)
		}
	})
}

// What is queued at the end is sent.
func TestStopFlushes(t *testing.T) {
	protocols(t, func(t *testing.T, c *otlptest.Collector, o Options) {
		o.batchEvery = time.Hour
		e := start(t, o)
		for range 300 {
			e.Observe(sampled())
		}
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(c.Spans()); n != 300*spansOfOne {
			t.Errorf("%d spans came", n)
		}
		e.Observe(sampled())
		if s := e.Stats(); s.Exported != 300*spansOfOne || s.Dropped != spansOfOne {
			t.Errorf("afterwards %+v", s)
		}
	})
}

// A full batch does not wait for its time, also where those who filled it were
// beside each other and none of them saw just that many.
func TestFullBatchGoesAtOnce(t *testing.T) {
	c := otlptest.Start(t, HTTP)
	e := start(t, Options{Endpoint: c.Endpoint, Protocol: HTTP, batchEvery: time.Hour})
	e.Observe(sampled())
	otlptest.Until(t, "the first one is taken", func() bool { return len(e.queue) == 0 })
	for range batchRoom {
		e.queue <- sampled()
	}
	e.Observe(sampled())
	c.Await(t, batchRoom*spansOfOne)
}

// A collector that is not there, never answers or takes nothing costs spans,
// which are counted, and nobody's time.
func TestCollectorInTrouble(t *testing.T) {
	for _, tt := range []struct {
		name   string
		manner otlptest.Manner
		error  []string
		again  bool
	}{
		{"hangs", otlptest.Hangs, []string{"no answer in time"}, true},
		{"busy", otlptest.Busy, []string{"it answers 503", "it cannot be reached, or takes nothing now"}, true},
		{"refuses", otlptest.Refuses, []string{"it answers 400", "it answers InvalidArgument"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, c *otlptest.Collector, o Options) {
				c.Answers(tt.manner)
				o.tryTime, o.retryTime, o.queueRoom = 50*time.Millisecond, 700*time.Millisecond, 4
				e := start(t, o)
				began := time.Now()
				for range 1000 {
					e.Observe(sampled())
				}
				if d := time.Since(began); d > 20*time.Second {
					t.Errorf("1000 times Observe took %s", d)
				}
				otlptest.Until(t, "all are dropped", func() bool { return e.Stats().Dropped == 1000*spansOfOne })
				s := e.Stats()
				if s.Exported != 0 || !slices.Contains(tt.error, s.Error) || s.ErrorAt.IsZero() || !s.LastOK.IsZero() {
					t.Errorf("%+v", s)
				}
				if tt.again && c.Calls() < 2 {
					t.Error("it was not tried again")
				}
				c.Answers(otlptest.Takes)
				e.Observe(sampled())
				c.Await(t, spansOfOne)
				otlptest.Until(t, "it is well again", func() bool { return e.Stats().Error == "" })
			})
		})
	}
}

func TestPartialSuccess(t *testing.T) {
	protocols(t, func(t *testing.T, c *otlptest.Collector, o Options) {
		c.Answers(otlptest.Rejects)
		e := start(t, o)
		e.Observe(sampled())
		c.Await(t, spansOfOne-1)
		otlptest.Until(t, "the count", func() bool { return e.Stats().Exported == spansOfOne-1 })
		if s := e.Stats(); s.Dropped != 1 || s.Error != "it rejected 1 spans of a batch" {
			t.Errorf("%+v", s)
		}
		if c.Calls() != 1 {
			t.Error("what was taken was sent again")
		}
	})
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := &url.URL{Scheme: "http", Host: l.Addr().String()}
	_ = l.Close()
	for _, p := range []string{HTTP, GRPC} {
		t.Run(p, func(t *testing.T) {
			e := start(t, Options{Endpoint: nobody, Protocol: p, retryTime: 600 * time.Millisecond})
			e.Observe(sampled())
			otlptest.Until(t, "a failure", func() bool { return e.Stats().Error != "" })
			began := time.Now()
			if err := e.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "5 spans were lost") || strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("Stop: %v", err)
			}
			if d := time.Since(began); d > flushTime+time.Second {
				t.Errorf("Stop took %s", d)
			}
			otel.Handle(errors.New("what a library has to say"))
			grpclog.Error("what another one has")
			if s := e.Stats(); s.Dropped != spansOfOne || strings.Contains(s.Error, "127.0.0.1") {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Nothing of all that is written to the process's standard error, which may be a
// terminal, or the log of somebody else.
func TestSilent(t *testing.T) {
	var said bytes.Buffer
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNobodyListens$")
	c.Stderr = &said
	if out, err := c.Output(); err != nil || said.Len() > 0 {
		t.Errorf("%v, standard error got %q; %s", err, said.String(), out)
	}
}

// A collector that hangs keeps nobody from ending.
func TestStopIsBounded(t *testing.T) {
	protocols(t, func(t *testing.T, c *otlptest.Collector, o Options) {
		c.Answers(otlptest.Hangs)
		e := start(t, o)
		e.Observe(sampled())
		otlptest.Until(t, "a call", func() bool { return c.Calls() > 0 })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := e.Stop(ctx); err == nil || e.Stats().Dropped != spansOfOne {
			t.Errorf("%v, %+v", err, e.Stats())
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("it took %s", d)
		}
	})
}

func TestWhereTo(t *testing.T) {
	for in, want := range map[string]string{"": "/v1/traces", "/": "/v1/traces", "/otlp": "/otlp/v1/traces", "/otlp/": "/otlp/v1/traces", "/x/v1/traces": "/x/v1/traces"} {
		c := otlptest.Start(t, HTTP)
		to := *c.Endpoint
		to.Path = in
		e := start(t, Options{Endpoint: &to, Protocol: HTTP})
		e.Observe(sampled())
		c.Await(t, spansOfOne)
		if got := c.Header(":path"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	secure := &url.URL{Scheme: "https", Host: "collector.test"}
	if _, err := New(t.Context(), Options{Endpoint: secure, Protocol: "udp"}); err == nil {
		t.Error("a protocol that is none")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", t.TempDir()+"/none.pem")
	if _, err := New(t.Context(), Options{Endpoint: secure, Protocol: HTTP}); err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_CERTIFICATE") {
		t.Errorf("a certificate that is not there: %v", err)
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, tt := range []struct {
		name    string
		sampled bool
	}{{"sampled", true}, {"unsampled", false}} {
		b.Run(tt.name, func(b *testing.B) {
			c := otlptest.Start(b, HTTP)
			e, err := New(b.Context(), Options{Endpoint: c.Endpoint, Protocol: HTTP})
			if err != nil {
				b.Fatal(err)
			}
			c.Answers(otlptest.Refuses)
			d := sampled()
			d.Sampled = tt.sampled
			b.ReportAllocs()
			for b.Loop() {
				e.Observe(d)
			}
			b.StopTimer()
			_ = e.Stop(b.Context())
		})
	}
}

func BenchmarkRender(b *testing.B) {
	d := sampled()
	b.ReportAllocs()
	for b.Loop() {
		render(nil, d)
	}
}
