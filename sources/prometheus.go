package sources

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"failback/gateway/operator/api"
)

const (
	atOnce    = 4    // questions to Prometheus at the same time
	longestGo = 4000 // bytes of a question that still goes as GET
)

// prom is a Metrics.
type prom struct {
	*remote
	api     promv1.API
	queries queries
	period  time.Duration
	past    past
}

func newMetrics(r *remote, s api.Source) *prom {
	p := &prom{remote: r, queries: newQueries(s.Selector), period: period(s)}
	address := "http://none" // of one that is off
	if r.base != nil {
		address = r.base.String()
	}
	c, err := promapi.NewClient(promapi.Config{Address: address, RoundTripper: tripper{r}})
	if err != nil { // base was parsed before
		r.off = r.fail(RemoteSetup, err, oneLine(err.Error()))
		c, _ = promapi.NewClient(promapi.Config{RoundTripper: tripper{r}})
	}
	p.api = promv1.NewAPI(c)
	return p
}

func (p *prom) Addr() string          { return p.addr() }
func (p *prom) Period() time.Duration { return p.period }

// tripper carries the client library's questions: bounded, checked, and by GET
// where they fit, since a proxy may refuse a POST or lose its body.
type tripper struct{ *remote }

func (t tripper) RoundTrip(asked *http.Request) (*http.Response, error) {
	req := asked.Clone(asked.Context())
	if asked.Method == http.MethodPost && asked.Body != nil {
		form, err := io.ReadAll(asked.Body)
		_ = asked.Body.Close()
		if err != nil {
			return nil, err
		}
		if len(form) <= longestGo {
			req.Method, req.Body, req.ContentLength, req.GetBody = http.MethodGet, nil, 0, nil
			req.Header.Del("Content-Type")
			req.URL.RawQuery = string(form)
		} else {
			req.Body = io.NopCloser(bytes.NewReader(form))
		}
	}
	status, body, err := t.do(req)
	if err != nil {
		again := status == http.StatusForbidden || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented
		if req.Method != http.MethodPost || !again { // else the library asks once more, by GET
			return nil, err
		}
	}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: asked,
	}, nil
}

// cause is the error of the client library as a *RemoteError.
func (p *prom) cause(ctx context.Context, started time.Time, err error) error {
	if e, ok := errors.AsType[*RemoteError](err); ok {
		return e
	}
	if ctx.Err() != nil {
		return p.ended(ctx, started)
	}
	if e, ok := errors.AsType[*promv1.Error](err); ok {
		if e.Type == promv1.ErrBadResponse {
			return p.fail(RemoteShape, err, "the answer is not understood: "+oneLine(e.Msg))
		}
		r := p.fail(RemoteQuery, err, string(e.Type)+": "+oneLine(e.Msg))
		r.Message = e.Msg
		return r
	}
	return p.fail(RemoteShape, err, "the answer is not understood: "+oneLine(err.Error()))
}

// instant asks for a vector at a time of Prometheus's clock. A scalar is a
// vector of one without labels.
func (p *prom) instant(ctx context.Context, q string, at time.Time) (model.Vector, []string, error) {
	started := time.Now()
	v, warnings, _, err := p.api.Query(ctx, q, at)
	if err != nil {
		return nil, warnings, p.cause(ctx, started, err)
	}
	switch v := v.(type) {
	case model.Vector:
		for _, s := range v {
			if s.Histogram != nil {
				return nil, warnings, p.fail(RemoteShape, nil, "answers a native histogram where a number was expected")
			}
		}
		return v, warnings, nil
	case *model.Scalar:
		return model.Vector{{Timestamp: v.Timestamp, Value: v.Value}}, warnings, nil
	}
	return nil, warnings, p.shape(v, "vector")
}

// ranged asks for the one series of a query over a range, by time.
func (p *prom) ranged(ctx context.Context, q string, r promv1.Range) (map[int64]float64, []string, error) {
	started := time.Now()
	v, warnings, _, err := p.api.QueryRange(ctx, q, r)
	if err != nil {
		return nil, warnings, p.cause(ctx, started, err)
	}
	m, ok := v.(model.Matrix)
	if !ok {
		return nil, warnings, p.shape(v, "matrix")
	}
	if len(m) == 0 {
		return nil, warnings, nil
	}
	if len(m) > 1 {
		return nil, warnings, p.tooMany(len(m))
	}
	points := make(map[int64]float64, len(m[0].Values))
	for _, s := range m[0].Values {
		points[int64(s.Timestamp)] = float64(s.Value)
	}
	return points, warnings, nil
}

func (p *prom) shape(v model.Value, want string) error {
	got := "no result"
	if v != nil {
		got = "a " + v.Type().String()
	}
	return p.fail(RemoteShape, nil, "answers "+got+" where a "+want+" was expected: is this a Prometheus?")
}

func (p *prom) tooMany(n int) error {
	return p.fail(RemoteShape, nil, "answers "+strconv.Itoa(n)+" series where one was expected")
}

// one is the number of a vector that has at most one; nil if it has none.
func (p *prom) one(v model.Vector) (*float64, error) {
	switch len(v) {
	case 0:
		return nil, nil
	case 1:
		f := float64(v[0].Value)
		return &f, nil
	}
	return nil, p.tooMany(len(v))
}

// begin asks for Prometheus's time: the moment of all that follows, and how far
// its clock is from ours.
func (p *prom) begin(ctx context.Context) (Clock, error) {
	c := Clock{Sent: time.Now()}
	v, _, err := p.instant(ctx, "time()", time.Time{})
	c.Received = time.Now()
	if err != nil {
		return c, err
	}
	if len(v) != 1 || v[0].Timestamp <= 0 {
		return c, p.fail(RemoteShape, nil, "does not tell its time: is this a Prometheus?")
	}
	c.At = v[0].Timestamp.Time().UTC()
	return c, nil
}

// queries writes PromQL with the configured label matchers.
type queries struct{ selector string }

func newQueries(selector string) queries {
	s := strings.TrimSpace(selector)
	s = strings.TrimSuffix(strings.TrimPrefix(s, "{"), "}")
	return queries{strings.Trim(s, " \t,")}
}

// series selects the series of a metric, with more matchers.
func (q queries) series(metric string, more ...string) string {
	if q.selector != "" {
		more = append([]string{q.selector}, more...)
	}
	if len(more) == 0 {
		return metric
	}
	return metric + "{" + strings.Join(more, ",") + "}"
}

// rate sums the rate of a metric, by a label unless that is empty. tail is put
// behind the range.
func (q queries) rate(by, metric, tail string, more ...string) string {
	sum := "sum"
	if by != "" {
		sum += " by (" + by + ") "
	}
	return sum + "(rate(" + q.series(metric, more...) + "[" + windowText + "]" + tail + "))"
}

// ratio is the whole fallback ratio as the rules and the documents have it.
func (q queries) ratio() string {
	return "( " + q.rate("", fallbacksTotal, "") + " / (" + q.rate("", requestsTotal, "") + " > 0) ) or vector(0)"
}

// windowText is Window as PromQL and people write it.
var windowText = model.Duration(Window).String()

// The metrics that are asked for; see docs/metrics.md.
const (
	requestsTotal  = "ai_model_requests_total"
	fallbacksTotal = "ai_fallback_triggered_total"
	ownTotal       = "failback_upstream_own_requests_total"
	verdictsTotal  = "failback_slo_requests_total"
	firstOutput    = "ai_model_first_output_seconds"
)
