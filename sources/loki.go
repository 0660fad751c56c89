package sources

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"failback/gateway/operator/api"
)

// lokiClient is a Logs.
type lokiClient struct {
	*remote
	// timeout is how long one answer is waited for.
	timeout  time.Duration
	patience patience
	// most is how many lines the server gives at once, as it said itself; 0: it
	// did not.
	most atomic.Int64
}

// newLogs returns the client of the Loki that r is and s says.
func newLogs(r *remote, s api.Source, env Env) (*lokiClient, error) {
	l := &lokiClient{remote: r, timeout: LogsTimeout, patience: patience{min: minBackoff, max: maxBackoff}}
	if r.own || r.off != nil {
		return l, nil
	}
	if s.TimeoutSeconds > 0 {
		l.timeout = time.Duration(s.TimeoutSeconds * float64(time.Second))
	}
	var err error
	if l.patience, err = readPatience(env); err != nil {
		return l, r.setup(err)
	}
	return l, nil
}

func (l *lokiClient) Addr() string { return l.addr() }

// Query asks q.
func (l *lokiClient) Query(ctx context.Context, gen uint64, q LogQuery) Answer[LogAnswer] {
	q = q.filled(time.Now()).capped()
	if l.own {
		q.Unparsed = "" // the gateway writes all of its lines itself
	}
	return answerLogs(ctx, gen, q, l.pages)
}

// pages asks one question, its defaults filled in. A log of the gateway's own
// that is ill is asked all the same: what it has is answered.
func (l *lokiClient) pages(ctx context.Context, q LogQuery) (*LogAnswer, error) {
	a, err := askPages(ctx, q, l.ask)
	ill := l.said.Load()
	if ill == nil {
		return a, err
	}
	if e, ok := errors.AsType[*RemoteError](err); ok && e.Kind != RemoteQuery {
		return nil, ill
	}
	if err == nil {
		a.Warnings = append(a.Warnings, ill.Message)
	}
	return a, err
}

// ask asks for one answer with q's limit, or with the server's own if that is
// smaller.
func (l *lokiClient) ask(ctx context.Context, q LogQuery) (*LogAnswer, error) {
	if m := int(l.most.Load()); m > 0 {
		q.Limit = min(m, q.Limit)
	}
	a, err := l.askOnce(ctx, q)
	for n := 1; n <= l.patience.retries && passing(err) && ctx.Err() == nil; n++ {
		if !pause(ctx, l.patience.wait(n, rand.Float64())) {
			break
		}
		a, err = l.askOnce(ctx, q)
	}
	if m := mostLines(err); m > 0 && m < q.Limit {
		l.most.Store(int64(m))
		q.Limit = m
		return l.askOnce(ctx, q)
	}
	return a, err
}

// tooMany is how a Loki refuses a limit.
var tooMany = regexp.MustCompile(`max entries limit per query exceeded.*\(\d+ > (\d+)\)`)

// mostLines is the greatest limit that a refusal names; 0: it names none.
func mostLines(err error) int {
	e, ok := errors.AsType[*RemoteError](err)
	if !ok || e.Kind != RemoteQuery {
		return 0
	}
	m := tooMany.FindStringSubmatch(e.Message)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // too great a number is none
	return n
}

func (l *lokiClient) askOnce(ctx context.Context, q LogQuery) (*LogAnswer, error) {
	if l.off != nil {
		return nil, l.off
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	req, err := l.request(ctx, q.path(), q.wire())
	if err != nil {
		return nil, err
	}
	_, body, err := l.do(req)
	if err != nil {
		return nil, err
	}
	a, err := readLogAnswer(body, q, q.Limit)
	if err != nil {
		return nil, l.fail(RemoteShape, err, "the answer is not understood: "+oneLine(l.heard(err.Error())))
	}
	return a, nil
}

// request is a question for a path behind the server's own.
func (l *lokiClient) request(ctx context.Context, path string, v url.Values) (*http.Request, error) {
	u := *l.base
	u.Path += path
	u.RawQuery = v.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, l.fail(RemoteSetup, err, "the question cannot be written as a URL")
	}
	req.Header.Set("User-Agent", "failback")
	return req, nil
}

// filled is q with its defaults; now is the End of one that names none.
func (q LogQuery) filled(now time.Time) LogQuery {
	if q.End.IsZero() {
		q.End = now
	}
	if q.Start.IsZero() {
		q.Start = q.End.Add(-time.Hour)
	}
	if q.Limit <= 0 {
		q.Limit = LogsLimit
	}
	return q
}

// capped is q with no greater limit than is asked for.
func (q LogQuery) capped() LogQuery {
	q.Limit = min(q.Limit, MaxLogLines)
	return q
}

// path is where q is asked.
func (q LogQuery) path() string {
	if q.Instant {
		return "/loki/api/v1/query"
	}
	return "/loki/api/v1/query_range"
}

// wire is the parameters of q.
func (q LogQuery) wire() url.Values {
	v := url.Values{"query": {q.Query}, "limit": {strconv.Itoa(q.Limit)}}
	direction := "backward"
	if q.Forward {
		direction = "forward"
	}
	v.Set("direction", direction)
	if q.Instant {
		v.Set("time", strconv.FormatInt(q.End.UnixNano(), 10))
		return v
	}
	v.Set("start", strconv.FormatInt(q.Start.UnixNano(), 10))
	v.Set("end", strconv.FormatInt(q.End.UnixNano(), 10))
	if q.Step > 0 {
		v.Set("step", strconv.FormatFloat(q.Step.Seconds(), 'f', -1, 64))
	}
	return v
}

// pause waits for d; false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
