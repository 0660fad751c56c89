package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/internal/memnet"
	"failback/gateway/operator"
	"failback/gateway/operator/api"
	"failback/gateway/traffic"
	"failback/internal/bubble"
)

// Health, evidence and shares over hours: requests come at a steady rate
// whatever becomes of the others, the gateway watches its upstreams as it does
// in production, and operators give their commands between two seconds.

// illness says what a ward is of; its zero value is the model m of A and B, in
// that order, on steps that are quick to take.
type illness struct {
	brief     bool     // runs with -short, too
	names     []string // nil: A, B
	models    string   // YAML of models; empty: m, by all names in order
	upstreams map[string]string
	steps     string          // YAML of failback.steps; empty: quickSteps
	failback  string          // added to failback: ", advance: auto"
	health    string          // within health: "mode: shadow"
	more      string          // YAML at the top level
	rate      float64         // requests a second; 0: 5
	streams   bool            // requests are for streams
	asks      []string        // models that requests are for, in turn; nil: m
	storage   traffic.Storage // nil: memory
	initial   string          // what the start reads; set by inWard
}

const quickSteps = "[{share: 25, observe: 60s}, {share: 75, observe: 60s}, {share: 100}]"

// ward is a gateway whose upstreams fall ill.
type ward struct {
	*scene
	illness
	began   time.Time
	events  *chronicle
	options gateway.Options
	life    context.Context // of requests, until the gateway stops
	leave   context.CancelFunc
	clients sync.WaitGroup
	hosts   sync.WaitGroup

	mu   sync.Mutex // guards everything that follows
	sent int
	next time.Duration // when the next request is due
	ends []end
	rand *rand.Rand
	told []note
	deaf bool // the webhook answers 500
}

// end is what one client got.
type end struct {
	at, done   time.Duration // when it was sent, and had its answer
	model      string
	talk       int // the conversation
	status     int
	upstream   string
	reason     string
	retryAfter string
}

func (e *end) ok() bool { return e.status == 200 }

// note is what the webhook got.
type note struct{ Kind, Upstream, Detail string }

// chronicle keeps the events of the decision log.
type chronicle struct {
	mu   sync.Mutex // guards everything that follows
	rest []byte
	all  []api.Event
}

func (c *chronicle) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, p...)
	for {
		line, rest, whole := bytes.Cut(c.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		if !bytes.Contains(line, []byte(`"event":"model_route_selected"`)) {
			var e api.Event
			if json.Unmarshal(line, &e) == nil {
				c.all = append(c.all, e)
			}
		}
		c.rest = rest
	}
}

// of are the events of a kind, of one upstream unless that is empty.
func (c *chronicle) of(kind decision.Kind, upstream string) (l []api.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.all {
		if e.Event == string(kind) && (upstream == "" || e.Provider == upstream) {
			l = append(l, e)
		}
	}
	return l
}

// inWard runs f on a gateway with that illness. Whatever f leaves behind, in
// the end nothing may be held.
func inWard(t *testing.T, s illness, f func(*ward)) {
	t.Helper()
	if testing.Short() && !s.brief {
		t.Skip("requires a run without -short: a season takes seconds")
	}
	dir := t.TempDir()
	if s.names == nil {
		s.names = []string{"A", "B"}
	}
	if s.rate == 0 {
		s.rate = 5
	}
	if s.asks == nil {
		s.asks = []string{"m"}
	}
	if s.storage == nil {
		s.storage = new(traffic.Memory)
	}
	synctest.Test(t, func(t *testing.T) {
		w := &ward{
			illness: s, began: time.Now(), events: &chronicle{}, rand: rand.New(rand.NewPCG(1, 2)),
			scene: &scene{T: t, net: &memnet.Network{}, up: map[string]*actor{}, texts: &lines{}},
		}
		defer w.hosts.Wait()
		for _, name := range s.names {
			w.up[name] = &actor{name: name, play: ok, playH2: okH2, conns: map[*memnet.Conn]bool{}}
			w.listens(name)
			defer w.up[name].closes()
		}
		hook, err := w.net.Listen("hook.test:80")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(w.hook)}
		w.hosts.Go(func() { _ = server.Serve(hook) })
		defer server.Close()
		w.initial = w.yamlOf(dir)
		w.configure(w.initial)
		w.options = gateway.Options{
			Log:    func(text string) { _, _ = fmt.Fprintln(w.texts, text) },
			Stdout: w.events, DialContext: w.net.DialContext,
			Listen: func(string, string) (net.Listener, error) { return w.net.Listen("gateway.test:80") },
			Load: func(ctx context.Context) (*config.Config, error) {
				w.scene.mu.Lock()
				defer w.scene.mu.Unlock()
				return config.Load(ctx, config.Source{Data: w.config, Env: os.LookupEnv})
			},
		}
		w.starts()
		defer func() { w.stops() }()
		f(w)
		w.clients.Wait()
		w.quiet()
		w.nothingHeld()
	})
}

