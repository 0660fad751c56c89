package gateway_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator"
	"failback/gateway/operator/api"
	"failback/gateway/traffic"
	"failback/internal/bubble"
)

// leaves has an operator degrade name and bring it back to its first step.
func (w *ward) leaves(name, by string) {
	w.Helper()
	if err := w.command(name, by, api.Command{State: api.Degraded, Reason: "drill"}); err != nil {
		w.Fatal(err)
	}
	w.passes(time.Second)
}

// Two primaries of different models come back at once: each shows itself to
// other users first, and both heal.
func TestTwoUpstreamsComeBackAtOnce(t *testing.T) {
	const pace = ", probe: {every: 5s}"
	inWard(t, illness{
		rate: 20, names: []string{"A", "B", "C"}, asks: []string{"a", "b"},
		models: "  a: {candidates: [{upstream: A, model: x, capabilities: [text]}, {upstream: C, model: x, weight: 90, capabilities: [text]}]}\n" +
			"  b: {candidates: [{upstream: B, model: x, capabilities: [text]}, {upstream: C, model: x, weight: 90, capabilities: [text]}]}\n",
		steps:     "[{share: 5, observe: 60s}, {share: 50, observe: 30s}, {share: 100}]",
		upstreams: map[string]string{"A": pace, "B": pace, "C": pace},
	}, func(w *ward) {
		w.passes(30 * time.Second)
		w.up["A"].plays(status(500, hostErrorBody))
		w.up["B"].plays(status(503, hostErrorBody))
		w.until("both are degraded", 10*time.Minute, func(s api.State) bool {
			return is("A", api.Degraded)(s) && is("B", api.Degraded)(s)
		})
		w.up["A"].plays(ok)
		w.up["B"].plays(ok)
		w.stepsUp("A", 5*time.Minute)
		w.stepsUp("B", 5*time.Minute)
		first := w.now()
		w.passes(110 * time.Second) // each conversation asks for both models
		users := map[string]map[int]bool{"A": {}, "B": {}}
		for _, e := range w.since(first) {
			if m := users[e.upstream]; m != nil {
				m[e.talk] = true
			}
		}
		both := 0
		for c := range users["A"] {
			if users["B"][c] {
				both++
			}
		}
		a, b := len(users["A"]), len(users["B"])
		t.Logf("first users: %d and %d, %d of both", a, b, both)
		if a < 20 || a > 90 || b < 20 || b > 90 || both > 12 {
			t.Errorf("first users: %d and %d, %d of both", a, b, both)
		}
		w.heals("A", 10*time.Minute)
		w.heals("B", 10*time.Minute)
		if f := failedPart(w.since(first)); f > 0.001 {
			t.Errorf("%g failed", f)
		}
	})
}

// Where too few requests come for a step, it is held, with an estimate, until
// passed probes stand in for them.
func TestTenRequestsAMinute(t *testing.T) {
	inWard(t, illness{rate: 1. / 6, steps: "[{share: 25, observe: 120s}, {share: 100}]"}, func(w *ward) {
		w.passes(time.Minute)
		w.leaves("A", "ann")
		w.stepsUp("A", 10*time.Minute)
		began := w.now()
		w.passes(5 * time.Minute)
		u := w.upstream("A")
		e := u.Evidence
		if e == nil || e.Verdict != "no data" || e.EnoughInSeconds <= 0 || !strings.Contains(u.NextStep.BlockedBy, "enough in about") {
			t.Fatalf("%+v\n%s", e, w.tell())
		}
		var blocked *api.Error
		if err := w.share("A", "ann", 100); !errors.As(err, &blocked) || blocked.Code != api.CodeBlocked {
			t.Errorf("the step was not refused: %v", err)
		}
		took := w.until("the step is open", 30*time.Minute, passed("A"))
		// As often as probes come so far, at one of 90 s.
		if r := took.Seconds() / e.EnoughInSeconds; r < 0.6 || r > 1.5 {
			t.Errorf("said enough in %.0f s, it took %s", e.EnoughInSeconds, took)
		}
		if n := w.probesOf("A", began); n < 10 {
			t.Errorf("it opened after %d probes\n%s", n, w.tell())
		}
		if e := w.upstream("A").Evidence; e.Verdict != "pass" || e.Requests >= 50 {
			t.Errorf("%+v", e)
		}
		w.heals("A", 20*time.Minute)
	})
}

