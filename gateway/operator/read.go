package operator

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

const (
	defaultDecisions = 100
	defaultEntries   = 100
)

func (s *Server) getState(w http.ResponseWriter, r *http.Request, id identity) {
	if _, e := query(r); e != nil {
		s.refuse(w, e)
		return
	}
	st := s.o.Control.State(id.you())
	now := time.Now()
	st.APIVersion = api.Version
	st.You = id.you()
	st.Sessions = gathered(s.sessions.list(r.Header.Get(api.SessionHeader), id.name, now), st.Sessions)
	st.Audit = s.audit.stat()
	if st.LastWrite == nil {
		st.LastWrite = lastWrite(s.writes.newest(""), st.Upstreams, s.events.revision)
	}
	if st.At.IsZero() {
		st.At = now
	}
	s.answer(w, http.StatusOK, st)
}

func (s *Server) getDecisions(w http.ResponseWriter, r *http.Request, _ identity) {
	q, e := query(r, "limit", "task", "status", "provider", "request_id", "since")
	if e == nil && q["status"] != "" && !slices.Contains(decision.Statuses, decision.Status(q["status"])) {
		e = invalid("status %q is no workflow status", q["status"])
		e.Hint = "there are " + join(decision.Statuses)
	}
	limit, e := q.number("limit", defaultDecisions, keptDecisions, e)
	f := filter{task: q["task"], provider: q["provider"], requestID: q["request_id"], status: decision.Status(q["status"])}
	if v := q["since"]; v != "" && e == nil {
		var err error
		if f.since, err = time.Parse(time.RFC3339, v); err != nil {
			e = invalid("since %q is no time", v)
			e.Hint = "write it as 2006-01-02T15:04:05Z"
		}
	}
	if e != nil {
		s.refuse(w, e)
		return
	}
	now := time.Now()
	a := api.Decisions{Decisions: []api.Decision{}, At: now}
	a.Total, a.PerMinute = s.decisions.counts(now)
	found := s.decisions.newest(&f, limit)
	for i := range found {
		a.Decisions = append(a.Decisions, s.o.Line(&found[i]))
	}
	s.answer(w, http.StatusOK, a)
}

func (s *Server) getEvents(w http.ResponseWriter, r *http.Request, _ identity) {
	q, e := query(r, "after", "decisions")
	sse := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	from := q["after"]
	// A browser's EventSource reconnects to the same address: its header is newer.
	if h := r.Header.Get("Last-Event-ID"); h != "" && sse {
		from = h
	}
	var after uint64
	if from != "" && e == nil {
		var err error
		if after, err = strconv.ParseUint(from, 10, 64); err != nil {
			e = invalid("after %q is no sequence number", from)
		}
	}
	withDecisions := q["decisions"] == "true"
	if v := q["decisions"]; v != "" && e == nil && (!sse || v != "true" && v != "false") {
		e = invalid("decisions is true or false, and for streams only")
		e.Hint = "ask for Accept: text/event-stream, or use /operator/v1/decisions"
	}
	switch {
	case e != nil:
		s.refuse(w, e)
	case sse:
		s.stream(w, r, after, withDecisions)
	default:
		found, dropped, _ := s.events.since(after, keptEvents)
		s.answer(w, http.StatusOK, api.Events{Events: found, Dropped: dropped, At: time.Now()})
	}
}

func (s *Server) getAudit(w http.ResponseWriter, r *http.Request, _ identity) {
	q, e := query(r, "limit")
	limit, e := q.number("limit", defaultEntries, keptEntries, e)
	if e != nil {
		s.refuse(w, e)
		return
	}
	entries, status := s.audit.newest(limit)
	s.answer(w, http.StatusOK, api.AuditTrail{Entries: entries, AuditStatus: status, At: time.Now()})
}

// params are the parameters of a GET, each given at most once.
type params map[string]string

// query reads the parameters of r. One that is not known is refused: an answer
// that ignored a filter would be taken for a filtered one.
func query(r *http.Request, known ...string) (params, *api.Error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("the query is malformed")
	}
	p := params{}
	for k, v := range q {
		if !slices.Contains(known, k) {
			e := invalid("parameter %q is not known here", k)
			e.Hint = "gateway and console may be of different versions"
			if len(known) > 0 {
				e.Hint = "known are " + join(known)
			}
			return nil, e
		}
		if len(v) > 1 {
			return nil, invalid("parameter %q is given %d times", k, len(v))
		}
		p[k] = v[0]
	}
	return p, nil
}

// number reads a number from 1 to most; def if it is not given. It passes e on.
func (p params) number(name string, def, most int, e *api.Error) (int, *api.Error) {
	v := p[name]
	if v == "" || e != nil {
		return def, e
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		return def, invalid("%s %q is not a number from 1 to %d", name, v, most)
	}
	return n, nil
}

func join[T ~string](words []T) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, w)
	}
	return b.String()
}