func (w *ward) yamlOf(dir string) string {
	yaml := fmt.Sprintf("listen: \"127.0.0.1:80\"\ndata_dir: %q\ndrain_delay: 0s\nnotify: {webhook: \"http://hook.test:80/x\"}\n", dir)
	steps := w.steps
	if steps == "" {
		steps = quickSteps
	}
	yaml += fmt.Sprintf("failback: {steps: %s%s}\nhealth: {%s}\n%supstreams:\n", steps, w.failback, w.health, w.more)
	for _, name := range w.names {
		yaml += fmt.Sprintf("  %s: {dialect: openai, base_url: \"http://%s.test:80/v1\", api_key: key-of-%s%s}\n", name, strings.ToLower(name), name, w.upstreams[name])
	}
	models := w.models
	if models == "" {
		models = "  m: {candidates: ["
		for i, name := range w.names {
			models += fmt.Sprintf("{upstream: %s, model: x, weight: %d, capabilities: %s}, ", name, 100-10*i, capabilities(w.streams))
		}
		models += "]}\n"
	}
	return yaml + "models:\n" + models
}

func capabilities(streams bool) string {
	if streams {
		return "[text, stream]"
	}
	return "[text]"
}

// configure makes yaml what the next start or reload reads.
func (w *ward) configure(yaml string) {
	w.scene.mu.Lock()
	defer w.scene.mu.Unlock()
	w.yaml, w.config = yaml, []byte(yaml)
}

// reloads puts yaml in force.
func (w *ward) reloads(yaml string) {
	w.Helper()
	w.configure(yaml)
	if _, err := w.gw.Reload(context.Background(), "test"); err != nil {
		w.Fatal(err)
	}
}

// listens has the upstream accept connections (again).
func (w *ward) listens(name string) {
	w.Helper()
	l, err := w.net.Listen(strings.ToLower(name) + ".test:80")
	if err != nil {
		w.Fatal(err)
	}
	a := w.up[name]
	a.mu.Lock()
	a.l = l
	a.mu.Unlock()
	w.hosts.Go(func() { a.serve(l, nil, &w.hosts) })
}

// closes has the upstream refuse connections, if it does not yet.
func (a *actor) closes() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.l != nil {
		_ = a.l.Close()
		a.l = nil
	}
}

