package operator

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"failback/gateway/internal/panicsite"
	"failback/gateway/operator/api"
)

// roleOpen is the role of routes that need no identity.
const roleOpen = "open"

const apiPrefix = "/operator/v1/"

// route is one line of the API. docs/api.md has the same lines.
type route struct {
	method, path string
	role         string // open, viewer or operator
	action       string // of a command, which Server.command handles; else empty
	handle       func(*Server, http.ResponseWriter, *http.Request, identity)
}

// table lists every route. A POST is a command: it is audited, whatever comes
// of it.
func table() []route {
	return []route{
		{"GET", "/healthz", roleOpen, "", (*Server).getHealthz},
		{"GET", "/metrics", roleOpen, "", (*Server).getMetrics},
		{"GET", apiPrefix + "state", api.RoleViewer, "", (*Server).getState},
		{"GET", apiPrefix + "decisions", api.RoleViewer, "", (*Server).getDecisions},
		{"GET", apiPrefix + "events", api.RoleViewer, "", (*Server).getEvents},
		{"GET", apiPrefix + "audit", api.RoleViewer, "", (*Server).getAudit},
		{"GET", apiPrefix + "incidents", api.RoleViewer, "", (*Server).getIncidents},
		{"GET", apiPrefix + "incidents/{id}", api.RoleViewer, "", (*Server).getIncident},
		{"DELETE", apiPrefix + "session", api.RoleViewer, "", (*Server).deleteSession},
		{"GET", apiPrefix + "debug/pprof/{profile...}", api.RoleOperator, "", (*Server).getProfile},
		{"GET", api.PrometheusPath + "/api/v1/{query...}", api.RoleViewer, "", kept(api.PrometheusPath, (*Server).answerFrom)},
		{"POST", api.PrometheusPath + "/api/v1/{query...}", api.RoleViewer, "", kept(api.PrometheusPath, (*Server).answerFrom)},
		{"GET", api.LokiPath + "/api/v1/{query...}", api.RoleViewer, "", kept(api.LokiPath, (*Server).answerFrom)},
		{"GET", api.LokiPath + "/api/v1/tail", api.RoleViewer, "", kept(api.LokiPath, (*Server).follow)},
		{"POST", api.LokiPath + "/api/v1/{query...}", api.RoleViewer, "", kept(api.LokiPath, (*Server).answerFrom)},
		{"POST", apiPrefix + "upstreams/{upstream}/share", api.RoleOperator, actionShare, nil},
		{"POST", apiPrefix + "upstreams/{upstream}/state", api.RoleOperator, actionState, nil},
		{"POST", apiPrefix + "breakers/{bucket}", api.RoleOperator, actionBreaker, nil},
		{"POST", apiPrefix + "passthrough", api.RoleOperator, actionPassthrough, nil},
		{"POST", apiPrefix + "reload", api.RoleOperator, actionReload, nil},
		{"POST", apiPrefix + "incidents", api.RoleOperator, ActionIncidentOpen, nil},
		{"POST", apiPrefix + "incidents/{id}/note", api.RoleOperator, ActionIncidentNote, nil},
		{"POST", apiPrefix + "incidents/{id}/tick", api.RoleOperator, ActionIncidentTick, nil},
		{"POST", apiPrefix + "incidents/{id}/answer", api.RoleOperator, ActionIncidentAnswer, nil},
		{"POST", apiPrefix + "incidents/{id}/close", api.RoleOperator, ActionIncidentClose, nil},
		{"POST", apiPrefix + "incidents/{id}/reopen", api.RoleOperator, ActionIncidentReopen, nil},
	}
}

// routes builds the handler of all routes and of what is none.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range table() {
		mux.HandleFunc(rt.method+" "+rt.path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, rt) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, route{role: api.RoleViewer, handle: func(s *Server, w http.ResponseWriter, r *http.Request, id identity) {
			s.noRoute(mux, w, r, id)
		}})
	})
	return mux
}

