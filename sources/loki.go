package sources

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// logs is a Logs.
type logs struct{ *remote }

func (l *logs) Addr() string { return l.addr() }

// Query asks q.
func (l *logs) Query(ctx context.Context, gen uint64, q LogQuery) Answer[LogAnswer] {
	ctx, cancel := context.WithTimeout(ctx, LogsTimeout)
	defer cancel()
	q = q.filled(time.Now())
	if l.own {
		q.Unparsed = "" // the gateway writes all of its lines itself
	}
	out := Answer[LogAnswer]{Gen: gen, Clock: Clock{Sent: time.Now()}}

	var wg sync.WaitGroup
	var unparsed *LogAnswer
	var unparsedErr error
	if q.Unparsed != "" {
		wg.Go(func() {
			unparsed, unparsedErr = l.ask(ctx, LogQuery{Query: q.Unparsed, Start: q.Start, End: q.End, Limit: 1, Instant: true})
		})
	}
	a, err := l.ask(ctx, q)
	if err != nil {
		cancel() // the other question is of no use alone
	}
	wg.Wait()
	out.Clock.Received = time.Now()
	if err != nil {
		out.Err = err
		return out
	}
	switch {
	case q.Unparsed == "":
	case unparsedErr != nil:
		a.Warnings = warn(a.Warnings, "not known how many lines could not be parsed: "+unparsedErr.Error())
	default:
		a.Unparsed = unparsed.total()
	}
	// Loki does not tell its time; End is near it, and no age hangs on it.
	out.Clock.At = out.Clock.Received
	out.Value = a
	return out
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
	a, err := readLogAnswer(body, q)
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
	q.Limit = min(q.Limit, MaxLogsLimit)
	return q
}

// wire is the path and the parameters of q. One line more than wanted is asked
// for, where that is allowed: it tells "the first 500" from "500".
func (q LogQuery) wire() (path string, v url.Values) {
	v = url.Values{"query": {q.Query}, "limit": {strconv.Itoa(min(q.Limit+1, MaxLogsLimit))}}
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

// total is the sum of an answer of numbers.
func (a *LogAnswer) total() int64 {
	var sum int64
	for _, s := range a.Series {
		for _, p := range s.Points {
			if number(p.Value) {
				sum += int64(p.Value)
			}
		}
	}
	return sum
}
