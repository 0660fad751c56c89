package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
	"failback/gateway/traffic"
)

// chaos is a ward in which anything happens: upstreams fall ill in every way,
// two operators command what they like, partly on what they saw long ago, the
// configuration is reloaded and the gateway restarted. What must hold is checked
// all the while.
type chaos struct {
	*ward
	r       *rand.Rand
	advance string
	did     []string // what happened, for a failed test

	candidates map[string][]string // by model, in every configuration
	seen       map[string]uint64   // revisions that operators remember
	read       int                 // events that were checked
	shares     map[string]int
	by         map[string]string        // who degraded it, empty if it is not degraded
	since      map[string]time.Duration // when
	fault      bool                     // paths fail
	ends       int                      // that were checked
	reloaded   time.Duration            // when the configuration was, last
}

const (
	chaosSteps  = "[{share: 25, observe: 15s}, {share: 75, observe: 15s}, {share: 100}]"
	chaosModels = `  m: {candidates: [{upstream: A, model: x, capabilities: [text]}, {upstream: B, model: x, weight: 90, capabilities: [text]}]}
  n: {candidates: [{upstream: C, model: x, weight: 80, capabilities: [text]}, {upstream: B, model: x, weight: 70, capabilities: [text]}]}
  solo: {candidates: [{upstream: D, model: x, capabilities: [text]}]}
`
	chaosMore = `breaker: {cooldown: 3s, cooldown_max: 12s, window: 10s}
unary_attempt: {floor: 4s}
deadline: {unary: 20s}
errors: {credential: switch}
`
)

func TestAnythingHappens(t *testing.T) {
	for seed, advance := range []string{"manual", "plan", "auto", "auto"} {
		if testing.Short() && seed != 1 {
			continue
		}
		t.Run(fmt.Sprintf("seed_%d_%s", seed, advance), func(t *testing.T) {
			const every = ", probe: {every: 5s}"
			inWard(t, illness{
				brief: true, rate: 6, names: []string{"A", "B", "C", "D"}, asks: []string{"m", "n", "solo"},
				models: chaosModels, steps: chaosSteps, failback: ", min_requests: 10, advance: " + advance,
				health: "suspect_window: 15s, recovery_window: 15s, min_traffic: 5", more: chaosMore,
				upstreams: map[string]string{"A": every, "B": every, "C": every, "D": every},
			}, func(w *ward) {
				c := &chaos{
					ward: w, r: rand.New(rand.NewPCG(uint64(seed), 7)), advance: advance,
					candidates: map[string][]string{"m": {"A", "B"}, "n": {"C", "B"}, "solo": {"D"}},
					seen:       map[string]uint64{}, shares: map[string]int{}, by: map[string]string{}, since: map[string]time.Duration{},
				}
				defer func() {
					if t.Failed() {
						t.Logf("seed %d, advance %s:\n%s\n%s", seed, advance, strings.Join(c.did, "\n"), w.tell())
					}
				}()
				for _, name := range w.names {
					c.shares[name] = traffic.Full
				}
				w.passes(20 * time.Second)
				for range 50 {
					for range c.r.IntN(3) {
						c.happens()
					}
					for range 3 + c.r.IntN(25) {
						w.passes(time.Second)
						c.check()
					}
				}
				c.calm()
			})
		})
	}
}

func (c *chaos) note(format string, args ...any) {
	c.did = append(c.did, fmt.Sprintf("%s %s", c.now().Round(time.Millisecond), fmt.Sprintf(format, args...)))
}

// happens does one thing.
func (c *chaos) happens() {
	name := c.names[c.r.IntN(len(c.names))]
	switch n := c.r.IntN(20); {
	case n < 10:
		c.falls(name)
	case n < 17:
		c.commands(name, []string{"ann", "bob"}[c.r.IntN(2)])
	case n < 19:
		yaml := c.variants()[c.r.IntN(3)]
		c.note("reload")
		c.reloads(yaml)
		c.reloaded = c.now()
	default:
		c.note("restart")
		c.stops()
		c.starts()
	}
}

// falls gives an upstream another behaviour.
func (c *chaos) falls(name string) {
	kinds := []string{"ok", "ok", "ok", "500", "partly", "slow", "silent", "401", "refuses"}
	c.becomes(name, kinds[c.r.IntN(len(kinds))])
}

