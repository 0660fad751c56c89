package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/internal/otlptest"
	"failback/gateway/operator/api"
	"failback/gateway/tracecontext"
)

// traced is a gateway on two upstreams, a and b, that exports to a collector.
type traced struct {
	*testing.T
	*otlptest.Collector
	gw    *gateway.Gateway
	base  string
	lines *lines
	dir   string

	mu   sync.Mutex // guards everything that follows
	a, b http.HandlerFunc
	saw  []http.Header // by the upstreams, in order
}

// startTraced serves with otlp as the value of telemetry.otlp, ENDPOINT in it
// being the collector's; empty: no traces.
func startTraced(t *testing.T, protocol, otlp string) *traced {
	t.Helper()
	x := &traced{T: t, Collector: otlptest.Start(t, protocol), lines: &lines{}, dir: t.TempDir(), a: whole, b: whole}
	stub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		x.mu.Lock()
		x.saw = append(x.saw, r.Header)
		h := x.a
		if strings.HasPrefix(r.URL.Path, "/b/") {
			h = x.b
		}
		x.mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(stub.Close)
	telemetry := "telemetry: {}\n"
	if otlp != "" {
		telemetry = "telemetry: {otlp: " + strings.ReplaceAll(otlp, "ENDPOINT", x.Endpoint.String()) + "}\n"
	}
	yaml := fmt.Sprintf("listen: 127.0.0.1:0\ndata_dir: %q\ndrain_delay: 0s\nenvironment: TEST\n%sretry: {base: 1ms, cap: 1ms}\nupstreams:\n  a: {dialect: openai, base_url: \"%s/a/v1\", api_key: CANARY-KEY}\n  b: {dialect: openai, base_url: \"%s/b/v1\", api_key: CANARY-KEY}\nmodels: {m: {candidates: [{upstream: a, model: x}, {upstream: b, model: y, weight: 1}]}}\ntasks: {alone: {fallback: never}, free: {fallback: any}}\n",
		x.dir, telemetry, stub.URL, stub.URL)
	x.gw = gateway.New(gateway.Options{Version: "1.2", Instance: "gw-1", Stdout: x.lines, Load: func(ctx context.Context) (*config.Config, error) {
		return config.Load(ctx, config.Source{Data: []byte(yaml)})
	}})
	if err := x.gw.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.stop)
	x.base = "http://" + x.gw.ClientAddr() + chatPath
	return x
}

func (x *traced) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := x.gw.Stop(ctx); err != nil {
		x.Error(err)
	}
}

// upstreams sets what they do from now on and forgets what they saw.
func (x *traced) upstreams(a, b http.HandlerFunc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.a, x.b, x.saw = a, b, nil
}

func (x *traced) heard() []http.Header {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.saw
}

// logged is the decision of the request with that id as the log has it.
func (x *traced) logged(id string) (d api.Decision) {
	x.Helper()
	otlptest.Until(x, "the line of "+id, func() bool {
		for l := range strings.Lines(x.lines.String()) {
			d = api.Decision{}
			if strings.HasSuffix(l, "\n") && json.Unmarshal([]byte(l), &d) == nil && d.RequestID == id {
				return true
			}
		}
		return false
	})
	return d
}

// of are the spans of one trace, as soon as there are n of them.
func (x *traced) of(trace string, n int) (l []otlptest.Span) {
	x.Helper()
	otlptest.Until(x, fmt.Sprintf("%d spans of %s", n, trace), func() bool {
		l = nil
		for _, s := range x.Spans() {
			if s.Trace() == trace {
				l = append(l, s)
			}
		}
		return len(l) >= n
	})
	return l
}

func names(l []otlptest.Span) string {
	var s []string
	for _, v := range l {
		s = append(s, v.Name)
	}
	return strings.Join(s, " ")
}

func whole(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, plainAnswer)
}

func fault503(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `{"error":{"message":"CANARY prose","type":"server_error","code":null}}`)
}