// A failback keeps the steps it began with; what an upstream is primary of is
// what its evidence is about; one that is taken out comes back as it was.
func TestReloadsOnTheWayBack(t *testing.T) {
	inWard(t, illness{rate: 10, streams: true}, func(w *ward) {
		w.passes(time.Minute)
		w.leaves("A", "ann")
		w.stepsUp("A", 10*time.Minute)
		w.stepsUp("A", 10*time.Minute)
		w.passes(30 * time.Second)
		before, yaml := w.upstream("A"), w.yaml
		same := func(what string) {
			t.Helper()
			u := w.upstream("A")
			if u.Share != 75 || u.Health != api.Recovering || u.FailbackID != before.FailbackID || !slices.Equal(u.Steps, before.Steps) || u.NextStep.Share != 100 {
				t.Fatalf("%s: %+v", what, u)
			}
		}
		// Other steps, windows and weights.
		changed := strings.Replace(yaml, quickSteps, "[{share: 10, observe: 5s}, {share: 50, observe: 5s}, {share: 100}]", 1)
		changed = strings.Replace(changed, "weight: 100,", "weight: 200,", 1)
		changed = strings.Replace(changed, "health: {", "health: {recovery_window: 30s, ", 1)
		changed = strings.Replace(changed, "upstreams:\n", "breaker: {window: 20s}\nupstreams:\n", 1)
		requests := before.Evidence.Requests
		w.reloads(changed)
		w.passes(2 * time.Second)
		same("other steps")
		if e := w.upstream("A").Evidence; e == nil || e.Requests < requests || e.ObserveSeconds != 60 {
			t.Errorf("its evidence began anew: %+v", e)
		}

		// Taken out, and put back.
		w.reloads(strings.Replace(strings.Replace(changed,
			"{upstream: A, model: x, weight: 200, capabilities: [text, stream]}, ", "", 1),
			"  A: {", "  Z: {", 1))
		gone := w.now()
		w.passes(time.Minute)
		if n := w.clientsOf("A", gone+time.Second); n > 0 {
			t.Errorf("%d requests reached what is not configured", n)
		}
		var missing *api.Error
		if err := w.share("A", "ann", 100); !errors.As(err, &missing) || missing.Code != api.CodeNotFound {
			t.Errorf("%v", err)
		}
		w.reloads(changed)
		w.passes(2 * time.Second)
		same("put back")
		if e := w.upstream("A").Evidence; e == nil || e.Requests > 40 || e.Verdict != "no data" {
			t.Errorf("%+v", e)
		}

		// Another primary: what was seen of the other traffic does not count.
		w.passes(20 * time.Second)
		w.reloads(strings.Replace(changed, "weight: 200,", "weight: 50,", 1))
		w.passes(3 * time.Second)
		u := w.upstream("A")
		if u.Share != 75 || u.Health != api.Recovering || len(u.PrimaryOf) != 0 || u.Evidence == nil || u.Evidence.Requests != 0 {
			t.Fatalf("%+v %+v", u, u.Evidence)
		}
		w.reloads(changed)
		w.passes(2 * time.Second)
		if e := w.upstream("A").Evidence; e == nil || e.Requests > 40 || e.ServedSeconds > 5 {
			t.Errorf("%+v", e)
		}
		w.heals("A", 10*time.Minute)
		// The next one begins with the steps as they are now.
		w.leaves("A", "ann")
		if u := w.upstream("A"); len(u.Steps) != 3 || u.Steps[0].Share != 10 {
			t.Errorf("%+v", u.Steps)
		}
		if f := failedPart(w.since(0)); f > 0 {
			t.Errorf("%g failed", f)
		}
	})
}

// moodyStorage takes its time, or fails.
type moodyStorage struct {
	traffic.Memory

	mu    sync.Mutex // guards everything that follows
	fails bool
	takes time.Duration
}

func (m *moodyStorage) Save(ctx context.Context, records map[string]traffic.Record) error {
	m.mu.Lock()
	fails, takes := m.fails, m.takes
	m.mu.Unlock()
	bubble.Sleep(takes)
	if fails {
		return errors.New("no space left on device")
	}
	return m.Memory.Save(ctx, records)
}

func (m *moodyStorage) becomes(fails bool, takes time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails, m.takes = fails, takes
}

