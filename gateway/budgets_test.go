package gateway

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"failback/gateway/budget"
	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/jobs"
	"failback/gateway/operator/api"
	"failback/gateway/store"
	"failback/internal/bubble"
)

// spentUpstream answers until it is broken, then with 500.
type spentUpstream struct {
	*httptest.Server
	broken atomic.Bool
}

func newSpentUpstream(t *testing.T) *spentUpstream {
	t.Helper()
	u := &spentUpstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case u.broken.Load():
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"error":{"message":"broken","type":"server_error"}}`)
		case strings.Contains(string(body), `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","model":"x","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		default:
			_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"x","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
		}
	}))
	t.Cleanup(u.Close)
	return u
}

const bothObjectives = "slo: {availability: 0.9, first_output: {under: 5s, ratio: 0.5}}, "

// spending starts a gateway on dir with the models m (of objectives) and plain.
func spending(t *testing.T, dir, instance, upstream, objectives, more string) *Gateway {
	t.Helper()
	yaml := fmt.Sprintf("listen: 127.0.0.1:0\ndata_dir: %q\ndrain_delay: 0s\ntelemetry: {decision_log: none}\nbreaker: {mode: shadow}\nhealth: {mode: shadow}\nretry: {base: 1ms, cap: 1ms, patience: 1ms}\n"+
		"upstreams:\n  a: {dialect: openai, base_url: \"%s/v1\", api_key: key}\nmodels:\n  m: {%scandidates: [{upstream: a}]}\n  plain: {candidates: [{upstream: a}]}\n%s", dir, upstream, objectives, more)
	g := New(Options{Instance: instance, Load: func(ctx context.Context) (*config.Config, error) {
		return config.Load(ctx, config.Source{Data: []byte(yaml)})
	}})
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopSpending(t, g) })
	return g
}