// half is a stream that ends after its first output.
func half(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"CANARY half\"},\"finish_reason\":null}]}\n\n")
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// A request's spans, its decision in log and operator API, and what its
// upstreams are told are one trace, over both protocols.
func TestTraces(t *testing.T) {
	for _, protocol := range []string{"http", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			x := startTraced(t, protocol, "{endpoint: ENDPOINT, protocol: "+protocol+"}")
			ask := func(id, body string, headers ...string) api.Decision {
				ask(x, body, append([]string{"X-Request-Id", id}, headers...)...)
				return x.logged(id)
			}

			d := ask("plain", chatBody, "Idempotency-Key", "op-1")
			l := x.of(d.TraceID, 3)
			if names(l) != "ai.workflow model.primary response.parser" || l[0].Parent() != "" || l[1].Parent() != l[0].ID() || l[2].Parent() != l[0].ID() {
				t.Errorf("a plain answer: %s", names(l))
			}
			if a := l[0].Attrs; a["ai.request_id"] != "plain" || a["ai.operation_id"] != "op-1" || a["ai.route"] != "primary" || a["ai.provider"] != "a" ||
				a["ai.fallback_triggered"] != "false" || a["ai.fallback_allowed"] != "true" || a["ai.workflow_status"] != "completed" || a["ai.task_type"] != "unnamed" {
				t.Errorf("%v", a)
			}
			if r := l[0].Resource; r["service.instance.id"] != "gw-1" || r["service.version"] != "1.2" || r["deployment.environment.name"] != "TEST" {
				t.Errorf("%v", r)
			}
			if want := "00-" + d.TraceID + "-" + l[1].ID() + "-03"; x.heard()[0].Get("Traceparent") != want || d.Attempts[0].SpanID != l[1].ID() {
				t.Errorf("the upstream was told %v, want %s; the log says %s", x.heard()[0], want, d.Attempts[0].SpanID)
			}
			if shown := x.shown("plain"); shown.TraceID != d.TraceID || shown.Attempts[0].SpanID != l[1].ID() || shown.Attempts[0].Next != "answered" {
				t.Errorf("the operator API has trace %s", shown.TraceID)
			}

			x.upstreams(fault503, whole)
			d = ask("failover", chatBody)
			l = x.of(d.TraceID, 5)
			if names(l) != "ai.workflow model.primary failover.policy model.fallback response.parser" {
				t.Errorf("a failover: %s", names(l))
			}
			if l[1].Status.GetMessage() != "overloaded" || l[1].Attrs["ai.error_class"] != "overloaded" || l[2].Attrs["ai.why"] != "overloaded" || l[2].Attrs["ai.next"] != "switch" ||
				l[3].Attrs["ai.provider"] != "b" || l[0].Attrs["ai.route"] != "fallback" || l[0].Attrs["ai.error_class"] != "overloaded" || l[0].Status.GetMessage() != "" {
				t.Errorf("%v, %v, %v", l[0], l[1], l[2])
			}
			if told := x.heard()[1].Get("Traceparent"); !strings.Contains(told, l[3].ID()) {
				t.Errorf("the fallback was told %s", told)
			}

			d = ask("refused", chatBody, "Failback-Task", "alone")
			l = x.of(d.TraceID, 2*len(d.Attempts)+1)
			if last := l[len(l)-1]; l[0].Attrs["ai.fallback_allowed"] != "false" || l[0].Attrs["ai.provider"] != "none" || l[0].Status.GetMessage() != "overloaded" ||
				last.Name != "failover.policy" || last.Attrs["ai.next"] != "end" || last.Attrs["ai.why"] != d.Attempts[len(d.Attempts)-1].Why {
				t.Errorf("a task that falls back to nobody: %s, %v, %v", names(l), l[0], last)
			}

			x.upstreams(half, whole)
			d = ask("broken", chatStreamBody, "Failback-Task", "free")
			l = x.of(d.TraceID, 3)
			if names(l) != "ai.workflow model.primary response.parser" || l[0].Status.GetMessage() == "" || l[2].Status.GetMessage() == "" || d.WorkflowStatus != "incomplete" {
				t.Errorf("a stream that broke: %s %v", names(l), l)
			}

			x.upstreams(whole, whole)
			const theirs = "4bf92f3577b34da6a3ce929d0e0e4736"
			d = ask("joined", chatBody, "Traceparent", "00-"+theirs+"-00f067aa0ba902b7-01", "Tracestate", "x=1")
			l = x.of(theirs, 3)
			if d.TraceID != theirs || l[0].Parent() != "00f067aa0ba902b7" || x.heard()[0].Get("Tracestate") != "x=1" ||
				x.heard()[0].Get("Traceparent") != "00-"+theirs+"-"+l[1].ID()+"-01" {
				t.Errorf("a client's trace: %s, %v, %v", d.TraceID, l[0], x.heard()[0])
			}

			x.upstreams(whole, whole)
			const quiet = "11111111111111111111111111111111"
			d = ask("unsampled", chatBody, "Traceparent", "00-"+quiet+"-00f067aa0ba902b7-00")
			told := x.heard()[0].Get("Traceparent")
			if d.TraceID != quiet || d.Attempts[0].SpanID != "" || !strings.HasPrefix(told, "00-"+quiet+"-") || !strings.HasSuffix(told, "-00") || strings.Contains(told, "00f067aa0ba902b7") {
				t.Errorf("not sampled: %s, told %s", d.TraceID, told)
			}

			x.breaker("a:text", "open")
			d = ask("blocked", chatBody)
			l = x.of(d.TraceID, 4)
			if names(l) != "ai.workflow failover.policy model.fallback response.parser" || len(l[1].Events) != 1 || l[1].Events[0].Name != "breaker.blocked" {
				t.Errorf("an open breaker: %s, %v", names(l), l[1])
			}
			if !strings.Contains(d.Candidates[0].SkippedWhy, "open since ") {
				t.Errorf("%+v", d.Candidates[0])
			}

			d = ask("mistake", `{"model":"nobody's"}`)
			if l = x.of(d.TraceID, 1); names(l) != "ai.workflow" || l[0].Attrs["ai.workflow_status"] != "rejected" || l[0].Status.GetMessage() != "" {
				t.Errorf("a mistake: %s, %v", names(l), l[0])
			}
			x.stop() // what is queued is sent
			for _, s := range x.Spans() {
				text := s.String()
				if strings.Contains(text, "CANARY") || strings.Contains(text, "127.0.0.1") {
					t.Errorf("%s tells a secret: %s", s.Name, text)
				}
				if s.Trace() == quiet {
					t.Error("a trace was exported that is not sampled")
				}
			}
			if s := x.gw.OperatorState().Traces; !s.Configured || s.Exported != uint64(len(x.Spans())) || s.Dropped != 0 {
				t.Errorf("%+v for %d spans", s, len(x.Spans()))
			}
		})
	}
}

