package spans

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/status"

	"failback/gateway/internal/outbound"
)

// silence keeps the libraries from writing to the process's standard error:
// what goes wrong is in Stats.
var silence = sync.OnceFunc(func() {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	otel.SetLogger(logr.Discard())
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
})

// failure is why the collector did not take a batch.
type failure struct {
	text     string        // for people: no hosts, and nothing that the collector wrote
	again    bool          // the same batch may pass when it is sent again
	after    time.Duration // that long at least it asks to be left alone
	rejected uint64        // it took the batch but for so many spans
}

func (f *failure) Error() string { return f.text }

// sender is one collector.
type sender struct {
	otlptrace.Client
	answers *answers // nil with gRPC
}

// newSender makes a client that repeats nothing by itself.
func newSender(ctx context.Context, o *Options) (s sender, err error) {
	secure := o.Endpoint.Scheme == "https"
	var c *tls.Config
	if secure {
		if c, err = tlsFromEnvironment(); err != nil {
			return s, err
		}
	}
	switch o.Protocol {
	case GRPC:
		way := otlptracegrpc.WithInsecure()
		if secure {
			way = otlptracegrpc.WithTLSCredentials(credentials.NewTLS(c))
		}
		s.Client = otlptracegrpc.NewClient(otlptracegrpc.WithEndpoint(o.Endpoint.Host), way,
			otlptracegrpc.WithTimeout(o.tryTime), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
	case HTTP:
		s.answers = &answers{Transport: http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: c, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: o.tryTime, IdleConnTimeout: 90 * time.Second, MaxIdleConns: 1,
		}}
		path := strings.TrimSuffix(o.Endpoint.Path, "/")
		if !strings.HasSuffix(path, "/v1/traces") {
			path += "/v1/traces"
		}
		options := []otlptracehttp.Option{
			otlptracehttp.WithEndpoint(o.Endpoint.Host), otlptracehttp.WithURLPath(path),
			otlptracehttp.WithTimeout(o.tryTime), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}),
			otlptracehttp.WithHTTPClient(&http.Client{
				Transport:     s.answers,
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}),
		}
		if !secure {
			options = append(options, otlptracehttp.WithInsecure())
		}
		s.Client = otlptracehttp.NewClient(options...)
	default:
		return s, fmt.Errorf("protocol %q is neither %s nor %s", o.Protocol, HTTP, GRPC)
	}
	if err := s.Start(ctx); err != nil {
		return s, err
	}
	return s, nil
}

func (s sender) close() {
	_ = s.Stop(context.Background()) // nothing is being sent: it closes what is open
	if s.answers != nil {
		s.answers.CloseIdleConnections()
	}
}

// send hands the spans over once. An error is a *failure.
func (s sender) send(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	if s.answers != nil {
		s.answers.status.Store(0)
		s.answers.after.Store(0)
	}
	err := s.UploadTraces(ctx, spans)
	if err == nil {
		return nil
	}
	if n, ok := rejected(err); ok {
		if n == 0 {
			return nil // it warns of something and took all
		}
		return &failure{text: fmt.Sprintf("it rejected %d spans of a batch", n), rejected: n}
	}
	if ctx.Err() != nil {
		return &failure{text: outbound.Cause(ctx.Err()), again: errors.Is(ctx.Err(), context.DeadlineExceeded)}
	}
	if s.answers != nil {
		return s.answers.failure(err)
	}
	return grpcFailure(err)
}

// partial is how the clients say that a collector took a part; their type for
// it is internal.
var partial = regexp.MustCompile(`OTLP partial success: .*\((\d+) spans rejected\)`)

func rejected(err error) (n uint64, ok bool) {
	m := partial.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if m == nil {
		return 0, false
	}
	n, parseErr := strconv.ParseUint(m[1], 10, 64)
	return n, parseErr == nil
}

// answers is a transport that knows what the last answer was.
type answers struct {
	http.Transport
	status, after atomic.Int64 // after is in nanoseconds
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(q *http.Request) (*http.Response, error) {
	r, err := a.Transport.RoundTrip(q)
	if err == nil {
		a.note(r)
	}
	return r, err
}

func (a *answers) note(r *http.Response) {
	a.status.Store(int64(r.StatusCode))
	a.after.Store(int64(retryAfter(r.Header, time.Now())))
}

// longestAfter bounds what a collector may ask for: a bad value must not end
// the export for ever.
const longestAfter = time.Hour

// retryAfter is how long an answer that came now asks to be left alone. A date
// is read against the answer's own.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.ParseUint(v, 10, 32); err == nil {
		return min(time.Duration(s)*time.Second, longestAfter)
	}
	until, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(until.Sub(now), 0), longestAfter)
}

func (a *answers) failure(err error) *failure {
	switch code := int(a.status.Load()); {
	case code == 0:
		return &failure{text: outbound.Cause(err), again: true}
	case code/100 == 2:
		return &failure{text: "its answer could not be read"}
	default:
		f := &failure{text: fmt.Sprintf("it answers %d", code), after: time.Duration(a.after.Load())}
		switch code {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			f.again = true
		}
		return f
	}
}

func grpcFailure(err error) *failure {
	f := &failure{}
	st := status.Convert(err)
	for _, d := range st.Details() {
		if i, ok := d.(*errdetails.RetryInfo); ok {
			f.after = min(max(i.GetRetryDelay().AsDuration(), 0), longestAfter)
		}
	}
	switch code := st.Code(); code {
	case codes.DeadlineExceeded:
		f.text, f.again = "no answer in time", true
	case codes.Unavailable:
		f.text, f.again = "it cannot be reached, or takes nothing now", true
	case codes.Canceled, codes.Aborted, codes.OutOfRange, codes.DataLoss, codes.ResourceExhausted:
		f.text, f.again = "it answers "+code.String(), true
	default:
		f.text = "it answers " + code.String()
	}
	return f
}