func stopSpending(t *testing.T, g *Gateway) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := g.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// ask sends n requests for a model, streams if stream.
func ask(t *testing.T, g *Gateway, model string, stream bool, n int) {
	t.Helper()
	for range n {
		body := fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"hi"}]}`, model, stream)
		res, err := http.Post("http://"+g.ClientAddr()+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	// A request's record comes after its answer.
	deadline := time.After(20 * time.Second)
	for g.inflight.Load() > 0 {
		select {
		case <-deadline:
			t.Fatal("requests do not end")
		case <-time.After(time.Millisecond):
		}
	}
}

// budgetOf is m's budget as the operator API has it.
func budgetOf(t *testing.T, g *Gateway, objective string) api.Budget {
	t.Helper()
	for _, m := range g.OperatorState().Models {
		if m.Name != "m" && len(m.Budgets) > 0 {
			t.Errorf("%s has no objective: %+v", m.Name, m.Budgets)
		}
		for _, b := range m.Budgets {
			if m.Name == "m" && b.Objective == objective {
				return b
			}
		}
	}
	t.Fatalf("no budget of %s", objective)
	return api.Budget{}
}

// gauge is the value of one series of /metrics; NaN if there is none.
func gauge(t *testing.T, g *Gateway, name string, want map[string]string) float64 {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == name && cmp.Equal(labels, want) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return math.NaN()
}

// An outage is spent from both budgets, by provider and reason: metrics and API
// agree, and a restart goes on.
func TestOutageIsSpent(t *testing.T) {
	u, dir := newSpentUpstream(t), t.TempDir()
	g := spending(t, dir, "g", u.URL, bothObjectives, "")
	m := map[string]string{"model": "m", "objective": "availability"}
	for name, want := range map[string]float64{"failback_slo_objective_ratio": 0.9, "failback_slo_budget_spent_ratio": 0} {
		if got := gauge(t, g, name, m); got != want {
			t.Errorf("at the start: %s is %v, want %v", name, got, want)
		}
	}
	for _, v := range []string{"good", "bad"} {
		if got := gauge(t, g, "failback_slo_first_output_total", map[string]string{"model": "m", "verdict": v}); got != 0 {
			t.Errorf("at the start: first output, %s: %v", v, got)
		}
	}
	if b := budgetOf(t, g, "availability"); b.Spent.State != api.StateIdle || b.BurnFast.State != api.StateIdle || b.WindowSeconds != 720*3600 {
		t.Errorf("at the start: %+v", b)
	}
	ask(t, g, "m", false, 12)
	ask(t, g, "m", true, 6)
	ask(t, g, "plain", false, 3)
	u.broken.Store(true)
	ask(t, g, "m", false, 4)
	ask(t, g, "m", true, 2)
	ask(t, g, "plain", false, 1)
	check := func(g *Gateway, times uint64) {
		t.Helper()
		for _, want := range []struct {
			objective string
			good, bad uint64
			spent     float64
		}{{"availability", 18, 6, 2.5}, {"first_output", 6, 2, 0.5}} {
			b := budgetOf(t, g, want.objective)
			good, bad := want.good*times, want.bad*times
			if b.Good != good || b.Bad != bad || math.Abs(b.Spent.Value-want.spent) > 1e-9 || math.Abs(b.BurnFast.Value-want.spent) > 1e-9 || math.Abs(b.BurnSlow.Value-want.spent) > 1e-9 || b.Burning != "" {
				t.Errorf("%s: %+v", want.objective, b)
			}
			if diff := cmp.Diff([]api.BudgetSpend{{Provider: "a", Reason: "server_error", Bad: bad}}, b.By); diff != "" {
				t.Errorf("%s: %s", want.objective, diff)
			}
			labels := map[string]string{"model": "m", "objective": want.objective}
			if got := gauge(t, g, "failback_slo_budget_spent_ratio", labels); math.Abs(got-want.spent) > 1e-9 {
				t.Errorf("%s: the metric says %v", want.objective, got)
			}
			labels["provider"], labels["reason"] = "a", "server_error"
			if got := gauge(t, g, "failback_slo_budget_bad_requests", labels); got != float64(bad) {
				t.Errorf("%s: the metric says %v bad", want.objective, got)
			}
		}
	}
	check(g, 1)
	if got := gauge(t, g, "failback_slo_requests_total", map[string]string{"model": "m", "provider": "none", "verdict": "bad", "reason": "server_error"}); got != 6 {
		t.Errorf("the counter of availability says %v", got)
	}
	if got := gauge(t, g, "failback_slo_first_output_total", map[string]string{"model": "m", "verdict": "bad"}); got != 2 {
		t.Errorf("the counter of first output says %v", got)
	}
	stopSpending(t, g)

	// The objective is gone for one run: its counts come back with it.
	g = spending(t, dir, "g", u.URL, "", "")
	ask(t, g, "m", false, 1)
	stopSpending(t, g)
	g = spending(t, dir, "g", u.URL, bothObjectives, "")
	check(g, 1)
	if b := budgetOf(t, g, "availability"); b.CoveredSeconds <= 0 || b.CoveredSeconds > 3600 {
		t.Errorf("covered: %v", b.CoveredSeconds)
	}
}

// Gateways of one store add up, each under its own name, and one that starts
// anew counts nothing twice.
func TestBudgetsOfAStoreAddUp(t *testing.T) {
	u := newSpentUpstream(t)
	shared := fmt.Sprintf("store: {nats: %q}\n", onNATS(t, t.TempDir(), 0).ClientURL())
	dirs := []string{t.TempDir(), t.TempDir()}
	gs := make([]*Gateway, 2)
	for i, dir := range dirs {
		gs[i] = spending(t, dir, fmt.Sprint("g", i), u.URL, bothObjectives, shared)
	}
	turn := func() {
		t.Helper()
		for range 2 { // the first writes, the second reads what the other wrote
			for _, g := range gs {
				if err := g.budgets.kept.turn(t.Context(), g.budgets.set, g.budgets.now()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	check := func(what string, good, bad uint64) {
		t.Helper()
		for i, g := range gs {
			if b := budgetOf(t, g, "availability"); b.Good != good || b.Bad != bad {
				t.Errorf("%s: gateway %d says %d good, %d bad, want %d, %d", what, i, b.Good, b.Bad, good, bad)
			}
		}
	}
	ask(t, gs[0], "m", false, 3)
	ask(t, gs[1], "m", false, 4)
	u.broken.Store(true)
	ask(t, gs[1], "m", false, 2)
	turn()
	check("together", 7, 2)
	stopSpending(t, gs[0])
	gs[0] = spending(t, dirs[0], "g0", u.URL, bothObjectives, shared)
	check("one started anew", 7, 2)
	ask(t, gs[0], "m", false, 1)
	turn()
	check("and went on", 7, 3)
	if by := budgetOf(t, gs[0], "availability").By; len(by) != 1 || by[0] != (api.BudgetSpend{Provider: "a", Reason: "server_error", Bad: 3}) {
		t.Errorf("%+v", by)
	}
}

// The gateway says that a budget burns as the alerts say it.
func TestBurningIsSaid(t *testing.T) {
	u := newSpentUpstream(t)
	g := spending(t, t.TempDir(), "g", u.URL, "slo: {availability: 0.95}, ", "")
	is := func(when, want string) {
		t.Helper()
		if b := budgetOf(t, g, "availability"); b.Burning != want {
			t.Errorf("%s: %q of %+v", when, b.Burning, b)
		}
	}
	ask(t, g, "m", false, 3)
	is("all good", "")
	u.broken.Store(true)
	ask(t, g, "m", false, 3)
	is("half of them are bad: ten times too fast", api.BurningSlow)
	ask(t, g, "m", false, 12)
	is("five of six: 16 times too fast", api.BurningFast)
}

// spentSet is a set with one bad request.
func spentSet(bad int) *budget.Set {
	s := budget.New(time.Now())
	s.Configure([]budget.Objective{{Model: "m", Name: budget.Availability, Target: 0.9, Window: time.Hour}}, 0)
	for range bad {
		s.Observe(&decision.Decision{Model: "m", Status: decision.Unavailable, Reason: decision.BreakerOpen}, 0)
	}
	return s
}

func badOf(s *budget.Set) uint64 {
	return s.Report(budget.Instant{Wall: time.Now()})[0].Bad
}

func budgetsIn(t *testing.T, s *store.Store, gateway string) *budgetStore {
	t.Helper()
	b, err := newBudgetStore(s, gateway)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A process that is killed loses what came after its last writing, and no more.
// One whose writing had an unknown end, or whose predecessor wrote after it
// began, loses nothing. Two that think they are the same one say so.
func TestBudgetsAreWrittenOnce(t *testing.T) {
	s, now := openStore(t, t.TempDir()), budget.Instant{Wall: time.Now()}
	save := func(b *budgetStore, set *budget.Set) {
		t.Helper()
		if err := b.save(t.Context(), set, now); err != nil {
			t.Fatal(err)
		}
	}
	first, set := budgetsIn(t, s, ""), spentSet(3)
	save(first, set)
	first.revisions, first.sums = map[budget.Key]uint64{}, map[budget.Key][32]byte{} // as if the answer had been lost
	save(first, set)
	more := &decision.Decision{Model: "m", Status: decision.Unavailable, Reason: decision.BreakerOpen}
	set.Observe(more, 0)
	save(first, set)
	set.Observe(more, 0) // and is killed

	second, again := budgetsIn(t, s, ""), spentSet(1)
	if err := second.load(t.Context(), again, now); err != nil {
		t.Fatal(err)
	}
	if got := badOf(again); got != 4+1 {
		t.Errorf("after a kill: %d bad, want 5", got)
	}
	save(first, set) // the old one was not dead yet
	save(second, again)
	if got := badOf(again); got != 5+1 {
		t.Errorf("its predecessor wrote late: %d bad, want 6", got)
	}
	set.Observe(more, 0)
	err := first.save(t.Context(), set, now)
	if err == nil || !strings.Contains(err.Error(), "instance name") {
		t.Errorf("two of one name: %v", err)
	}
	third, last := budgetsIn(t, s, ""), spentSet(0)
	if err := third.load(t.Context(), last, now); err != nil || badOf(last) != 6 {
		t.Errorf("in the store: %d bad, %v", badOf(last), err)
	}
}

// A record that cannot be read costs that record alone, and is said.
func TestUnreadableBudget(t *testing.T) {
	s, now := openStore(t, t.TempDir()), budget.Instant{Wall: time.Now()}
	b := budgetsIn(t, s, "")
	if err := b.save(t.Context(), spentSet(3), now); err != nil {
		t.Fatal(err)
	}
	newer, err := store.NewBucket[keptBudget](s, store.BucketOptions{Name: "budgets", Version: 2, MaxBytes: budgetsBytes, TTL: budgetsTTL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newer.Put(t.Context(), "\x00m\x00first_output", keptBudget{}); err != nil {
		t.Fatal(err)
	}
	set := spentSet(0)
	if err := budgetsIn(t, s, "").load(t.Context(), set, now); err == nil || badOf(set) != 3 {
		t.Errorf("%d bad, %v", badOf(set), err)
	}
}

// The work is on the board, once a minute.
func TestBudgetsJob(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	kept := budgetsIn(t, s, "")
	g := New(Options{})
	g.budgets = &budgets{set: spentSet(2), started: time.Now(), kept: kept}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	ticks := make(chan time.Time)
	go func() { ended <- g.keepBudgetsAt(ctx, ticks) }()
	ticks <- time.Now()
	ticks <- time.Now() // the first turn is over
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	board := g.jobs.Snapshot()
	i := slices.IndexFunc(board, func(j jobs.Status) bool { return j.Name == jobBudgets })
	if i < 0 || board[i].Every != time.Minute || board[i].LastSuccess.IsZero() || board[i].Error != "" {
		t.Fatalf("%+v", board)
	}
	set := spentSet(0)
	if err := budgetsIn(t, s, "").load(t.Context(), set, budget.Instant{Wall: time.Now()}); err != nil || badOf(set) != 2 {
		t.Errorf("%d bad, %v", badOf(set), err)
	}
}

// What burns cools down as time passes, and is spent until the window is over.
func TestBudgetOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budgets{set: budget.New(time.Now()), started: time.Now()}
		b.set.Configure([]budget.Objective{{Model: "m", Name: budget.Availability, Target: 0.5, Window: 24 * time.Hour}}, 0)
		b.observe(&decision.Decision{Model: "m", Status: decision.Unavailable, Reason: decision.BreakerOpen})
		states := func() (s []bool) {
			r := b.set.Report(b.now())[0]
			return []bool{r.Fast.Known, r.Slow.Known, r.Spent.Known}
		}
		for _, want := range []struct {
			after time.Duration
			is    []bool
		}{
			{0, []bool{true, true, true}}, {59 * time.Minute, []bool{true, true, true}}, {10 * time.Minute, []bool{false, true, true}},
			{5 * time.Hour, []bool{false, false, true}}, {17 * time.Hour, []bool{false, false, true}}, {2 * time.Hour, []bool{false, false, false}},
		} {
			bubble.Sleep(want.after)
			if got := states(); !slices.Equal(got, want.is) {
				t.Errorf("after %s more: %v, want %v", want.after, got, want.is)
			}
		}
	})
}
