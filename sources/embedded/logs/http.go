package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"failback/gateway/operator/api"
	"failback/sources/embedded/gate"
	"failback/sources/logql"
)

const (
	// queries are answered at the same time, and waiting may wait for that; more
	// are turned away.
	queries = 4
	waiting = 64
	// queryTime is how long an answer may take, waiting included.
	queryTime = time.Minute
	// readTime is how long a client may take to read it.
	readTime = 30 * time.Second
	// maxAnswer is how large one may be.
	maxAnswer = 32 << 20
	// maxMade is how many bytes may go through the templates of a question, and
	// maxWork how long it may work, its rests and waiting not counted.
	maxMade = 256 << 20
	maxWork = 10 * time.Second
	// maxForm is how large the form of a request may be.
	maxForm = 1 << 20
)

// statusClosedRequest is what Loki answers to whom does not listen any more.
const statusClosedRequest = 499

// base is Loki's own path, which is the one that a gateway keeps it under.
const base = api.LokiPath + "/api/v1/"

// lokiAPI is Loki's HTTP API over a store.
type lokiAPI struct {
	s       *Store
	gate    *gate.Gate    // of queries
	tailing chan struct{} // has an element for each client that follows
}

// Handler serves Loki's HTTP API for reading, under the paths that a Loki has:
// /loki/api/v1/query, query_range, labels, label/{name}/values, series,
// format_query, index/stats, index/volume, tail and status/buildinfo, and /ready.
// Errors are text, with the status that a Loki gives. At most four queries are answered at the same time, whichever of its
// results they come by.
func (s *Store) Handler() http.Handler { return s.api }

func newAPI(s *Store) *lokiAPI {
	return &lokiAPI{s: s, gate: gate.New(queries, waiting), tailing: make(chan struct{}, tails)}
}

func (a *lokiAPI) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /ready", a.ready)
	m.HandleFunc("GET "+base+"status/buildinfo", buildinfo)
	m.HandleFunc("GET "+base+"tail", a.tail)
	for _, path := range []string{"/ready", base + "status/buildinfo", base + "tail"} {
		m.HandleFunc(path, notAllowed("GET, HEAD"))
	}
	m.HandleFunc("/", missing)
	for path, answer := range map[string]func(context.Context, *request) (any, error){
		"query":               a.query,
		"query_range":         a.queryRange,
		"labels":              a.labels,
		"label":               a.labels,
		"label/{name}/values": a.values,
		"series":              a.series,
		"format_query":        format,
		"index/stats":         a.stats,
		"index/volume":        a.volume,
	} {
		h := a.handle(answer)
		m.Handle("GET "+base+path, h)
		m.Handle("POST "+base+path, h)
		m.HandleFunc(base+path, notAllowed("GET, HEAD, POST"))
	}
	return m
}

// request is what an answer depends on.
type request struct {
	form url.Values
	name string // in the path
	now  time.Time

	warnings []string // of what it was answered
}

// handle answers with what answer returns.
func (a *lokiAPI) handle(answer func(context.Context, *request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			fail(w, badf("%v", err))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), queryTime)
		defer cancel()
		leave, err := a.gate.Enter(ctx)
		if err != nil {
			fail(w, err)
			return
		}
		defer leave()
		req := &request{form: r.Form, name: r.PathValue("name"), now: time.Now()}
		data, err := answer(ctx, req)
		var body []byte
		if err == nil {
			body, err = a.encode(ctx, data)
		}
		if err != nil {
			fail(w, err)
			return
		}
		unhurried(w)
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		parts := [][]byte{[]byte(`{"status":"success","data":`), body, closing(req.warnings)} // it may be large: no copy
		if _, ok := data.(indexStats); ok {
			parts = [][]byte{body, []byte("\n")} // Loki answers with them bare
		}
		for _, part := range parts {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
}

// closing is what comes behind the data of a success.
func closing(warnings []string) []byte {
	if len(warnings) == 0 {
		return []byte("}\n")
	}
	list, _ := json.Marshal(warnings) // of strings
	return append(append([]byte(`,"warnings":`), list...), "}\n"...)
}

