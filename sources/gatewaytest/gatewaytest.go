// Package gatewaytest owns a gateway for tests of the console: a real HTTP
// server on a Unix socket that answers the operator API with what a test sets.
//
// It decides nothing by itself beyond what a test of the console needs
// (revisions, one step at a time), and it is used by tests only.
package gatewaytest

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// Command is a request that would change something, as it arrived: any that is
// no GET.
type Command struct {
	Path string
	Body api.Command
}

// Gateway answers the operator API. Its zero value is not usable: New.
type Gateway struct {
	socket string
	server *httptest.Server
	asked  atomic.Int64

	mu sync.Mutex
	// mu guards everything that follows.
	state     api.State
	events    []api.Event
	decisions []api.Decision
	incidents []api.Incident
	commands  []Command
	refuse    *api.Error
	hang      chan struct{} // closed to let hanging requests go; nil: none hang
	hung      int           // requests that hang now
}

// New starts a gateway that t stops at its end.
func New(t testing.TB) *Gateway {
	t.Helper()
	dir, err := os.MkdirTemp("", "fb") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{socket: filepath.Join(dir, "s")}
	g.Start(t)
	t.Cleanup(func() {
		g.Hang(false)
		g.Stop()
		os.RemoveAll(dir)
	})
	return g
}

// Start listens again after Stop.
func (g *Gateway) Start(t testing.TB) {
	t.Helper()
	l, err := net.Listen("unix", g.socket)
	if err != nil {
		t.Fatal(err)
	}
	g.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: g.routes()}}
	g.server.Start()
}

// Stop ends the server as a killed gateway would: nobody listens any more.
func (g *Gateway) Stop() {
	g.server.CloseClientConnections()
	g.server.Close()
}

// Target is what a client is given.
func (g *Gateway) Target() string { return "unix:" + g.socket }

// Client returns a client of g.
func (g *Gateway) Client(t testing.TB) *api.Client {
	t.Helper()
	c, err := api.NewClient(g.Target(), api.Options{Session: api.NewSession()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Set changes what g answers.
func (g *Gateway) Set(change func(s *api.State)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.state)
}

// Upstream returns a copy of an upstream's state.
func (g *Gateway) Upstream(name string) api.Upstream {
	g.mu.Lock()
	defer g.mu.Unlock()
	if u := g.find(name); u != nil {
		return *u
	}
	return api.Upstream{}
}

// Happen adds an event and numbers it.
func (g *Gateway) Happen(e api.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.happen(e)
}

// Decide sets the decisions, newest first.
func (g *Gateway) Decide(ds ...api.Decision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.decisions = ds
}

// Record sets the incidents, newest first. Nothing that is told to them changes
// them.
func (g *Gateway) Record(is ...api.Incident) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.incidents = is
}

// Refuse makes every command fail with e; nil ends that.
func (g *Gateway) Refuse(e *api.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse = e
}

// Hang makes every request wait until it is switched off or its client leaves.
func (g *Gateway) Hang(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case on && g.hang == nil:
		g.hang = make(chan struct{})
	case !on && g.hang != nil:
		close(g.hang)
		g.hang = nil
	}
}

// Hung counts the requests that wait.
func (g *Gateway) Hung() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hung
}

// Asked counts the requests so far.
func (g *Gateway) Asked() int { return int(g.asked.Load()) }

// Commands returns the commands that arrived, refused ones too.
func (g *Gateway) Commands() []Command {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Command(nil), g.commands...)
}