// ServeHTTP serves one request. A panic ends the request alone.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler {
			panic(p)
		}
		s.o.Log(fmt.Sprintf("operator API: panic in %s %s: %v at %s", r.Method, r.Pattern, p, panicsite.Name()))
		s.refuse(w, &api.Error{Code: api.CodeFailed, Message: "internal error", Hint: "the gateway's log says more"})
	}()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	s.handler.ServeHTTP(w, r)
}

// serve lets r through to rt if its caller may use it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt route) {
	if rt.role == roleOpen {
		rt.handle(s, w, r, nobody)
		return
	}
	isCommand := r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, apiPrefix)
	id, refused := s.identify(r)
	if refused != nil {
		if isCommand {
			s.auditAnonymous(r, rt, refused)
		}
		s.refuse(w, refused)
		return
	}
	s.sessions.seen(r, id.name, s.o.Instance, isCommand, time.Now())
	if rt.role == api.RoleOperator && id.role != api.RoleOperator && rt.action == "" {
		s.refuse(w, forbidden(id))
		return
	}
	if rt.action != "" {
		s.command(w, r, id, rt.action)
		return
	}
	rt.handle(s, w, r, id)
}

func forbidden(id identity) *api.Error {
	return &api.Error{Code: api.CodeForbidden, Message: "this needs the role operator", Hint: id.readOnlyWhy}
}

// noRoute answers what no route matches.
func (s *Server) noRoute(mux *http.ServeMux, w http.ResponseWriter, r *http.Request, id identity) {
	e := &api.Error{Code: api.CodeNotFound, Message: "there is no such path", Hint: "gateway and console may be of different versions"}
	var allow []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = m
		if _, pattern := mux.Handler(probe); pattern != "/" {
			allow = append(allow, m)
		}
	}
	if len(allow) > 0 {
		w.Header().Set("Allow", strings.Join(allow, ", "))
		e = &api.Error{Code: api.CodeInvalid, Message: "this path takes " + strings.Join(allow, ", ") + " only", HTTPStatus: http.StatusMethodNotAllowed}
	}
	if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, apiPrefix) {
		s.auditRefused(entryOf(r, id, actionUnknown, r.URL.Path), e)
	}
	s.refuse(w, e)
}

func (s *Server) getHealthz(w http.ResponseWriter, _ *http.Request, _ identity) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("ok\n"))
}

func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request, _ identity) {
	if s.o.Metrics == nil {
		s.refuse(w, &api.Error{Code: api.CodeNotFound, Message: "there are no metrics"})
		return
	}
	s.limitWrite(w)
	s.o.Metrics.ServeHTTP(w, r)
}

// kept serves, by way of how, what the gateway keeps under path. Nothing there
// is a command.
func kept(path string, how func(*Server, http.ResponseWriter, *http.Request, http.Handler)) func(*Server, http.ResponseWriter, *http.Request, identity) {
	return func(s *Server, w http.ResponseWriter, r *http.Request, _ identity) {
		var h http.Handler
		if s.o.Kept != nil {
			h = s.o.Kept(path)
		}
		if h == nil {
			s.refuse(w, &api.Error{Code: api.CodeNotFound, Message: "this gateway keeps none of these", Hint: "ask the server that sources in its state names"})
			return
		}
		how(s, w, r, h)
	}
}

// answerFrom lets h answer, and its reader take no longer than any other.
func (s *Server) answerFrom(w http.ResponseWriter, r *http.Request, h http.Handler) {
	s.limitWrite(w)
	h.ServeHTTP(w, r)
}

// getProfile serves the profiles of net/http/pprof but for the command line,
// which may hold secrets.
func (s *Server) getProfile(w http.ResponseWriter, r *http.Request, _ identity) {
	r2 := r.Clone(r.Context())
	name := r.PathValue("profile")
	r2.URL.Path = "/debug/pprof/" + name
	switch name {
	case "profile":
		pprof.Profile(w, r2)
	case "trace":
		pprof.Trace(w, r2)
	case "symbol":
		pprof.Symbol(w, r2)
	case "cmdline":
		s.refuse(w, &api.Error{Code: api.CodeNotFound, Message: "there is no such path"})
	default:
		pprof.Index(w, r2)
	}
}