// Without telemetry.otlp no trace is begun, and the client's passes through.
func TestTracesPassThrough(t *testing.T) {
	x := startTraced(t, "http", "")
	ask(x, chatBody, "X-Request-Id", "none")
	if d := x.logged("none"); d.TraceID != "" || x.heard()[0]["Traceparent"] != nil || x.gw.OperatorState().Traces.Configured {
		t.Errorf("%q, %v", d.TraceID, x.heard()[0])
	}
	x.upstreams(whole, whole)
	const sent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	ask(x, chatBody, "X-Request-Id", "some", "Traceparent", sent, "Tracestate", "x=1,y=2", "Baggage", "user=CANARY")
	if d := x.logged("some"); d.TraceID != sent[3:35] || d.Attempts[0].SpanID != "" {
		t.Errorf("%q, %q", d.TraceID, d.Attempts[0].SpanID)
	}
	if h := x.heard()[0]; h.Get("Traceparent") != sent || h.Get("Tracestate") != "x=1,y=2" || h["Baggage"] != nil {
		t.Errorf("%v", h)
	}
	x.upstreams(whole, whole)
	ask(x, chatBody, "X-Request-Id", "wrong", "Traceparent", sent+"-x", "Tracestate", "x=1")
	if h := x.heard()[0]; x.logged("wrong").TraceID != "" || h["Traceparent"] != nil || h["Tracestate"] != nil {
		t.Errorf("of an invalid one: %v", h)
	}
	if _, exposed := x.gw.Series()[`failback_trace_spans_total{result="exported"}`]; exposed {
		t.Error("there is a metric of spans")
	}
}

