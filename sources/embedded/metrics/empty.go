package metrics

import (
	"context"
	"errors"
	"net/http"
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

// nothing answers with an empty list under this name.
func nothing(name string) func(context.Context, *http.Request) (answer, *apiError) {
	return func(context.Context, *http.Request) (answer, *apiError) {
		return answer{data: func(e *encoder) { e.raw(`{"` + name + `":[]}`) }}, nil
	}
}