// hook is the webhook.
func (w *ward) hook(rw http.ResponseWriter, r *http.Request) {
	var n note
	_ = json.NewDecoder(r.Body).Decode(&n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf {
		rw.WriteHeader(500)
		return
	}
	w.told = append(w.told, n)
}

// notes counts what the webhook got of a kind.
func (w *ward) notes(kind string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.told {
		if m.Kind == kind {
			n++
		}
	}
	return n
}

func (w *ward) starts() {
	w.Helper()
	w.gw = gateway.New(w.options)
	w.life, w.leave = context.WithCancel(context.Background())
	if err := w.gw.StartWithCare(context.Background(), w.storage); err != nil {
		w.Fatal(err)
	}
}

// stops ends the gateway and the requests that it has, as its server would.
func (w *ward) stops() {
	w.Helper()
	w.leave()
	synctest.Wait()
	if err := w.gw.Stop(context.Background()); err != nil {
		w.Error(err)
	}
}

// quiet waits until no probe is under way, with none begun meanwhile.
func (w *ward) quiet() {
	for range 1000 {
		synctest.Wait()
		if !w.gw.Probing() {
			return
		}
		bubble.Sleep(10 * time.Millisecond)
	}
}

// now is how long the ward is open.
func (w *ward) now() time.Duration { return time.Since(w.began) }

// passes has requests come for d.
func (w *ward) passes(d time.Duration) {
	w.mu.Lock()
	next := w.next
	w.mu.Unlock()
	for end := w.now() + d; ; {
		if next >= end {
			bubble.Sleep(end - w.now())
			break
		}
		bubble.Sleep(next - w.now())
		next += time.Duration(float64(time.Second) / w.rate)
		w.mu.Lock()
		i := w.sent
		w.sent++
		w.next = next
		w.mu.Unlock()
		w.clients.Go(func() { w.one(i) })
	}
	synctest.Wait()
}

// until has requests come until it is so, and reports how long that took. It
// fails after most.
func (w *ward) until(what string, most time.Duration, is func(api.State) bool) time.Duration {
	w.Helper()
	began := time.Now()
	for !is(w.gw.OperatorState()) {
		if time.Since(began) >= most {
			w.Fatalf("not within %s: %s\n%s", most, what, w.tell())
		}
		w.passes(time.Second)
	}
	return time.Since(began)
}

// conversations is how many there are: each of the same small part.
const conversations = 997

func (w *ward) one(i int) {
	model := w.asks[i%len(w.asks)]
	stream := ""
	if w.streams {
		stream = `,"stream":true`
	}
	body := `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}],"max_tokens":16` + stream + `}`
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(body)).WithContext(w.life)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Failback-Conversation", fmt.Sprintf("c%d", i%conversations))
	e := end{at: w.now(), model: model, talk: i % conversations}
	rec := httptest.NewRecorder()
	w.gw.ServeClient(rec, r)
	h := rec.Header()
	if w.streams && rec.Code == 200 && !strings.Contains(rec.Body.String(), "[DONE]") {
		rec.Code = 0
	}
	e.status, e.upstream, e.reason = rec.Code, h.Get("Failback-Upstream"), h.Get("Failback-Reason")
	e.retryAfter, e.done = h.Get("Retry-After"), w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = append(w.ends, e)
}

// since are the ends of requests that were sent from then on.
func (w *ward) since(from time.Duration) (l []end) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.ends {
		if e.at >= from {
			l = append(l, e)
		}
	}
	return l
}

// failedPart is the part of them that were not answered.
func failedPart(l []end) float64 {
	n := 0
	for i := range l {
		if !l[i].ok() {
			n++
		}
	}
	if len(l) == 0 {
		return 1 // nobody was served
	}
	return float64(n) / float64(len(l))
}

// clientsOf are the clients' requests that an upstream got from then on, by
// their bodies: probes ask for something else.
func (w *ward) clientsOf(name string, from time.Duration) (n int) {
	for _, r := range w.up[name].heard() {
		if r.at.Sub(w.began) >= from && !isProbe(r) {
			n++
		}
	}
	return n
}

func (w *ward) probesOf(name string, from time.Duration) (n int) {
	for _, r := range w.up[name].heard() {
		if r.at.Sub(w.began) >= from && isProbe(r) {
			n++
		}
	}
	return n
}

func isProbe(r heard) bool { return strings.Contains(r.body, "Reply with the word ok.") }

func (w *ward) upstream(name string) *api.Upstream { return of(w.gw.OperatorState(), name) }

func of(s api.State, name string) *api.Upstream {
	i := slices.IndexFunc(s.Upstreams, func(u api.Upstream) bool { return u.Name == name })
	if i < 0 {
		return &api.Upstream{}
	}
	return &s.Upstreams[i]
}

// is says that name has that health.
func is(name, health string) func(api.State) bool {
	return func(s api.State) bool { return of(s, name).Health == health }
}

// passed says that the next step of name is open.
func passed(name string) func(api.State) bool {
	return func(s api.State) bool { u := of(s, name); return u.NextStep.Share > 0 && u.NextStep.BlockedBy == "" }
}