func (c *chaos) becomes(name, kind string) {
	c.note("%s: %s", name, kind)
	a := c.up[name]
	a.closes()
	if kind == "refuses" {
		return
	}
	c.listens(name)
	a.plays(map[string]func(*exchange){
		"ok": ok, "500": status(500, hostErrorBody), "partly": c.sick(0.4, 503),
		"slow":   func(e *exchange) { e.wait(3 * time.Second); ok(e) },
		"silent": func(e *exchange) { e.hang() },
		"401":    status(401, `{"error":{"message":"no","type":"authentication_error","param":null,"code":"invalid_api_key"}}`),
	}[kind])
}

// variants are configurations: the one of the start, with other steps, and with
// another primary.
func (c *chaos) variants() []string {
	base := c.initial
	return []string{
		base,
		strings.Replace(base, chaosSteps, "[{share: 10, observe: 10s}, {share: 100}]", 1),
		strings.Replace(base, "{upstream: C, model: x, weight: 80,", "{upstream: C, model: x, weight: 60,", 1),
	}
}

// commands has an operator do something, and checks what comes of it.
func (c *chaos) commands(name, by string) {
	before := c.upstream(name)
	revision, stale := before.Revision, false
	if old, known := c.seen[name]; known && c.r.IntN(3) == 0 {
		revision, stale = old, old != before.Revision
	}
	c.seen[name] = before.Revision
	var err error
	cmd := api.Command{Revision: &revision}
	switch n := c.r.IntN(10); {
	case n < 2:
		cmd = api.Command{State: api.Degraded, Reason: "drill"}
	case n < 4:
		lower := 0
		for _, s := range before.Steps {
			if s.Share < before.Share && c.r.IntN(2) == 0 {
				lower = s.Share
			}
		}
		cmd.Share = &lower
	case n < 7:
		next := before.NextStep.Share
		if next == 0 {
			return
		}
		cmd.Share = &next
	case n < 8:
		next := before.NextStep.Share
		if next == 0 {
			return
		}
		cmd.Share, cmd.Override, cmd.Reason = &next, true, "I know better"
	case n < 9:
		cmd.Undo = true
	default:
		cmd.Action = api.ActionPlan
	}
	err = c.command(name, by, cmd)
	after := c.upstream(name)
	c.note("%s: %s at revision %d (stale: %t): %+v: %v", name, by, revision, stale, text(cmd), err)
	refusal, _ := errors.AsType[*api.Error](err)
	lowers := cmd.State == api.Degraded || cmd.Share != nil && *cmd.Share <= before.Share
	switch {
	case err != nil && refusal == nil:
		c.Errorf("%s: an error without a code: %v", name, err)
	case lowers && err != nil:
		c.Errorf("%s: a lowering was refused: %v", name, err)
	case lowers && cmd.Share != nil && after.Share > *cmd.Share, cmd.State != "" && after.Share != 0:
		c.Errorf("%s: a lowering came to %d%%", name, after.Share)
	case lowers || err != nil && !stale:
	case stale && cmd.Action == "" && (err == nil || refusal.Code != api.CodeStaleRevision && refusal.Code != api.CodeBlocked || refusal.Upstream == nil || refusal.Upstream.Revision != before.Revision):
		c.Errorf("%s: a raise on revision %d, which is %d, came to %v", name, revision, before.Revision, err)
	case err == nil && cmd.Share != nil && !cmd.Override && before.NextStep.BlockedBy != "":
		c.Errorf("%s: raised although blocked by %s", name, before.NextStep.BlockedBy)
	}
}

func text(cmd api.Command) string {
	switch {
	case cmd.State != "":
		return cmd.State
	case cmd.Share != nil:
		return fmt.Sprintf("%d%% (override: %t)", *cmd.Share, cmd.Override)
	case cmd.Undo:
		return "undo"
	}
	return cmd.Action
}

// check looks at what happened since it looked last.
func (c *chaos) check() {
	c.events.mu.Lock()
	events := slices.Clone(c.events.all[c.read:])
	c.events.mu.Unlock()
	c.read += len(events)
	c.served()
	for i := range events {
		switch e := &events[i]; {
		case e.Event == string(decision.KindSharedFault):
			c.fault = e.To == "begun" && e.Reason == "path"
		case e.Event == string(decision.KindTrafficStep) && e.Action == "share":
			c.moved(e)
		}
	}
}

