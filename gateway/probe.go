package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/health/probe"
	"failback/gateway/router"
	"failback/gateway/upstream"
	"failback/gateway/wire"
)

// probeTargets is what s has to be probed: each candidate once, however many
// models it serves, and each capability of it.
func (g *Gateway) probeTargets(s *setup) []probe.Target {
	type candidate struct{ upstream, model string }
	claimed := make(map[candidate]decision.CapabilitySet)
	var order []candidate
	for _, m := range s.cfg.Models {
		for _, c := range m.Candidates {
			k := candidate{c.Upstream, c.Model}
			if _, known := claimed[k]; !known {
				order = append(order, k)
			}
			claimed[k] |= c.Capabilities
		}
	}
	var targets []probe.Target
	for _, k := range order {
		u, settings := s.upstreams[k.upstream], s.config(k.upstream)
		caps := probedCapabilities(u.Dialect, k.model, claimed[k])
		cost := costOf(settings, k.model)
		for _, c := range decision.Capabilities {
			if !caps.Has(c) || !caps.Covers(capabilitiesFor(c)) {
				continue
			}
			t := probe.Target{
				Upstream: k.upstream, Model: k.model, Capability: c,
				Every: settings.Probe.Every, MaxCostPerDay: settings.Probe.MaxCostUSDPerDay, Cost: cost,
			}
			if cost != nil {
				t.Expect = cost(probeUsage(c))
			}
			targets = append(targets, t)
		}
	}
	return targets
}

// probedCapabilities is what of the claimed capabilities is asked for. No model
// both talks and embeds: one that claims both only left the key out, and its
// name says which it is.
func probedCapabilities(d decision.Dialect, model string, claimed decision.CapabilitySet) decision.CapabilitySet {
	embeds := decision.SetOf(decision.Embeddings)
	switch {
	case d == decision.Anthropic: // the dialect has none
		return claimed &^ embeds
	case !claimed.Has(decision.Embeddings) || claimed == embeds:
		return claimed
	case strings.Contains(strings.ToLower(model), "embed"):
		return embeds
	}
	return claimed &^ embeds
}

// costOf returns what tokens of model cost, nil if nobody said.
func costOf(u *config.Upstream, model string) func(input, output int) float64 {
	for _, p := range u.Prices {
		if p.Model == model {
			return func(input, output int) float64 {
				return (float64(input)*p.Input + float64(output)*p.Output) / 1e6
			}
		}
	}
	return nil
}

// capabilitiesFor is what the probe of a capability needs.
func capabilitiesFor(c decision.Capability) decision.CapabilitySet {
	return decision.Needed(c == decision.Embeddings, c == decision.Stream, c == decision.Tools)
}

// probeUsage is about what a probe uses, generously.
func probeUsage(c decision.Capability) (input, output int) {
	switch c {
	case decision.Embeddings:
		return 4, 0
	case decision.Tools:
		return 400, 64
	}
	return 40, 16
}

// attemptProbe makes one probe. It asks as a client would, with the upstream's
// own limits and keys, but the breaker knows it for a prober, and no client's
// number or record sees it. A success clears a cooling credential, and a model
// that was taken for gone; that one failed is not booked: key and model may
// serve clients on endpoints no probe asks.
func (g *Gateway) attemptProbe(ctx context.Context, t probe.Target) probe.Result {
	u := g.setup.Load().upstreams[t.Upstream]
	if u == nil {
		return probe.Result{Memo: t.Memo, Held: string(decision.NoCapability)} // a reload took it out just now
	}
	key, why := u.Client.PickKey(0)
	if why != "" {
		_, until := u.Client.Cooling()
		return probe.Result{Memo: t.Memo, Held: string(why), RetryIn: time.Until(until)}
	}
	input, output := probeUsage(t.Capability)
	giveBack, ok := u.Client.Limit(input + output)
	if !ok {
		return probe.Result{Memo: t.Memo, Held: string(decision.Capacity), RetryIn: u.Client.LimitWait(input + output)}
	}
	used := 0
	defer func() { giveBack(used) }()

	deadline, _ := ctx.Deadline()
	group := g.breakers.Group(t.Upstream, capabilitiesFor(t.Capability))
	permit := new(breaker.Permit)
	if why := group.Acquire(permit, breaker.Ask{
		Model: t.Model, Stream: t.Capability == decision.Stream, Prober: true, Deadline: deadline,
	}); why != "" {
		in, _ := group.RetryIn()
		return probe.Result{Memo: t.Memo, Held: string(why), RetryIn: in}
	}
	defer permit.Release()

	var r probe.Result
	r.Outcome, r.Memo = g.exchangeProbe(ctx, u, t, key, permit)
	used = r.Outcome.InputTokens + r.Outcome.OutputTokens
	permit.Done(r.Outcome)
	if ctx.Err() == nil || r.Outcome.Class != decision.ClientGone {
		g.logProbe(u, t, &r)
	}
	return r
}