// share sets the share of name by a person, from the revision in force.
func (w *ward) share(name, by string, share int) error {
	revision := w.upstream(name).Revision
	return w.shareAt(name, by, share, revision)
}

func (w *ward) shareAt(name, by string, share int, revision uint64) error {
	_, err := w.gw.Control().SetShare(context.Background(), operator.Actor{Name: by, Role: api.RoleOperator, Via: "socket"}, name,
		api.Command{Share: &share, Revision: &revision})
	return err
}

func (w *ward) command(name, by string, c api.Command) error {
	a := operator.Actor{Name: by, Role: api.RoleOperator, Via: "socket"}
	var err error
	if c.State != "" {
		_, err = w.gw.Control().SetState(context.Background(), a, name, c)
	} else {
		_, err = w.gw.Control().SetShare(context.Background(), a, name, c)
	}
	return err
}

// steps takes the next step of name as soon as its evidence passes.
func (w *ward) stepsUp(name string, most time.Duration) {
	w.Helper()
	w.until("the next step of "+name+" is open", most, passed(name))
	if err := w.share(name, "ann", w.upstream(name).NextStep.Share); err != nil {
		w.Fatalf("step of %s: %v\n%s", name, err, w.tell())
	}
}

// heals steps name up until it is healthy.
func (w *ward) heals(name string, most time.Duration) {
	w.Helper()
	for w.upstream(name).Share < traffic.Full {
		w.stepsUp(name, most)
	}
	w.until(name+" is healthy", most, is(name, api.Healthy))
}

// sick fails a part of the requests.
func (w *ward) sick(part float64, status int) func(*exchange) {
	return func(e *exchange) {
		w.mu.Lock()
		bad := w.rand.Float64() < part
		w.mu.Unlock()
		if bad {
			e.answer(status, hostErrorBody)
			return
		}
		ok(e)
	}
}

const hostErrorBody = `{"error":{"message":"no","type":"server_error","param":null,"code":null}}`

// transitions are those of the health of name, "healthy>suspect error_rate".
func (w *ward) transitions(name string) (l []string) {
	for _, e := range w.events.of(decision.KindHealthTransition, name) {
		l = append(l, e.From+">"+e.To+" "+e.Reason)
	}
	return l
}

// tell is how everything stands, for a failed test.
func (w *ward) tell() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %s\n", w.now())
	for _, u := range w.gw.OperatorState().Upstreams {
		fmt.Fprintf(&b, "%s: %s at %d%%, revision %d: %s; next %d, blocked by %q\n", u.Name, u.Health, u.Share, u.Revision, u.HealthReason, u.NextStep.Share, u.NextStep.BlockedBy)
		for _, s := range u.Signals {
			fmt.Fprintf(&b, "  %s %s: %s\n", s.Name, s.Colour, s.Value)
		}
		for _, p := range u.Probes {
			fmt.Fprintf(&b, "  probe %s %s: %s passed %d failed %d held %q\n", p.Model, p.Capability, p.Result, p.Passed, p.Failed, p.Held)
		}
		for _, k := range u.Breakers {
			fmt.Fprintf(&b, "  breaker %s %s %s\n", k.Capability, k.State, k.Reason)
		}
		if e := u.Evidence; e != nil {
			fmt.Fprintf(&b, "  evidence %s of %d%%, %.0f s, %d requests, enough in %.0f s\n", e.Verdict, e.Share, e.ServedSeconds, e.Requests, e.EnoughInSeconds)
			for _, r := range e.Rows {
				fmt.Fprintf(&b, "    %s %s: %s\n", r.Name, r.Verdict, r.Text)
			}
		}
	}
	for _, kind := range []decision.Kind{decision.KindHealthTransition, decision.KindTrafficStep, decision.KindSharedFault} {
		for _, e := range w.events.of(kind, "") {
			fmt.Fprintf(&b, "%s %s %s %s>%s %s by %s %s: %s\n", e.Time.Sub(w.began).Round(time.Second), e.Event, e.Provider, e.From, e.To, e.Reason, e.By, e.Result, e.Detail)
		}
	}
	return b.String()
}