// While the machine takes the steps of a plan, an operator who lowers wins,
// whatever is on its way; one who raises on what is no longer so is told.
func TestAnOperatorLowersWhileAPlanGoesOn(t *testing.T) {
	storage := &moodyStorage{}
	inWard(t, illness{rate: 10, streams: true, failback: ", advance: plan", storage: storage}, func(w *ward) {
		w.passes(time.Minute)
		w.leaves("A", "ann")
		w.stepsUp("A", 10*time.Minute)
		revision := w.upstream("A").Revision
		if err := w.command("A", "ann", api.Command{Action: api.ActionPlan, Revision: &revision, Reason: "go on"}); err != nil {
			t.Fatal(err)
		}
		// Writing a raise takes three seconds: the lowering comes meanwhile.
		storage.becomes(false, 3*time.Second)
		w.until("the evidence passes", 5*time.Minute, func(s api.State) bool {
			e := of(s, "A").Evidence
			return e != nil && e.Verdict == "pass"
		})
		stale := w.upstream("A").Revision
		if err := w.shareAt("A", "bob", 0, stale); err != nil {
			t.Fatal(err)
		}
		w.passes(10 * time.Second)
		u := w.upstream("A")
		if u.Share != 0 || u.StateBy != "bob" || u.Plan != nil || u.Unsynced {
			t.Fatalf("%+v\n%s", u, w.tell())
		}
		storage.becomes(false, 0)
		var e *api.Error
		if err := w.shareAt("A", "ann", 75, stale); !errors.As(err, &e) || e.Code != api.CodeStaleRevision || e.Upstream == nil || e.Upstream.Share != 0 || e.Upstream.Revision != u.Revision {
			t.Errorf("%+v", err)
		}
		// The plan is over: nothing goes up by itself.
		w.passes(5 * time.Minute)
		if u := w.upstream("A"); u.Share != 0 {
			t.Fatalf("%+v\n%s", u, w.tell())
		}

		// With a plan again it climbs to the end by itself.
		w.stepsUp("A", 10*time.Minute)
		revision = w.upstream("A").Revision
		if err := w.command("A", "ann", api.Command{Action: api.ActionPlan, Revision: &revision}); err != nil {
			t.Fatal(err)
		}
		w.until("A is at 75 by its plan", 10*time.Minute, func(s api.State) bool { return of(s, "A").Share == 75 })

		// Storage fails: a raise is refused, a lowering holds here.
		storage.becomes(true, 0)
		if err := w.share("A", "bob", 25); err != nil {
			t.Fatal(err)
		}
		if u := w.upstream("A"); u.Share != 25 || !u.Unsynced {
			t.Errorf("%+v", u)
		}
		w.until("the evidence passes", 5*time.Minute, passed("A"))
		if err := w.share("A", "bob", 75); !errors.As(err, &e) || e.Code != api.CodeFailed {
			t.Errorf("%v", err)
		}
		if u := w.upstream("A"); u.Share != 25 {
			t.Errorf("%+v", u)
		}
		if err := w.command("A", "cho", api.Command{State: api.Degraded, Reason: "it burns"}); err != nil {
			t.Fatal(err)
		}
		if u := w.upstream("A"); u.Share != 0 || !u.Unsynced {
			t.Errorf("%+v", u)
		}
		storage.becomes(false, 0)
		w.until("it is written down", 2*time.Minute, func(s api.State) bool { return !of(s, "A").Unsynced })
		w.heals("A", 10*time.Minute)
		if f := failedPart(w.since(0)); f > 0 {
			t.Errorf("%g failed", f)
		}
	})
}

// In shadow the machine says what it would do, and does nothing.
func TestHealthInShadow(t *testing.T) {
	inWard(t, illness{health: "mode: shadow", failback: ", advance: plan"}, func(w *ward) {
		w.passes(time.Minute)
		w.up["A"].plays(status(500, hostErrorBody))
		w.passes(10 * time.Minute)
		var would []api.Event
		for _, e := range w.events.of(decision.KindHealthTransition, "A") {
			if e.Result == "shadow" {
				would = append(would, e)
			}
		}
		if len(would) != 1 || would[0].Action != "degrade" || would[0].By != "auto" {
			t.Errorf("%+v", would)
		}
		if l := w.events.of(decision.KindTrafficStep, ""); len(l) > 0 {
			t.Errorf("%v", l)
		}
		if u := w.upstream("A"); u.Share != 100 || u.Health != api.Suspect || !strings.Contains(u.HealthReason, "would be degraded") {
			t.Errorf("%s at %d%%: %s", u.Health, u.Share, u.HealthReason)
		}
		if n := w.notes("degraded"); n > 0 {
			t.Errorf("%d people were told of what did not happen", n)
		}
		if f := failedPart(w.since(0)); f > 0.001 {
			t.Errorf("%g failed", f)
		}
	})
}