func (g *Gateway) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /operator/v1/state", func(w http.ResponseWriter, r *http.Request) {
		g.wait(r)
		g.mu.Lock()
		defer g.mu.Unlock()
		s := g.state
		s.At = time.Now()
		sample(&s, s.At)
		write(w, http.StatusOK, s)
	})
	m.HandleFunc("GET /operator/v1/events", func(w http.ResponseWriter, r *http.Request) {
		g.wait(r)
		g.mu.Lock()
		defer g.mu.Unlock()
		after, _ := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
		v := api.Events{Events: []api.Event{}, At: time.Now()}
		for _, e := range g.events {
			if e.Seq > after {
				v.Events = append(v.Events, e)
			}
		}
		write(w, http.StatusOK, v)
	})
	m.HandleFunc("GET /operator/v1/decisions", func(w http.ResponseWriter, r *http.Request) {
		g.wait(r)
		g.mu.Lock()
		defer g.mu.Unlock()
		v := api.Decisions{Decisions: g.decisions, Total: uint64(len(g.decisions)), PerMinute: len(g.decisions), At: time.Now()}
		if n, _ := strconv.Atoi(r.URL.Query().Get("limit")); n > 0 && n < len(v.Decisions) {
			v.Decisions = v.Decisions[:n]
		}
		write(w, http.StatusOK, v)
	})
	m.HandleFunc("GET /operator/v1/incidents", func(w http.ResponseWriter, r *http.Request) {
		g.wait(r)
		g.mu.Lock()
		defer g.mu.Unlock()
		v := api.Incidents{Incidents: []api.IncidentHead{}, At: time.Now()}
		for i := range g.incidents {
			v.Incidents = append(v.Incidents, g.incidents[i].IncidentHead)
		}
		write(w, http.StatusOK, v)
	})
	m.HandleFunc("GET /operator/v1/incidents/{id}", func(w http.ResponseWriter, r *http.Request) {
		g.wait(r)
		g.mu.Lock()
		defer g.mu.Unlock()
		for i := range g.incidents {
			if v := g.incidents[i]; v.ID == r.PathValue("id") {
				v.At = time.Now()
				write(w, http.StatusOK, v)
				return
			}
		}
		refuse(w, http.StatusNotFound, &api.Error{Code: api.CodeNotFound, Message: "there is no such incident"})
	})
	m.HandleFunc("POST /operator/v1/upstreams/{name}/share", g.command(g.share))
	m.HandleFunc("POST /operator/v1/upstreams/{name}/state", g.command(g.setState))
	m.HandleFunc("DELETE /operator/v1/session", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if r.Method != http.MethodGet {
			c := Command{Path: r.URL.Path}
			_ = json.NewDecoder(r.Body).Decode(&c.Body) // whatever it is, it arrived
			g.commands = append(g.commands, c)
		}
		refuse(w, http.StatusNotFound, &api.Error{Code: api.CodeNotFound, Message: "not here"})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.asked.Add(1)
		m.ServeHTTP(w, r)
	})
}

// sample makes every number of s, a copy, one that was measured at t.
func sample(s *api.State, t time.Time) {
	tr := &s.Traffic
	for _, n := range []*api.Number{&tr.RPS, &tr.FailedRatio, &tr.FallbackRatio, &tr.FallbackRPS, &tr.FirstOutputP95, &tr.ClientRetries} {
		n.At = t
	}
	s.RetryBudget.At = t
	s.Upstreams = append([]api.Upstream(nil), s.Upstreams...)
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		for _, n := range []*api.Number{&u.Live, &u.RPS, &u.OwnRPS, &u.ErrorRatio, &u.FirstOutputP95} {
			n.At = t
		}
	}
}

func (g *Gateway) wait(r *http.Request) {
	g.mu.Lock()
	hang := g.hang
	if hang == nil {
		g.mu.Unlock()
		return
	}
	g.hung++
	g.mu.Unlock()
	select {
	case <-hang:
	case <-r.Context().Done():
	}
	g.mu.Lock()
	g.hung--
	g.mu.Unlock()
}

// command reads a command for an upstream, and answers it with f, which is
// called with mu held.
func (g *Gateway) command(f func(http.ResponseWriter, *api.Upstream, api.Command)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var c api.Command
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			refuse(w, http.StatusUnprocessableEntity, &api.Error{Code: api.CodeInvalid, Message: err.Error()})
			return
		}
		g.mu.Lock()
		g.commands = append(g.commands, Command{Path: r.URL.Path, Body: c})
		g.mu.Unlock()
		g.wait(r)
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.refuse != nil {
			refuse(w, http.StatusForbidden, g.refuse)
			return
		}
		u := g.find(r.PathValue("name"))
		if u == nil {
			refuse(w, http.StatusNotFound, &api.Error{Code: api.CodeNotFound, Message: "there is no such upstream"})
			return
		}
		f(w, u, c)
	}
}

// stale answers a command whose revision is not that of u, and reports whether
// it is.
func (g *Gateway) stale(w http.ResponseWriter, u *api.Upstream, c api.Command) bool {
	if c.Revision != nil && *c.Revision == u.Revision {
		return false
	}
	now := *u
	refuse(w, http.StatusConflict, &api.Error{Code: api.CodeStaleRevision, Message: u.Name + " changed meanwhile", Upstream: &now, LastWrite: g.state.LastWrite})
	return true
}

