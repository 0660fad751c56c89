package sources

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// logs is a Logs.
type logs struct{ *remote }

func (l *logs) Addr() string { return l.addr() }

// Query asks q.
func (l *logs) Query(ctx context.Context, gen uint64, q LogQuery) Answer[LogAnswer] {
	ctx, cancel := context.WithTimeout(ctx, LogsTimeout)
	defer cancel()
	q = q.filled(time.Now()).capped()
	if l.own {
		q.Unparsed = "" // the gateway writes all of its lines itself
	}
	return answerLogs(ctx, gen, q, l.ask)
}

// ask asks one question, its defaults filled in.
func (l *logs) ask(ctx context.Context, q LogQuery) (*LogAnswer, error) {
	if l.off != nil {
		return nil, l.off
	}
	path, v := q.wire()
	u := *l.base
	u.Path += path
	u.RawQuery = v.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, l.fail(RemoteSetup, err, "the question cannot be written as a URL")
	}
	req.Header.Set("User-Agent", "failback")
	_, body, err := l.do(req)
	if err != nil {
		return nil, err
	}
	a, err := readLogAnswer(body, q, q.askedLimit())
	if err != nil {
		return nil, l.fail(RemoteShape, err, "the answer is not understood: "+oneLine(err.Error()))
	}
	return a, nil
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

// capped is q with no greater limit than a Loki takes.
func (q LogQuery) capped() LogQuery {
	q.Limit = min(q.Limit, MaxLogsLimit)
	return q
}

// askedLimit is the limit that a Loki is asked with: a line more than wanted,
// where that is allowed, tells "the first 500" from "500".
func (q LogQuery) askedLimit() int { return min(q.Limit+1, MaxLogsLimit) }

// wire is the path and the parameters of q.
func (q LogQuery) wire() (path string, v url.Values) {
	v = url.Values{"query": {q.Query}, "limit": {strconv.Itoa(q.askedLimit())}}
	direction := "backward"
	if q.Forward {
		direction = "forward"
	}
	v.Set("direction", direction)
	if q.Instant {
		v.Set("time", strconv.FormatInt(q.End.UnixNano(), 10))
		return "/loki/api/v1/query", v
	}
	v.Set("start", strconv.FormatInt(q.Start.UnixNano(), 10))
	v.Set("end", strconv.FormatInt(q.End.UnixNano(), 10))
	if q.Step > 0 {
		v.Set("step", strconv.FormatFloat(q.Step.Seconds(), 'f', -1, 64))
	}
	return "/loki/api/v1/query_range", v
}