// Probes keep to their daily cost, and say so when it binds.
func TestProbesKeepToTheirCost(t *testing.T) {
	inWard(t, illness{streams: true, upstreams: map[string]string{
		"A": ", prices: {x: {input: 1000, output: 1000}}, probe: {every: 10s, max_cost_usd_per_day: 0.2}",
	}}, func(w *ward) {
		w.passes(10 * time.Minute)
		if n := w.probesOf("A", 0); n < 4 || n > 6 {
			t.Errorf("%d probes at 0.031 USD for 0.2", n)
		}
		u := w.upstream("A")
		p := u.Probes[0]
		if p.Held == "" || p.SpentUSD.Value > 0.2 || p.SpentUSD.Value < 0.1 {
			t.Errorf("%+v", p)
		}
		// Nobody knows by probes how it is, so that requests alone judge it, and
		// clients find out when it is back.
		if u.Health != api.Healthy {
			t.Errorf("%s: %s", u.Health, u.HealthReason)
		}
		w.degrades("A")
		w.up["A"].plays(ok)
		w.passes(2 * time.Minute)
		if by := w.upstream("A").NextStep.BlockedBy; !strings.Contains(by, p.Held) {
			t.Errorf("blocked by %q", by)
		}
		revision := w.upstream("A").Revision
		if err := w.command("A", "ann", api.Command{State: api.Recovering, Revision: &revision, Override: true, Reason: "I saw it"}); err != nil {
			t.Fatal(err)
		}
		// From then on its own requests are the evidence.
		w.heals("A", 20*time.Minute)
	})
}

// While suspect or degraded an upstream is probed at the pace of the cooldown,
// and once degraded by nobody else.
func TestThePaceOfProbes(t *testing.T) {
	inWard(t, illness{}, func(w *ward) {
		w.passes(10 * time.Minute)
		if n := w.probesOf("A", 0); n < 5 || n > 8 {
			t.Errorf("%d probes in 10 min at one in 90 s", n)
		}
		ill := w.now()
		w.degrades("A")
		if took := w.now() - ill; took > 3*time.Minute {
			t.Errorf("a total outage was one for %s", took)
		}
		from := w.now()
		w.passes(10 * time.Minute)
		if n := w.probesOf("A", from); n < 30 || n > 45 {
			t.Errorf("%d probes in 10 min at one in 15 s", n)
		}
		w.up["A"].plays(ok)
		w.passes(5 * time.Minute)
		if n := w.clientsOf("A", from); n > 0 {
			t.Errorf("%d clients' requests reached a degraded upstream", n)
		}
		if b := w.bucket("A:text"); b.State != "closed" {
			t.Errorf("the prober did not close the breaker: %+v", b)
		}
	})
}

// People are told once of each thing that needs one.
func TestEachMessageOnce(t *testing.T) {
	inWard(t, illness{rate: 10, streams: true}, func(w *ward) {
		w.passes(time.Minute)
		expect := func(when string, degraded, retreat, waiting int) {
			t.Helper()
			w.passes(90 * time.Second)
			synctest.Wait()
			if d, r, g := w.notes("degraded"), w.notes("retreat"), w.notes("waiting"); d != degraded || r != retreat || g != waiting {
				t.Errorf("%s: %d degraded, %d retreat, %d waiting: %+v\n%s", when, d, r, g, w.told, w.tell())
			}
		}
		w.degrades("A")
		expect("degraded", 1, 0, 0)
		w.up["A"].plays(ok)
		w.until("the probes pass", 5*time.Minute, passed("A"))
		expect("probed", 1, 0, 1)
		w.stepsUp("A", time.Minute)
		w.until("the step passes", 5*time.Minute, passed("A"))
		expect("a step passed", 1, 0, 2)
		w.stepsUp("A", time.Minute)
		w.up["A"].plays(w.sick(0.3, 500))
		w.until("it retreats", 10*time.Minute, func(s api.State) bool { return of(s, "A").Share == 25 })
		w.up["A"].plays(ok)
		w.passes(30 * time.Second)
		if d, r := w.notes("degraded"), w.notes("retreat"); d != 1 || r != 1 {
			t.Errorf("retreat: %d degraded, %d retreat: %+v", d, r, w.told)
		}
		w.heals("A", 10*time.Minute)
		if d, r := w.notes("degraded"), w.notes("retreat"); d != 1 || r != 1 {
			t.Errorf("in the end: %+v", w.told)
		}
		if f := failedPart(w.since(0)); f > 0.001 {
			t.Errorf("%g failed", f)
		}
	})
}