// telemetry.otlp.sample is the part of the requests without a trace of their own.
func TestTracesAreSampled(t *testing.T) {
	x := startTraced(t, "http", "{endpoint: ENDPOINT, sample: 0}")
	ask(x, chatBody, "X-Request-Id", "out")
	d := x.logged("out")
	if told := x.heard()[0].Get("Traceparent"); len(d.TraceID) != 32 || !strings.HasPrefix(told, "00-"+d.TraceID) || !strings.HasSuffix(told, "-02") || d.Attempts[0].SpanID != "" {
		t.Errorf("%s, told %s", d.TraceID, told)
	}
	id := tracecontext.NewTraceID()
	ask(x, chatBody, "X-Request-Id", "in", "Traceparent", tracecontext.Format(id, tracecontext.NewSpanID(), tracecontext.Sampled))
	x.of(id, 3)
	x.stop()
	if n := len(x.Spans()); n != 3 {
		t.Errorf("%d spans", n)
	}
}

// Whatever the collector does, requests and the gateway's end do not wait for it.
func TestTracesCostNobodyTime(t *testing.T) {
	for name, manner := range map[string]otlptest.Manner{"hangs": otlptest.Hangs, "busy": otlptest.Busy, "refuses": otlptest.Refuses} {
		for _, protocol := range []string{"http", "grpc"} {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				x := startTraced(t, protocol, "{endpoint: ENDPOINT, protocol: "+protocol+"}")
				x.Answers(manner)
				began := time.Now()
				for range 50 {
					if resp, _ := ask(x, chatBody); resp.StatusCode != 200 {
						t.Fatalf("status %d", resp.StatusCode)
					}
				}
				if d := time.Since(began); d > 30*time.Second {
					t.Errorf("50 requests took %s", d)
				}
				otlptest.Until(t, "a call", func() bool { return x.Calls() > 0 })
				began = time.Now()
				x.stop()
				if d := time.Since(began); d > 30*time.Second {
					t.Errorf("Stop took %s", d)
				}
				if s := x.gw.OperatorState().Traces; s.Exported != 0 || s.Dropped != 150 || s.Error == "" {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// A gateway whose collector takes a part counts the rest, in state and metrics.
func TestTracesPartlyTaken(t *testing.T) {
	x := startTraced(t, "http", "{endpoint: ENDPOINT}")
	x.Answers(otlptest.Rejects)
	ask(x, chatBody)
	otlptest.Until(t, "the count", func() bool { return x.gw.OperatorState().Traces.Dropped == 1 })
	m := x.gw.Series()
	if m[`failback_trace_spans_total{result="exported"}`] != 2 || m[`failback_trace_spans_total{result="dropped"}`] != 1 {
		t.Errorf("%v", x.gw.OperatorState().Traces)
	}
}

func TestTracesEndWithTheGateway(t *testing.T) {
	http.DefaultClient.CloseIdleConnections()
	before := runtime.NumGoroutine()
	t.Run("", func(t *testing.T) {
		x := startTraced(t, "grpc", "{endpoint: ENDPOINT, protocol: grpc}")
		ask(x, chatBody)
		x.Await(t, 3)
	})
	http.DefaultClient.CloseIdleConnections()
	otlptest.Until(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

func ask(x *traced, body string, headers ...string) (*http.Response, string) {
	x.Helper()
	req, err := http.NewRequestWithContext(x.Context(), http.MethodPost, x.base, strings.NewReader(body))
	if err != nil {
		x.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		x.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body) // a stream may break
	return resp, string(b)
}

// shown is the decision of the request with that id as the operator API has it.
func (x *traced) shown(id string) api.Decision {
	x.Helper()
	l, err := x.client().Decisions(x.Context(), api.Filter{})
	if err != nil {
		x.Fatal(err)
	}
	for _, d := range l.Decisions {
		if d.RequestID == id {
			return d
		}
	}
	x.Fatalf("the operator API has no decision of %s", id)
	return api.Decision{}
}

func (x *traced) client() *api.Client {
	x.Helper()
	c, err := api.NewClient("unix:"+filepath.Join(x.dir, gateway.SocketName), api.Options{})
	if err != nil {
		x.Fatal(err)
	}
	return c
}

// breaker has an operator hold a bucket.
func (x *traced) breaker(bucket, action string) {
	x.Helper()
	if _, err := x.client().SetBreaker(x.Context(), bucket, api.Command{Action: action, Reason: "test"}); err != nil {
		x.Fatal(err)
	}
}
