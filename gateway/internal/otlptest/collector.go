// Package otlptest owns a collector for tests: a real receiver of traces by OTLP,
// over HTTP and over gRPC. It never belongs in the program.
package otlptest

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Manner is how a collector answers.
type Manner int

const (
	Takes   Manner = iota // everything
	Busy                  // 503, or Unavailable
	Refuses               // 400, or InvalidArgument
	Rejects               // one span of each batch
	Hangs                 // never
)

// Collector keeps what it is sent.
type Collector struct {
	Endpoint *url.URL

	gone chan struct{}

	mu      sync.Mutex // guards everything that follows
	manner  Manner
	calls   int
	headers map[string]string // of the last call, by lower-case name
	spans   []Span
}

// Span is a span as it came.
type Span struct {
	*tracepb.Span
	Resource map[string]string
	Attrs    map[string]string // values as text
}

// ID is the span's id in hexadecimal, Parent its parent's, Trace its trace's.
func (s Span) ID() string     { return hex.EncodeToString(s.SpanId) }
func (s Span) Parent() string { return hex.EncodeToString(s.ParentSpanId) }
func (s Span) Trace() string  { return hex.EncodeToString(s.TraceId) }

// Start begins a collector for protocol "http" or "grpc" on loopback, which ends
// with the test.
func Start(tb testing.TB, protocol string) *Collector {
	tb.Helper()
	c := &Collector{gone: make(chan struct{})}
	if protocol == "http" {
		s := httptest.NewServer(http.HandlerFunc(c.serveHTTP))
		tb.Cleanup(func() { close(c.gone); s.Close() })
		c.Endpoint, _ = url.Parse(s.URL)
		return c
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(s, service{Collector: c})
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	tb.Cleanup(func() { close(c.gone); s.Stop(); serving.Wait() })
	c.Endpoint = &url.URL{Scheme: "http", Host: l.Addr().String()}
	return c
}

// Answers sets how it answers from now on.
func (c *Collector) Answers(m Manner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.manner = m
}

// Calls is how often it was called.
func (c *Collector) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// Header is a header of the last call.
func (c *Collector) Header(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers[strings.ToLower(name)]
}

// Spans are those it took so far, in the order in which they began.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := slices.Clone(c.spans)
	slices.SortStableFunc(l, func(a, b Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	return l
}

// Await returns the spans as soon as there are n, and fails the test after 20 s.
func (c *Collector) Await(tb testing.TB, n int) []Span {
	tb.Helper()
	Until(tb, fmt.Sprintf("%d spans", n), func() bool { return len(c.Spans()) >= n })
	return c.Spans()
}

// Until waits for a condition, and fails the test after 20 s.
func Until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(end) {
			tb.Fatalf("%s: not within 20 s", what)
		}
		<-tick.C
	}
}

// take keeps what q holds and says how to answer.
func (c *Collector) take(q *collectorpb.ExportTraceServiceRequest, headers map[string]string) (Manner, *collectorpb.ExportTraceServiceResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.headers = headers
	answer := &collectorpb.ExportTraceServiceResponse{}
	if c.manner != Takes && c.manner != Rejects {
		return c.manner, answer
	}
	for _, rs := range q.ResourceSpans {
		resource := values(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.spans = append(c.spans, Span{Span: s, Resource: resource, Attrs: values(s.Attributes)})
			}
		}
	}
	if c.manner == Rejects {
		c.spans = c.spans[:len(c.spans)-1]
		answer.PartialSuccess = &collectorpb.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "one (2 spans rejected) is\ntoo many"}
	}
	return c.manner, answer
}

func values(l []*commonpb.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range l {
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			m[a.Key] = v.StringValue
		case *commonpb.AnyValue_BoolValue:
			m[a.Key] = fmt.Sprint(v.BoolValue)
		case *commonpb.AnyValue_IntValue:
			m[a.Key] = fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_DoubleValue:
			m[a.Key] = fmt.Sprint(v.DoubleValue)
		}
	}
	return m
}

func (c *Collector) serveHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	q := &collectorpb.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(body, q)
	}
	if err != nil || r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/traces") || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "no export of traces", http.StatusBadRequest)
		return
	}
	headers := map[string]string{":path": r.URL.Path}
	for name := range r.Header {
		headers[strings.ToLower(name)] = r.Header.Get(name)
	}
	manner, answer := c.take(q, headers)
	switch manner {
	case Busy:
		w.WriteHeader(http.StatusServiceUnavailable)
	case Refuses:
		http.Error(w, "the collector's own words", http.StatusBadRequest)
	case Hangs:
		select {
		case <-r.Context().Done():
		case <-c.gone:
		}
	default:
		b, err := proto.Marshal(answer)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(b)
	}
}

type service struct {
	collectorpb.UnimplementedTraceServiceServer
	*Collector
}

// Export implements the collector's service.
func (s service) Export(ctx context.Context, q *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	headers := map[string]string{}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, v := range md {
		headers[name] = strings.Join(v, ",")
	}
	switch manner, answer := s.take(q, headers); manner {
	case Busy:
		return nil, status.Error(codes.Unavailable, "the collector's own words")
	case Refuses:
		return nil, status.Error(codes.InvalidArgument, "the collector's own words")
	case Hangs:
		select {
		case <-ctx.Done():
		case <-s.gone:
		}
		return nil, ctx.Err()
	default:
		return answer, nil
	}
}
