package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"failback/gateway/operator/api"
	"failback/sources/embedded/gate"
)

// kind is Prometheus's errorType.
type kind string

const (
	badData     kind = "bad_data"
	execution   kind = "execution"
	timeout     kind = "timeout"
	canceled    kind = "canceled"
	internal    kind = "internal"
	unavailable kind = "unavailable"
	notFound    kind = "not_found"
)

// apiError is an error as the API tells it.
type apiError struct {
	kind   kind
	err    error
	status int // 0 means that of kind
}

func (e *apiError) code() int {
	if e.status != 0 {
		return e.status
	}
	switch e.kind {
	case badData:
		return http.StatusBadRequest
	case execution:
		return http.StatusUnprocessableEntity
	case timeout, unavailable:
		return http.StatusServiceUnavailable
	case canceled:
		return 499 // nginx's: the client is gone
	case notFound:
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

func badParameter(name string, err error) *apiError {
	return &apiError{kind: badData, err: fmt.Errorf("invalid parameter %q: %w", name, err)}
}

// errorOf tells what went wrong while a query ran, as Prometheus does.
func errorOf(err error) *apiError {
	var (
		gone promql.ErrQueryCanceled
		slow promql.ErrQueryTimeout
		disk promql.ErrStorage
	)
	switch {
	case errors.As(err, &gone):
		return &apiError{kind: canceled, err: err}
	case errors.As(err, &slow):
		return &apiError{kind: timeout, err: err}
	case errors.As(err, &disk):
		return &apiError{kind: internal, err: err}
	case errors.Is(err, context.Canceled):
		return &apiError{kind: canceled, err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &apiError{kind: timeout, err: err}
	}
	return &apiError{kind: execution, err: err}
}

// answer is what a handler found.
type answer struct {
	data  func(*encoder)
	notes annotations.Annotations
	// done gives back what data needs.
	done func()
}

// Handler serves Prometheus's HTTP API below /prometheus/api/v1/: query,
// query_range, query_exemplars, format_query, series, labels (GET and POST),
// label/NAME/values, metadata, rules, alerts and status/buildinfo (GET). There
// are no exemplars, rules and alerts, and the answers say so. Queries are bounded in number, time, samples and
// length; one too many is 503 with Retry-After. After Close everything is 503.
func (s *Store) Handler() http.Handler { return s.mux }

const base = api.PrometheusPath + "/api/v1/"

func (s *Store) routes() http.Handler {
	mux := http.NewServeMux()
	only := func(path, methods string) {
		mux.HandleFunc(base+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", methods)
			s.fail(w, &apiError{kind: badData, err: fmt.Errorf("%s is not for %s, but for %s", r.URL.Path, r.Method, methods), status: http.StatusMethodNotAllowed})
		})
	}
	query := func(path string, f func(context.Context, *http.Request) (answer, *apiError)) {
		h := s.serve(f)
		mux.HandleFunc("GET "+base+path, h)
		mux.HandleFunc("POST "+base+path, h)
		only(path, "GET, HEAD, POST")
	}
	name := func(path string, f func(context.Context, *http.Request) (answer, *apiError)) {
		mux.HandleFunc("GET "+base+path, s.serve(f))
		only(path, "GET, HEAD")
	}
	query("query", s.query)
	query("query_range", s.queryRange)
	query("series", s.series)
	query("labels", s.labelNames)
	name("label/{name}/values", s.labelValues)
	name("metadata", s.metadata)
	name("status/buildinfo", buildInfo)
	query("format_query", s.formatQuery)
	query("query_exemplars", s.exemplars)
	name("rules", s.rules)
	name("alerts", alerts)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, &apiError{kind: notFound, err: errors.New("no such endpoint here: there are query, query_range, query_exemplars, format_query, series, labels, label/NAME/values, metadata, rules, alerts and status/buildinfo below " + base)})
	})
	return mux
}

