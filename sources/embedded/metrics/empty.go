package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// formatQuery writes a query as Prometheus lays it out.
func (s *Store) formatQuery(ctx context.Context, r *http.Request) (answer, *apiError) {
	e, bad := s.parse("query", r.Form.Get("query"))
	if bad != nil {
		return answer{}, bad
	}
	if err := ctx.Err(); err != nil {
		return answer{}, errorOf(err)
	}
	text := e.Pretty(0)
	return answer{data: func(e *encoder) { e.string(text) }}, nil
}

// exemplars answers with none: the scrape keeps none.
func (s *Store) exemplars(_ context.Context, r *http.Request) (answer, *apiError) {
	start, err := timeParameter(r, "start", minTime)
	if err != nil {
		return answer{}, badParameter("start", err)
	}
	end, err := timeParameter(r, "end", maxTime)
	if err != nil {
		return answer{}, badParameter("end", err)
	}
	if end.Before(start) {
		return answer{}, badParameter("end", errors.New("end timestamp must not be before start timestamp"))
	}
	if _, bad := s.parse("query", r.Form.Get("query")); bad != nil {
		return answer{}, bad
	}
	return answer{data: func(e *encoder) { e.raw("[]") }}, nil
}

// rules answers with none: the gateway evaluates none.
func (s *Store) rules(_ context.Context, r *http.Request) (answer, *apiError) {
	if _, bad := s.matchers(r); bad != nil {
		return answer{}, bad
	}
	switch kind := strings.ToLower(r.Form.Get("type")); kind {
	case "", "alert", "record":
	default:
		return answer{}, badParameter("type", fmt.Errorf("not supported value %q", kind))
	}
	if v := strings.ToLower(r.Form.Get("exclude_alerts")); v != "" {
		if _, err := strconv.ParseBool(v); err != nil {
			return answer{}, badParameter("exclude_alerts", fmt.Errorf("error converting exclude_alerts: %w", err))
		}
	}
	if v := r.Form.Get("group_limit"); v != "" {
		switch n, err := strconv.ParseInt(v, 10, 32); {
		case err != nil:
			return answer{}, badParameter("group_limit", fmt.Errorf("group_limit needs to be a valid number: %w", err))
		case n <= 0:
			return answer{}, badParameter("group_limit", errors.New("group_limit needs to be greater than 0"))
		}
	} else if r.Form.Get("group_next_token") != "" {
		return answer{}, badParameter("group_next_token", errors.New("group_limit needs to be present in order to paginate over the groups"))
	}
	return answer{data: func(e *encoder) { e.raw(`{"groups":[]}`) }}, nil
}

// alerts answers with none, as there are no rules.
func alerts(context.Context, *http.Request) (answer, *apiError) {
	return answer{data: func(e *encoder) { e.raw(`{"alerts":[]}`) }}, nil
}