// unhurried lets the reader of an answer begin now: the time that the server
// gave it runs since the question came, and may be over.
func unhurried(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(readTime)) // a recorder in a test has none
}

// encode is encode in turn with other questions.
func (a *lokiAPI) encode(ctx context.Context, data any) ([]byte, error) {
	own := turn{p: a.s.pace}
	if err := own.begin(ctx); err != nil {
		return nil, err
	}
	defer own.end(ctx)
	return encode(data)
}

// encode makes what stands under data in a successful answer.
func encode(data any) ([]byte, error) {
	var text []byte
	var err error
	if m, ok := data.(json.Marshaler); ok {
		text, err = m.MarshalJSON() // encoding/json would go through it, and copy it, again
	} else {
		text, err = json.Marshal(data)
	}
	if err != nil {
		return nil, err
	}
	if len(text) > maxAnswer {
		return nil, &logql.QueryError{Status: http.StatusBadRequest, Message: fmt.Sprintf(
			"the answer has %d bytes, at most %d are allowed: ask for less time, fewer lines or fewer series", len(text), maxAnswer)}
	}
	return text, nil
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	status, text := http.StatusInternalServerError, err.Error()
	var bad *badParam
	var parse *logql.ParseError
	var query *logql.QueryError
	switch {
	case errors.As(err, &bad), errors.As(err, &parse):
		status = http.StatusBadRequest
	case errors.As(err, &query):
		status = query.Status
	case errors.Is(err, gate.ErrBusy):
		status, text = http.StatusTooManyRequests, "too many outstanding requests" // as Loki has it
	case errors.Is(err, errClosed):
		status = http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
		text = "request timed out, decrease the duration of the request or add more label matchers (prefer exact match over regex match) to reduce the amount of data processed"
	case errors.Is(err, context.Canceled):
		status, text = statusClosedRequest, "the request was cancelled by the client"
	}
	unhurried(w)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}

func (a *lokiAPI) ready(w http.ResponseWriter, _ *http.Request) {
	if a.s.ended() {
		fail(w, errClosed)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, "ready")
}

func buildinfo(w http.ResponseWriter, _ *http.Request) {
	b := map[string]string{"version": "unknown", "revision": "unknown", "branch": "", "buildUser": "", "buildDate": "", "goVersion": runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		b["version"] = info.Main.Version
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b["revision"] = s.Value
			case "vcs.time":
				b["buildDate"] = s.Value
			}
		}
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_ = json.NewEncoder(w).Encode(b)
}

// query answers an instant query.
func (a *lokiAPI) query(ctx context.Context, r *request) (any, error) {
	q, err := logql.Parse(r.form.Get("query"))
	if err != nil {
		return nil, err
	}
	req := logql.Request{Query: q, Instant: true, End: r.now.UnixNano()}
	if v := r.form.Get("time"); v != "" {
		if req.End, err = timestamp(v); err != nil {
			return nil, badf("could not parse 'time' parameter: %v", err)
		}
	}
	req.Start = req.End
	return a.eval(ctx, r, req)
}

// queryRange answers a query over a time.
func (a *lokiAPI) queryRange(ctx context.Context, r *request) (any, error) {
	q, err := logql.Parse(r.form.Get("query"))
	if err != nil {
		return nil, err
	}
	req := logql.Request{Query: q}
	if req.Start, req.End, err = span(r.form, r.now, defaultSince); err != nil {
		return nil, err
	}
	if req.End <= req.Start {
		return nil, badf("end timestamp must not be before or equal to start time")
	}
	if v := r.form.Get("interval"); v != "" {
		if d, err := seconds(v); err != nil {
			return nil, err
		} else if d > 0 {
			return nil, badf("the parameter interval is not supported here")
		}
	}
	if req.Step, err = step(r.form, req.Start, req.End); err != nil {
		return nil, err
	}
	return a.eval(ctx, r, req)
}