// done answers a command that took effect, and tells of it.
func (g *Gateway) done(w http.ResponseWriter, u *api.Upstream, e api.Event, message string) {
	e.Time, e.Provider, e.By, e.Result, e.Revision = time.Now(), u.Name, g.state.You.Name, "ok", u.Revision
	g.happen(e)
	g.state.LastWrite = &e
	now := *u
	write(w, http.StatusOK, api.Result{Message: message, Upstream: &now})
}

// plan approves the steps of u or takes that back, which needs no revision.
func (g *Gateway) plan(w http.ResponseWriter, u *api.Upstream, c api.Command) {
	e := api.Event{Event: "traffic_step", Action: "plan", Reason: "ended", Why: c.Reason}
	if c.Action == api.ActionPlan {
		if g.stale(w, u, c) {
			return
		}
		u.Plan, e.Reason = &api.Plan{By: g.state.You.Name, At: time.Now()}, "approved"
	} else {
		u.Plan = nil
	}
	u.Revision++
	g.done(w, u, e, "the plan of "+u.Name+": "+e.Reason)
}

// setState makes u degraded, whatever the revision, or gives a degraded one its
// next step under the rules of share.
func (g *Gateway) setState(w http.ResponseWriter, u *api.Upstream, c api.Command) {
	switch {
	case c.State == api.Recovering && u.Health == api.Degraded:
		to := u.NextStep.Share
		g.share(w, u, api.Command{Share: &to, From: new(0), Revision: c.Revision, Reason: c.Reason, Override: c.Override})
		return
	case c.State == api.Recovering:
		now := *u
		refuse(w, http.StatusConflict, &api.Error{Code: api.CodeBlocked, Message: u.Name + " is " + u.Health + ", not degraded", Upstream: &now})
		return
	case c.State != api.Degraded:
		refuse(w, http.StatusUnprocessableEntity, &api.Error{Code: api.CodeInvalid, Message: "no such state"})
		return
	}
	e := api.Event{Event: "health_transition", Action: "state", From: u.Health, To: c.State, Reason: "operator", Why: c.Reason}
	u.Health, u.HealthBy, u.HealthSince, u.HealthReason = c.State, g.state.You.Name, time.Now(), c.Reason
	u.Share, u.Plan, u.Evidence, u.Revision, u.Since = 0, nil, nil, u.Revision+1, time.Now()
	g.done(w, u, e, u.Name+" is degraded")
}

// share keeps the gateway's own rules about revisions, steps and undo.
func (g *Gateway) share(w http.ResponseWriter, u *api.Upstream, c api.Command) {
	if c.Action != "" {
		g.plan(w, u, c)
		return
	}
	to, action := 0, "raised"
	switch {
	case c.Undo && u.Undo != nil:
		to, action = u.Undo.Share, "undo"
	case c.Share != nil:
		to = *c.Share
	default:
		refuse(w, http.StatusUnprocessableEntity, &api.Error{Code: api.CodeInvalid, Message: "no share"})
		return
	}
	if to > u.Share || c.Raises() {
		if g.stale(w, u, c) {
			return
		}
		if !c.Undo && !c.Override && (u.NextStep.BlockedBy != "" || to != u.NextStep.Share) {
			now := *u
			refuse(w, http.StatusConflict, &api.Error{Code: api.CodeBlocked, Message: "not now: " + u.NextStep.BlockedBy, Upstream: &now})
			return
		}
	}
	from := u.Share
	u.Share, u.Revision, u.Since = to, u.Revision+1, time.Now()
	u.NextStep = api.NextStep{}
	for _, s := range []int{5, 25, 75, 100} {
		if s > to {
			u.NextStep.Share = s
			break
		}
	}
	u.Undo = nil
	if to < from {
		action = "lowered"
		u.Undo = &api.Undo{Share: from, By: g.state.You.Name, Until: time.Now().Add(5 * time.Minute)}
	}
	e := api.Event{Event: "traffic_step", From: strconv.Itoa(from), To: strconv.Itoa(to), Why: c.Reason, Action: "share", Reason: action}
	g.done(w, u, e, u.Name+" gets "+strconv.Itoa(to)+"%")
}

// find and happen require mu.
func (g *Gateway) find(name string) *api.Upstream {
	for i := range g.state.Upstreams {
		if g.state.Upstreams[i].Name == name {
			return &g.state.Upstreams[i]
		}
	}
	return nil
}

func (g *Gateway) happen(e api.Event) {
	e.Seq = uint64(len(g.events) + 1)
	g.events = append(g.events, e)
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, e *api.Error) { write(w, status, e) }