// moved checks one move of a share.
func (c *chaos) moved(e *api.Event) {
	from, _ := strconv.Atoi(e.From)
	to, _ := strconv.Atoi(e.To)
	name, at := e.Provider, e.Time.Sub(c.began)
	c.note("%s: %d%% > %d%% %s by %s: %s", name, from, to, e.Reason, e.By, e.Detail)
	if from != c.shares[name] {
		c.Errorf("%s at %s: a step from %d%%, where it was at %d%%", name, at, from, c.shares[name])
	}
	person := e.By == "ann" || e.By == "bob"
	plan := strings.HasPrefix(e.By, "plan:")
	switch {
	case person:
	case to > from && plan:
	case to > from && e.By == decision.Auto && c.advance == "auto" && (from > 0 || c.by[name] == decision.Auto):
	case to < from && e.By == decision.Auto && (e.Reason == "degraded" || e.Reason == "retreat"):
	default:
		c.Errorf("%s at %s: %d%% > %d%% by %s, %s", name, at, from, to, e.By, e.Reason)
	}
	if to == 0 && e.By == decision.Auto {
		if c.fault {
			c.Errorf("%s at %s: degraded during a shared fault", name, at)
		}
		for model, candidates := range c.candidates {
			if slices.Contains(candidates, name) && !slices.ContainsFunc(candidates, func(o string) bool { return o != name && c.shares[o] > 0 }) {
				c.Errorf("%s at %s: degraded, and nobody is left for %s", name, at, model)
			}
		}
	}
	c.shares[name] = to
	if delete(c.by, name); to == 0 {
		c.by[name], c.since[name] = e.By, at
	}
}

// served checks that those that are degraded got no client's request but
// overflow, and none if a person did it.
func (c *chaos) served() {
	c.mu.Lock()
	ends := slices.Clone(c.ward.ends[c.ends:])
	c.mu.Unlock()
	c.ends += len(ends)
	for i := range ends {
		e := &ends[i]
		by, degraded := c.by[e.upstream]
		if !degraded || !e.ok() || e.at <= c.since[e.upstream] || c.upstream(e.upstream).Share > 0 {
			continue
		}
		// Where it is no primary the reason is why the primary did not answer.
		primary := e.at > c.reloaded && slices.Contains(c.upstream(e.upstream).PrimaryOf, e.model)
		if by != decision.Auto || e.reason == "" || primary && e.reason != string(decision.Overflow) {
			c.Errorf("%s, degraded by %s, answered at %s: %+v", e.upstream, by, e.done, *e)
		}
	}
}

// calm checks that every state can be left: all is well, and an operator steps
// up what its evidence opens.
func (c *chaos) calm() {
	c.note("calm")
	for _, name := range c.names {
		c.becomes(name, "ok")
	}
	c.reloads(c.initial)
	c.reloaded = c.now()
	well := func(s api.State) bool {
		return !slices.ContainsFunc(s.Upstreams, func(u api.Upstream) bool { return u.Health != api.Healthy || u.Share != traffic.Full })
	}
	for began := c.now(); !well(c.gw.OperatorState()); {
		if c.now()-began > 30*time.Minute {
			c.Fatal("not healthy again")
		}
		c.passes(2 * time.Second)
		c.check()
		for _, u := range c.gw.OperatorState().Upstreams {
			if u.NextStep.Share > 0 && u.NextStep.BlockedBy == "" {
				if err := c.shareAt(u.Name, "ann", u.NextStep.Share, u.Revision); err != nil && c.advance == "manual" {
					c.Errorf("%s: an open step was refused: %v", u.Name, err)
				}
			}
		}
	}
	c.note("well")
	c.clients.Wait()
	from := c.now()
	c.passes(time.Minute)
	c.check()
	if f := failedPart(c.ward.since(from)); f > 0 {
		c.Errorf("%g of the requests failed when all was well", f)
	}
	if _, err := c.gw.Reload(context.Background(), "test"); err != nil {
		c.Error(err)
	}
}