// exchangeProbe sends the probe, in the form that the upstream understood last;
// where it understands none of that, in another one; where it refuses a key,
// with another one. It returns the form it ended with.
func (g *Gateway) exchangeProbe(ctx context.Context, u *router.Upstream, t probe.Target, key upstream.Key, permit *breaker.Permit) (decision.Outcome, int) {
	forms := probeForms(u.Dialect, t.Capability)
	form, refused := t.Memo%len(forms), 0
	var keys uint64
	for {
		call := probeCall(u, t, forms[form])
		call.Key = key
		call.OnOutput = permit.Output
		o := u.Client.Attempt(ctx, call)
		if o.Class == decision.ClientGone && ctx.Err() == nil {
			o.Class, o.Detail = decision.BadResponse, errProbeAnswer.Error()
		}
		switch o.Class.Blame() {
		case decision.OfCaller:
			if refused++; refused < len(forms) {
				form = (form + 1) % len(forms)
				continue
			}
			o.Detail = "every form of the probe is refused, which says nothing of the upstream; " +
				"if the model cannot do this, name the candidate's capabilities: " + o.Detail
		case decision.OfCredential:
			keys |= key.Bit()
			g.book.Refused(key, o.Class)
			if next, why := u.Client.PickKey(keys); why == "" {
				key = next
				continue
			}
		case decision.OfUpstreamModel:
			if o.Class == decision.ModelGone && o.NamesModel {
				u.Client.ModelMissing(t.Model)
			} else if o.Class == decision.ModelGone {
				u.Client.ModelMissing(router.OnEndpoint(t.Model, call.Endpoint))
			}
		case decision.OfUs:
			g.alarm("upstream " + u.Name + ": " + string(o.Class) + ": " + o.Detail)
		}
		if o.Class == decision.OK {
			g.book.OK(u.Client, key)
			u.Client.ModelWorks(t.Model, router.OnEndpoint(t.Model, call.Endpoint))
		}
		return o, form
	}
}

// What is asked for is a word or a call of a tool. probeHeld bounds what is held
// of the answer, since nobody accounts for the memory of dozens at a time;
// probeAnswer is what is read of it.
const (
	probeHeld   = 256 << 10
	probeAnswer = 4 << 20
)

var errProbeAnswer = errors.New("the answer to a probe does not end")

// probeCall is the smallest request for t's capability.
func probeCall(u *router.Upstream, t probe.Target, form string) *upstream.Call {
	const before = `{"model":`
	read := 0
	c := &upstream.Call{
		Endpoint: wire.ChatCompletions,
		// Where the name of the model goes there is an empty string.
		Body:       []byte(before + `"",` + form + `}`),
		ModelStart: len(before), ModelEnd: len(before) + len(`""`),
		Model:   t.Model,
		Stream:  t.Capability == decision.Stream,
		Choices: 1,
		MaxHeld: probeHeld, MaxFrame: probeHeld,
		Begin: func(int, http.Header) error { return nil },
		Write: func(p []byte) error {
			if read += len(p); read > probeAnswer {
				return errProbeAnswer
			}
			return nil
		},
	}
	switch {
	case u.Dialect == decision.Anthropic:
		c.Endpoint, c.Header = wire.Messages, http.Header{"Anthropic-Version": {"2023-06-01"}}
	case t.Capability == decision.Embeddings:
		c.Endpoint = wire.Embeddings
	}
	if !u.WatchdogOff {
		c.FirstOutput = u.Ceiling
	}
	return c
}

// probeForms are the bodies a probe of c may have, without braces and model, in
// the order in which they are tried. Models differ in the name of the limit,
// those that reason first need more of it, and not all can be told to use a tool.
func probeForms(d decision.Dialect, c decision.Capability) []string {
	const question = `"messages":[{"role":"user","content":"Reply with the word ok."}]`
	const order = `"messages":[{"role":"user","content":"Call the tool ok."}]`
	limits := []string{`,"max_tokens":16`, `,"max_completion_tokens":16`, `,"max_completion_tokens":1024`}
	tool := `,"tools":[{"type":"function","function":{"name":"ok","description":"Says that all is well.","parameters":{"type":"object","properties":{}}}}]`
	forced := `,"tool_choice":{"type":"function","function":{"name":"ok"}}`
	switch {
	case c == decision.Embeddings:
		return []string{`"input":"ok"`}
	case d == decision.Anthropic:
		limits = limits[:1]
		tool = `,"tools":[{"name":"ok","description":"Says that all is well.","input_schema":{"type":"object","properties":{}}}]`
		forced = `,"tool_choice":{"type":"tool","name":"ok"}`
	}
	var forms []string
	for _, limit := range limits {
		switch c {
		case decision.Stream:
			forms = append(forms, question+limit+`,"stream":true`)
		case decision.Tools:
			limit = strings.Replace(limit, ":16", ":64", 1)
			forms = append(forms, order+limit+tool+forced)
		default:
			forms = append(forms, question+limit)
		}
	}
	if c == decision.Tools {
		forms = append(forms, order+strings.Replace(limits[len(limits)-1], ":16", ":64", 1)+tool)
	}
	return forms
}

// logProbe writes the probe into the decision log. It is kept from operators'
// event streams, where the state of all probes is at hand: hundreds of good
// ones would push out what they look for.
func (g *Gateway) logProbe(u *router.Upstream, t probe.Target, r *probe.Result) {
	e := decision.Event{
		Kind: decision.KindProbe, Time: time.Now(), Provider: u.Name, Region: u.Region,
		Capability: t.Capability, Model: t.Model, Reason: string(r.Outcome.Class), Detail: r.Outcome.Detail, By: decision.Auto,
	}
	switch r.Verdict() {
	case probe.Passed:
		e.Result = "passed"
	case probe.Failed:
		e.Result = "failed"
	default:
		e.Result = "unknown"
	}
	g.log.Event(e)
	if g.lines != nil {
		g.lines.Event(e)
	}
}