// A request that does not end when the gateway does costs no share.
func TestAStuckRequestCostsNoShare(t *testing.T) {
	storage := &moodyStorage{}
	inWard(t, illness{storage: storage}, func(w *ward) {
		w.passes(10 * time.Second)
		for _, name := range w.names {
			w.up[name].plays(func(e *exchange) { e.hang() })
		}
		gw, life := w.gw, context.Background()
		w.life = life // nobody ends it
		w.clients.Go(func() { w.one(0) })
		synctest.Wait()
		if err := w.command("A", "ann", api.Command{State: api.Degraded, Reason: "drill"}); err != nil {
			t.Fatal(err)
		}
		bubble.Sleep(3 * time.Second) // served, which is still to be written
		storage.becomes(false, 100*time.Millisecond)
		if err := gw.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		records, _ := storage.Load(context.Background())
		if r := records["A"]; r.Share != 0 || r.By != "ann" {
			t.Errorf("%+v", records)
		}
		for _, name := range w.names {
			w.up[name].closes()
			w.listens(name)
			w.up[name].plays(ok)
		}
		w.starts()
	})
}

// A step that fails where nobody else could take over is held, and judged anew:
// what is over does not fail it for ever.
func TestAFailedStepOfTheLastCandidate(t *testing.T) {
	inWard(t, illness{names: []string{"A"}, rate: 10, streams: true}, func(w *ward) {
		w.passes(time.Minute)
		if err := w.share("A", "ann", 0); err != nil {
			t.Fatal(err)
		}
		w.stepsUp("A", 10*time.Minute)
		w.up["A"].plays(status(500, hostErrorBody))
		w.until("the step fails", 5*time.Minute, func(s api.State) bool {
			e := of(s, "A").Evidence
			return e != nil && e.Verdict == "fail"
		})
		w.passes(5 * time.Minute)
		if u := w.upstream("A"); u.Share != 25 || u.Retreats != 0 {
			t.Fatalf("%+v", u)
		}
		w.up["A"].plays(ok)
		w.heals("A", 15*time.Minute)
	})
}

// While a passthrough decides instead of the shares the machine raises none, and
// goes on afterwards.
func TestNoStepDuringAPassthrough(t *testing.T) {
	inWard(t, illness{rate: 10, streams: true, failback: ", advance: plan", steps: "[{share: 25, observe: 5m}, {share: 100}]"}, func(w *ward) {
		passthrough := func(c api.Command) {
			t.Helper()
			if _, err := w.gw.Control().Passthrough(context.Background(), operator.Actor{Name: "ann", Role: api.RoleOperator}, c); err != nil {
				t.Fatal(err)
			}
		}
		w.passes(time.Minute)
		w.leaves("A", "ann")
		w.stepsUp("A", 10*time.Minute)
		revision := w.upstream("A").Revision
		if err := w.command("A", "ann", api.Command{Action: api.ActionPlan, Revision: &revision}); err != nil {
			t.Fatal(err)
		}
		w.passes(4*time.Minute + 50*time.Second) // of the five that the step is observed
		if e := w.upstream("A").Evidence; e == nil || w.upstream("A").Share != 25 {
			t.Fatalf("%+v\n%s", e, w.tell())
		}
		passthrough(api.Command{Action: "on", Order: []string{"B"}, For: "10m"})
		w.passes(5 * time.Minute)
		if u := w.upstream("A"); u.Share != 25 {
			t.Errorf("at %d%%\n%s", u.Share, w.tell())
		}
		passthrough(api.Command{Action: "off"})
		w.until("the plan goes on", 15*time.Minute, func(s api.State) bool { return of(s, "A").Share > 25 })
	})
}
