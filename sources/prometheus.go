package sources

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"failback/gateway/operator/api"
	"failback/sources/promql"
)

// atOnce is how many questions go to Prometheus at the same time.
const atOnce = 4

// prom is a Metrics.
type prom struct {
	*remote
	api     promv1.API
	queries promql.Query
	period  time.Duration
	timeout time.Duration
	past    past
}

func newMetrics(r *remote, s api.Source) *prom {
	p := &prom{remote: r, period: period(s), timeout: MetricsTimeout}
	p.queries = promql.New(s.Selector, Window(p.period))
	if s.TimeoutSeconds > 0 {
		p.timeout = time.Duration(s.TimeoutSeconds * float64(time.Second))
	}
	if way := r.transport; way != nil {
		r.transport = func() (http.RoundTripper, error) {
			rt, err := way()
			return dated{rt}, err
		}
	}
	p.api = promv1.NewAPI(&caller{remote: r, method: s.Method, timeout: p.timeout})
	return p
}

func (p *prom) Addr() string          { return p.addr() }
func (p *prom) Period() time.Duration { return p.period }
func (p *prom) Window() time.Duration { return p.queries.Window() }

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
			return p.fail(RemoteShape, err, "the answer is not understood: "+oneLine(p.heard(e.Msg)))
		}
		r := p.fail(RemoteQuery, err, oneLine(p.heard(string(e.Type)))+": "+oneLine(p.heard(e.Msg)))
		r.Message = p.heard(e.Msg)
		return r
	}
	return p.fail(RemoteShape, err, "the answer is not understood: "+oneLine(p.heard(err.Error())))
}

// said is what came with an answer besides its value.
type said struct {
	warnings []string // it is not whole
	infos    []string
}

// instant asks for a vector at a time of Prometheus's clock. A scalar is a
// vector of one without labels.
func (p *prom) instant(ctx context.Context, q string, at time.Time) (model.Vector, said, error) {
	started := time.Now()
	v, warnings, infos, err := p.api.Query(ctx, q, at)
	besides := said{warnings, infos}
	if err != nil {
		return nil, besides, p.cause(ctx, started, err)
	}
	switch v := v.(type) {
	case model.Vector:
		for _, s := range v {
			switch {
			case s.Histogram != nil:
				return nil, besides, p.fail(RemoteShape, nil, "answers a native histogram where a number was expected")
			case s.Timestamp == 0: // the library makes a zero of what is not there
				return nil, besides, p.fail(RemoteShape, nil, "answers a series without a number")
			}
		}
		return v, besides, nil
	case *model.Scalar:
		return model.Vector{{Timestamp: v.Timestamp, Value: v.Value}}, besides, nil
	}
	return nil, besides, p.shape(v, "vector")
}

// ranged asks for the one series of a query over a range, by time.
func (p *prom) ranged(ctx context.Context, q string, r promv1.Range) (map[int64]float64, said, error) {
	started := time.Now()
	v, warnings, infos, err := p.api.QueryRange(ctx, q, r)
	besides := said{warnings, infos}
	if err != nil {
		return nil, besides, p.cause(ctx, started, err)
	}
	m, ok := v.(model.Matrix)
	if !ok {
		return nil, besides, p.shape(v, "matrix")
	}
	switch {
	case len(m) == 0:
		return nil, besides, nil
	case len(m) > 1:
		return nil, besides, p.tooMany(len(m))
	case len(m[0].Histograms) > 0:
		return nil, besides, p.fail(RemoteShape, nil, "answers native histograms where numbers were expected")
	}
	points := make(map[int64]float64, len(m[0].Values))
	for _, s := range m[0].Values {
		points[int64(s.Timestamp)] = float64(s.Value)
	}
	return points, besides, nil
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
// its clock is from ours. date is when it was answered by the HTTP server's
// clock, zero if that did not say.
func (p *prom) begin(ctx context.Context) (c Clock, date time.Time, err error) {
	c.Sent = time.Now()
	v, _, err := p.instant(context.WithValue(ctx, dateKey{}, &date), "time()", time.Time{})
	c.Received = time.Now()
	if err != nil {
		return c, date, ofQuestion("its time", err)
	}
	if len(v) != 1 || v[0].Timestamp <= 0 {
		return c, date, p.fail(RemoteShape, nil, "does not tell its time: is this a Prometheus?")
	}
	c.At = v[0].Timestamp.Time().UTC()
	return c, date, nil
}

// dateKey is the key of a context's *time.Time that takes the header Date of an
// answer.
type dateKey struct{}

// dated is a way to a server that notes the Date of its answers.
type dated struct{ http.RoundTripper }

func (d dated) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := d.RoundTripper.RoundTrip(req)
	if to, ok := req.Context().Value(dateKey{}).(*time.Time); ok && err == nil {
		*to, _ = http.ParseTime(res.Header.Get("Date")) // zero where there is none
	}
	return res, err
}
