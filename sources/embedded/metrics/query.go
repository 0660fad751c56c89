package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"
)

// query answers an instant query.
func (s *Store) query(ctx context.Context, r *http.Request) (answer, *apiError) {
	limit, err := parseLimit(r.Form.Get("limit"))
	if err != nil {
		return answer{}, badParameter("limit", err)
	}
	now := time.Now()
	at, err := timeParameter(r, "time", now)
	if err != nil {
		return answer{}, badParameter("time", err)
	}
	opts, bad := queryOptions(r)
	if bad != nil {
		return answer{}, bad
	}
	expr := r.Form.Get("query")
	if bad := s.tooLong("query", expr); bad != nil {
		return answer{}, bad
	}
	if bad := s.allow(expr, at, at, 0); bad != nil {
		return answer{}, bad
	}
	from, notes := s.trusted(now, at)
	q, err := s.engine.NewInstantQuery(ctx, paced(ctx, from), opts, expr, at)
	if err != nil {
		return answer{}, buildError(err)
	}
	return execute(ctx, r, q, notes, limit)
}

// queryRange answers a range query.
func (s *Store) queryRange(ctx context.Context, r *http.Request) (answer, *apiError) {
	limit, err := parseLimit(r.Form.Get("limit"))
	if err != nil {
		return answer{}, badParameter("limit", err)
	}
	start, err := parseTime(r.Form.Get("start"))
	if err != nil {
		return answer{}, badParameter("start", err)
	}
	end, err := parseTime(r.Form.Get("end"))
	if err != nil {
		return answer{}, badParameter("end", err)
	}
	if end.Before(start) {
		return answer{}, badParameter("end", errors.New("end timestamp must not be before start time"))
	}
	step, err := parseDuration(r.Form.Get("step"))
	if err != nil {
		return answer{}, badParameter("step", err)
	}
	if step <= 0 {
		return answer{}, badParameter("step", errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer"))
	}
	if int64(end.Sub(start)/step) > s.limits.points {
		return answer{}, &apiError{kind: badData, err: errors.New("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")}
	}
	opts, bad := queryOptions(r)
	if bad != nil {
		return answer{}, bad
	}
	expr := r.Form.Get("query")
	if bad := s.tooLong("query", expr); bad != nil {
		return answer{}, bad
	}
	if bad := s.allow(expr, start, end, step); bad != nil {
		return answer{}, bad
	}
	from, notes := s.trusted(time.Now(), end)
	q, err := s.engine.NewRangeQuery(ctx, paced(ctx, from), opts, expr, start, end, step)
	if err != nil {
		return answer{}, buildError(err)
	}
	return execute(ctx, r, q, notes, limit)
}

func (s *Store) tooLong(name, expr string) *apiError {
	if len(expr) <= s.limits.query {
		return nil
	}
	return badParameter(name, fmt.Errorf("%d bytes are too long, at most %d", len(expr), s.limits.query))
}

func queryOptions(r *http.Request) (promql.QueryOpts, *apiError) {
	var back time.Duration
	if v := r.Form.Get("lookback_delta"); v != "" {
		d, err := parseDuration(v)
		if err != nil {
			return nil, &apiError{kind: badData, err: fmt.Errorf("error parsing lookback delta duration: %w", err)}
		}
		back = d
	}
	return promql.NewPrometheusQueryOpts(false, back, nil), nil
}

// buildError tells what is wrong with a query before it runs.
func buildError(err error) *apiError {
	if _, ok := errors.AsType[promql.ErrQueryTimeout](err); ok {
		return errorOf(err)
	}
	if _, ok := errors.AsType[promql.ErrQueryCanceled](err); ok {
		return errorOf(err)
	}
	return badParameter("query", err)
}

// execute runs q; its result is valid until answer.done. notes are of what it
// asks.
func execute(ctx context.Context, r *http.Request, q promql.Query, notes annotations.Annotations, limit int) (answer, *apiError) {
	res := q.Exec(ctx)
	if res.Err != nil {
		return answer{done: q.Close}, errorOf(res.Err)
	}
	value := res.Value
	notes.Merge(res.Warnings)
	if cut, ok := truncated(value, limit); ok {
		value, notes = cut, notes.Add(errTruncated)
	}
	var used json.RawMessage
	if r.Form.Get("stats") != "" {
		b, err := json.Marshal(stats.NewQueryStats(q.Stats()))
		if err != nil {
			return answer{done: q.Close}, &apiError{kind: internal, err: err}
		}
		used = b
	}
	return answer{data: func(e *encoder) { e.result(value, used) }, notes: notes, done: q.Close}, nil
}

var errTruncated = errors.New("results truncated due to limit")

// truncated returns the first limit series of v, if it has more.
func truncated(v parser.Value, limit int) (parser.Value, bool) {
	if limit <= 0 {
		return v, false
	}
	switch v := v.(type) {
	case promql.Vector:
		if len(v) > limit {
			return v[:limit], true
		}
	case promql.Matrix:
		if len(v) > limit {
			return v[:limit], true
		}
	}
	return v, false
}