func (a *lokiAPI) eval(ctx context.Context, r *request, req logql.Request) (_ any, err error) {
	if err := sharded(r.form); err != nil {
		return nil, err
	}
	if req.Limit, err = limit(r.form); err != nil {
		return nil, err
	}
	if req.Forward, err = forward(r.form); err != nil {
		return nil, err
	}
	if !req.Query.IsMetric() && req.Limit > maxLimit {
		return nil, badf("max entries limit per query exceeded, limit > max_entries_limit_per_query (%d > %d)", req.Limit, maxLimit)
	}
	src := newReader(a.s)
	res, err := a.s.eval(ctx, src, req)
	r.warnings = src.lacks()
	return res, err
}

// eval answers a question to src, which is a part of s, within the bounds that
// all questions have.
func (s *Store) eval(ctx context.Context, src logql.Source, req logql.Request) (*logql.Result, error) {
	req.MaxBytes, req.MaxMade, req.MaxWork = maxAnswer, s.maxMade, s.maxWork
	return logql.Eval(ctx, src, req)
}

// labels answers with the names of all labels.
func (a *lokiAPI) labels(_ context.Context, r *request) (any, error) {
	streams, err := a.streams(r, r.form["query"])
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, l := range streams {
		for _, lb := range l {
			names = append(names, lb.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// values answers with the values of one label.
func (a *lokiAPI) values(_ context.Context, r *request) (any, error) {
	streams, err := a.streams(r, r.form["query"])
	if err != nil {
		return nil, err
	}
	values := []string{}
	for _, l := range streams {
		if v, ok := l.Lookup(r.name); ok {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return slices.Compact(values), nil
}

// series answers with the labels of each stream.
func (a *lokiAPI) series(_ context.Context, r *request) (any, error) {
	if err := sharded(r.form); err != nil {
		return nil, err
	}
	streams, err := a.streams(r, append(r.form["match[]"], r.form["match"]...))
	if err != nil {
		return nil, err
	}
	sets := []map[string]string{}
	for _, l := range streams {
		set := map[string]string{}
		for _, lb := range l {
			set[lb.Name] = lb.Value
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// streams returns the labels of the streams in the time asked for, those that
// one of the selectors chooses; without selectors, all.
func (a *lokiAPI) streams(r *request, selectors []string) ([]logql.Labels, error) {
	start, end, err := span(r.form, r.now, labelsSince)
	if err != nil {
		return nil, err
	}
	if end < start {
		return nil, badf("end timestamp must not be before or equal to start time")
	}
	all, err := a.s.streams(start, end)
	if err != nil {
		return nil, err
	}
	var chosen []logql.Labels
	asked := false
	for _, text := range selectors {
		if text == "" {
			continue
		}
		asked = true
		ms, err := selector(text)
		if err != nil {
			return nil, err
		}
		for _, l := range all {
			if matches(ms, l) {
				chosen = append(chosen, l)
			}
		}
	}
	if !asked {
		return all, nil
	}
	slices.SortFunc(chosen, logql.Labels.Compare)
	return slices.CompactFunc(chosen, func(a, b logql.Labels) bool { return a.Compare(b) == 0 }), nil
}

// streams returns the labels of all streams with lines in [start, end), sorted.
// A segment counts whole.
func (s *Store) streams(start, end int64) ([]logql.Labels, error) {
	vs, err := s.views(start, end)
	if err != nil {
		return nil, err
	}
	defer s.letGo(vs)
	var all []logql.Labels
	for _, v := range vs {
		x := v.x
		if x == nil {
			if x, err = s.load(v.g); err != nil {
				return nil, err
			}
		}
		if runOf(x, logql.Selection{Start: start, End: end}).lines() == 0 {
			continue
		}
		for _, l := range x.streams {
			all = append(all, labelsOf(l))
		}
	}
	slices.SortFunc(all, logql.Labels.Compare)
	return slices.CompactFunc(all, func(a, b logql.Labels) bool { return a.Compare(b) == 0 }), nil
}

// selector returns the matchers of a stream selector.
func selector(text string) ([]logql.Matcher, error) {
	q, err := logql.Parse(text)
	if err != nil {
		return nil, err
	}
	ms, ok := q.Selector()
	if !ok {
		return nil, badf("only label matchers are supported: %q is no stream selector alone", text)
	}
	return ms, nil
}