// serve bounds f and writes its answer.
func (s *Store) serve(f func(context.Context, *http.Request) (answer, *apiError)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, s.limits.body)
		if err := r.ParseForm(); err != nil {
			e := &apiError{kind: badData, err: fmt.Errorf("error parsing form values: %w", err)}
			if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
				e.status = http.StatusRequestEntityTooLarge
			}
			s.fail(w, e)
			return
		}
		limit, err := s.timeout(r)
		if err != nil {
			s.fail(w, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()

		places := s.gate
		if quick(r) {
			places = s.quick
		}
		leave, enterErr := places.Enter(ctx)
		if enterErr != nil {
			s.fail(w, s.refusal(r, enterErr))
			return
		}
		defer leave()
		done, useErr := s.use()
		if useErr != nil {
			s.fail(w, &apiError{kind: unavailable, err: useErr})
			return
		}
		a, err := func() (answer, *apiError) {
			defer done() // what was found is a copy: the store need not wait for who reads it
			work, err := s.pace.begin(ctx)
			if err != nil {
				return answer{}, s.refusal(r, err)
			}
			defer work.end()
			return f(context.WithValue(ctx, turnKey{}, work), r)
		}()
		if a.done != nil {
			defer a.done()
		}
		if err != nil {
			if err.kind == canceled && s.ctx.Err() != nil {
				err = &apiError{kind: unavailable, err: errClosed}
			}
			s.fail(w, err)
			return
		}
		s.succeed(w, r, a)
	}
}

// refusal tells why a request was not let in.
func (s *Store) refusal(r *http.Request, err error) *apiError {
	switch {
	case errors.Is(err, gate.ErrBusy):
		return &apiError{kind: unavailable, err: err}
	case s.ctx.Err() != nil:
		return &apiError{kind: unavailable, err: errClosed}
	case r.Context().Err() != nil:
		return &apiError{kind: canceled, err: promql.ErrQueryCanceled("query queue")}
	}
	return &apiError{kind: timeout, err: promql.ErrQueryTimeout("query queue")}
}

// timeout returns the one of r, at most that of the store.
func (s *Store) timeout(r *http.Request) (time.Duration, *apiError) {
	v := r.Form.Get("timeout")
	if v == "" {
		return s.limits.timeout, nil
	}
	d, err := parseDuration(v)
	if err != nil {
		return 0, badParameter("timeout", err)
	}
	if d <= 0 {
		return 0, badParameter("timeout", fmt.Errorf("timeout must be positive, got %s", d))
	}
	return min(d, s.limits.timeout), nil
}

func (s *Store) fail(w http.ResponseWriter, e *apiError) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if e.kind == unavailable {
		h.Set("Retry-After", "1")
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.limits.write)) // a recorder in a test has none
	w.WriteHeader(e.code())
	b := append([]byte(nil), `{"status":"error","errorType":`...)
	b = appendString(b, string(e.kind))
	b = append(b, `,"error":`...)
	b = appendString(b, e.err.Error())
	b = append(b, '}')
	_, _ = w.Write(b) // who does not take it has lost it
}

// succeed writes a as it is encoded: an answer can be larger than what there
// is memory for.
func (s *Store) succeed(w http.ResponseWriter, r *http.Request, a answer) {
	w.Header().Set("Content-Type", "application/json")
	rc := http.NewResponseController(w)
	e := &encoder{w: &patientWriter{w: w, rc: rc, closing: s.ctx, limit: s.limits.write, end: time.Now().Add(s.limits.answer)}}
	e.raw(`{"status":"success","data":`)
	a.data(e)
	warnings, infos := a.notes.AsStrings(r.Form.Get("query"), 10, 10)
	e.list(`,"warnings":`, warnings)
	e.list(`,"infos":`, infos)
	e.raw(`}`)
	if err := e.flush(); err != nil {
		panic(http.ErrAbortHandler) // half an answer must not look like one
	}
	_ = rc.SetWriteDeadline(time.Time{}) // the connection may serve others next
}

// patientWriter waits so long for the client to take each part, not so long
// once the store closes, and for nothing after end: who reads holds a place.
type patientWriter struct {
	w       io.Writer
	rc      *http.ResponseController
	closing context.Context
	limit   time.Duration
	end     time.Time
}

func (p *patientWriter) Write(b []byte) (int, error) {
	limit := min(p.limit, time.Until(p.end))
	if limit <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	if p.closing.Err() != nil {
		limit = min(limit, time.Second)
	}
	_ = p.rc.SetWriteDeadline(time.Now().Add(limit)) // a recorder in a test has none
	return p.w.Write(b)
}
