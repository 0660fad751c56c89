package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/gateway/health/probe"
)

// dialects with what can be probed in them.
var dialects = map[decision.Dialect][]decision.Capability{
	decision.OpenAI:    {decision.Tools, decision.Stream, decision.Text, decision.Embeddings},
	decision.Anthropic: {decision.Tools, decision.Stream, decision.Text},
}

func probeOf(c decision.Capability) probe.Target {
	return probe.Target{Upstream: "A", Model: "x", Capability: c}
}

// probe makes one probe of A, under the deadline that a prober gives it.
func (w *scene) probe(t probe.Target) probe.Result {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	return w.gw.AttemptProbe(ctx, t)
}

// footprint is what the clients' numbers say, and how the buckets stand.
func (w *scene) footprint() string {
	w.Helper()
	synctest.Wait()
	s := w.gw.OperatorState()
	text := fmt.Sprintln(s.Traffic.RPS.Value, s.Traffic.FailedRatio.State, s.Traffic.FallbackRPS.Value, s.Traffic.InFlight)
	for _, u := range s.Upstreams {
		text += fmt.Sprintln(u.Name, u.RPS.Value, u.OwnRPS.Value, u.Live.State, u.ErrorRatio.State, u.FirstOutputP95.State, u.InFlight, u.Credential)
		for _, b := range u.Breakers {
			text += fmt.Sprintln(b.Bucket, b.State, b.Samples, b.Failures, b.Run, b.InFlight, b.ProbesOut, b.AdmittedRPS, b.Weights)
		}
	}
	for _, name := range []string{"ai_model_requests_total", "ai_model_attempts_total", "failback_upstream_own_requests_total", "failback_breaker_transitions_total"} {
		text += fmt.Sprintln(name, w.gw.Counted(name, nil))
	}
	return text
}

// probeLines are the probes of the decision log.
func (w *scene) probeLines() (l []map[string]any) {
	w.Helper()
	<-time.After(time.Second) // lines are written soon, not at once
	synctest.Wait()
	for line := range strings.Lines(w.lines.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			w.Fatal(err)
		}
		if e["event"] == "probe" {
			l = append(l, e)
		}
	}
	return l
}

func TestProbesOfEachCapability(t *testing.T) {
	for d, caps := range dialects {
		for _, c := range caps {
			t.Run(string(d)+" "+string(c), func(t *testing.T) {
				inScene(t, setting{dialect: d}, func(w *scene) {
					before := w.footprint()
					r := w.probe(probeOf(c))
					if r.Verdict() != probe.Passed || r.Outcome.InputTokens != inputOfOther {
						t.Fatalf("%+v", r)
					}
					if after := w.footprint(); after != before {
						t.Errorf("clients' numbers changed:\n%s\n%s", before, after)
					}
					checkProbe(t, d, c, w.up["A"].heard())
					l := w.probeLines()
					if len(l) != 1 || l[0]["provider"] != "A" || l[0]["capability"] != string(c) || l[0]["reason"] != "ok" || l[0]["result"] != "passed" {
						t.Errorf("%v", l)
					}
					if ds := w.decisions(); len(ds) != 0 {
						t.Errorf("%v", ds)
					}
				})
			})
		}
	}
}

// checkProbe looks at what the upstream heard.
func checkProbe(t *testing.T, d decision.Dialect, c decision.Capability, l []heard) {
	t.Helper()
	if len(l) != 1 {
		t.Fatalf("%d requests", len(l))
	}
	var q struct {
		Model      string
		Stream     bool
		MaxTokens  int `json:"max_tokens"`
		Input      string
		Messages   []struct{ Role, Content string }
		Tools      []json.RawMessage
		ToolChoice json.RawMessage `json:"tool_choice"`
	}
	if err := json.Unmarshal([]byte(l[0].body), &q); err != nil {
		t.Fatalf("%v: %s", err, l[0].body)
	}
	path, key := "/v1/chat/completions", l[0].header.Get("Authorization") == "Bearer key-of-A"
	switch {
	case d == decision.Anthropic:
		path, key = "/v1/messages", l[0].header.Get("X-Api-Key") == "key-of-A" && l[0].header.Get("Anthropic-Version") != ""
	case c == decision.Embeddings:
		path = "/v1/embeddings"
	}
	if l[0].path != path || !key || q.Model != "x" || q.Stream != (c == decision.Stream) {
		t.Errorf("%+v", l[0])
	}
	if c == decision.Embeddings {
		if q.Input == "" || q.MaxTokens != 0 {
			t.Errorf("%s", l[0].body)
		}
		return
	}
	if len(q.Messages) != 1 || q.MaxTokens < 1 || q.MaxTokens > 64 || (c == decision.Tools) != (len(q.Tools) == 1 && q.ToolChoice != nil) {
		t.Errorf("%s", l[0].body)
	}
}

// What an upstream may do wrong, and what the probe makes of it.
func TestProbesOfFailingUpstreams(t *testing.T) {
	html := func(e *exchange) {
		e.raw("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<html>hi</html>")
	}
	silent := func(e *exchange) { e.hang() }
	midway := func(e *exchange) {
		e.sse()
		e.piece(roleChunk)
		e.hang()
	}
	gone := `{"error":{"message":"The model x does not exist","type":"invalid_request_error","code":"model_not_found"}}`
	for _, tc := range []struct {
		name string
		c    decision.Capability
		play func(*exchange)
		want decision.Class
		v    probe.Verdict
		took time.Duration
	}{
		{"an error in a success", decision.Text, status(200, overloadBody), decision.Overloaded, probe.Failed, 0},
		{"an empty success", decision.Text, status(200, "{}"), decision.BadResponse, probe.Failed, 0},
		{"a web page", decision.Text, html, decision.BadResponse, probe.Failed, 0},
		{"a web page for a stream", decision.Stream, html, decision.BadResponse, probe.Failed, 0},
		{"silence", decision.Text, silent, decision.AttemptTimeout, probe.Failed, 30 * time.Second},
		{"silence for a stream", decision.Stream, silent, decision.FirstOutputTimeout, probe.Failed, 12 * time.Second},
		{"a stream that says nothing", decision.Stream, midway, decision.FirstOutputTimeout, probe.Failed, 12 * time.Second},
		{"401", decision.Text, status(401, `{"error":{"message":"bad key","code":"invalid_api_key"}}`), decision.Credential, probe.Failed, 0},
		{"402", decision.Tools, status(402, `{"error":{"code":"insufficient_quota"}}`), decision.QuotaExhausted, probe.Failed, 0},
		{"a model that is gone", decision.Text, status(404, gone), decision.ModelGone, probe.Failed, 0},
		{"429", decision.Text, status(429, limitBody), decision.RateLimited, probe.Failed, 0},
		{"429 for an hour", decision.Stream, status(429, limitBody, "Retry-After: 3600"), decision.RateLimited, probe.Failed, 0},
		{"500", decision.Tools, status(500, brokenBody), decision.ServerError, probe.Failed, 0},
		{"503", decision.Embeddings, status(503, overloadBody), decision.Overloaded, probe.Failed, 0},
		{"a connection that breaks", decision.Text, (*exchange).rst, decision.Reset, probe.Failed, 0},
		{"a request it does not understand", decision.Tools, status(400, `{"error":{"message":"no tools here","type":"invalid_request_error"}}`), decision.InvalidRequest, probe.Unknown, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, setting{}, func(w *scene) {
				w.up["A"].plays(tc.play)
				before := w.footprint()
				for range 12 { // more than any rule of the breaker needs
					began := time.Now()
					r := w.probe(probeOf(tc.c))
					if r.Outcome.Class != tc.want || r.Verdict() != tc.v || r.Held != "" {
						t.Fatalf("%+v", r)
					}
					if d := time.Since(began); d != tc.took {
						t.Errorf("took %v", d)
					}
				}
				if after := w.footprint(); after != before {
					t.Errorf("clients' numbers changed:\n%s\n%s", before, after)
				}
				l := w.probeLines()
				if len(l) != 12 || l[0]["reason"] != string(tc.want) || l[0]["result"] == "passed" {
					t.Errorf("%d lines: %v", len(l), l[0])
				}
				if strings.Contains(w.lines.String(), canary) {
					t.Error("the log has what an upstream wrote")
				}
			})
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		inScene(t, setting{}, func(w *scene) {
			w.up["A"].refuses()
			if r := w.probe(probeOf(decision.Text)); r.Outcome.Class != decision.Connect || r.Verdict() != probe.Failed {
				t.Errorf("%+v", r)
			}
		})
	})
}

// A model that knows the limit by another name, needs more of it, or cannot be
// told to use a tool, is asked in a way it understands, and from then on so.
func TestProbesInAFormThatIsUnderstood(t *testing.T) {
	for name, tc := range map[string]struct {
		c      decision.Capability
		reject func(body string) bool
		asked  int // until one passes
	}{
		"max_completion_tokens": {decision.Stream, func(b string) bool { return strings.Contains(b, `"max_tokens"`) }, 2},
		"room to reason":        {decision.Text, func(b string) bool { return !strings.Contains(b, `"max_completion_tokens":1024`) }, 3},
		"a choice of tools":     {decision.Tools, func(b string) bool { return strings.Contains(b, "tool_choice") }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, setting{}, func(w *scene) {
				w.up["A"].plays(func(e *exchange) {
					if tc.reject(e.req.body) {
						e.answer(400, `{"error":{"message":"Unsupported parameter","type":"invalid_request_error","code":"unsupported_parameter"}}`)
						return
					}
					ok(e)
				})
				target := probeOf(tc.c)
				r := w.probe(target)
				if r.Verdict() != probe.Passed || w.up["A"].asked() != tc.asked {
					t.Fatalf("asked %d times: %+v", w.up["A"].asked(), r)
				}
				target.Memo = r.Memo
				if r := w.probe(target); r.Verdict() != probe.Passed || r.Memo != target.Memo || w.up["A"].asked() != tc.asked+1 {
					t.Errorf("asked %d times: %+v", w.up["A"].asked(), r)
				}
			})
		})
	}
}

// The prober brings a degraded upstream's bucket back; no client tries it.
func TestProbeOfAHalfOpenBucket(t *testing.T) {
	inScene(t, setting{}, func(w *scene) {
		w.up["A"].plays(status(503, overloadBody))
		for range 20 {
			w.chat()
		}
		if b := w.bucket("A:text"); b.State != "open" {
			t.Fatalf("%+v", b)
		}
		w.gw.Breakers().Reserve("A", true)
		asked := w.up["A"].asked()
		r := w.probe(probeOf(decision.Text))
		if r.Held != string(decision.BreakerOpen) || r.RetryIn <= 0 || r.RetryIn > 15*time.Second || w.up["A"].asked() != asked {
			t.Fatalf("%+v", r)
		}
		<-time.After(r.RetryIn)
		w.chat()
		if w.up["A"].asked() != asked {
			t.Error("a client was the guinea pig")
		}
		if r := w.probe(probeOf(decision.Text)); r.Verdict() != probe.Failed {
			t.Errorf("%+v", r)
		}
		b := w.bucket("A:text")
		if b.State != "open" || !strings.Contains(b.Detail, "1/1 probes failed (503)") {
			t.Errorf("%+v", b)
		}
		w.up["A"].plays(ok)
		<-time.After(time.Until(b.NextProbeAt))
		if r := w.probe(probeOf(decision.Text)); r.Verdict() != probe.Passed {
			t.Errorf("%+v", r)
		}
		if b := w.bucket("A:text"); b.State != "ramping" {
			t.Errorf("%+v", b)
		}
		<-time.After(3 * time.Second)
		if g := w.chat(); g.header.Get("Failback-Upstream") != "A" {
			t.Errorf("%+v", g)
		}
	})
}

// A success ends the cooling of a credential, so that no client has to try it.
func TestProbeClearsACoolingCredential(t *testing.T) {
	inScene(t, setting{more: "errors: {credential: switch}\n"}, func(w *scene) {
		w.up["A"].plays(status(401, `{"error":{"message":"bad key","code":"invalid_api_key"}}`))
		w.chat()
		asked := w.up["A"].asked()
		r := w.probe(probeOf(decision.Text))
		if r.Held != string(decision.Credential) || r.RetryIn <= 4*time.Minute || r.RetryIn > 5*time.Minute || w.up["A"].asked() != asked {
			t.Fatalf("%+v", r)
		}
		<-time.After(r.RetryIn)
		w.up["A"].plays(ok)
		if r := w.probe(probeOf(decision.Text)); r.Verdict() != probe.Passed {
			t.Fatalf("%+v", r)
		}
		<-time.After(time.Second)
		if !strings.Contains(w.lines.String(), "works again") {
			t.Error("nobody is told")
		}
		if g := w.chat(); g.header.Get("Failback-Upstream") != "A" {
			t.Errorf("%+v", g)
		}
	})
}

// A model that answers a probe is not gone, whatever a client met: waiting on
// would leave a healthy upstream without the traffic that shows how it does.
func TestProbeClearsAModelThatWasGone(t *testing.T) {
	inScene(t, setting{}, func(w *scene) {
		w.up["A"].plays(status(404, `{"error":{"message":"no such thing","type":"not_found_error"}}`))
		w.chat()
		w.up["A"].plays(ok)
		if g := w.chat(); g.header.Get("Failback-Upstream") != "B" || g.header.Get("Failback-Reason") != string(decision.ModelGone) {
			t.Fatalf("%+v", g)
		}
		if r := w.probe(probeOf(decision.Embeddings)); r.Verdict() != probe.Passed {
			t.Fatalf("%+v", r)
		}
		if g := w.chat(); g.header.Get("Failback-Upstream") != "B" {
			t.Errorf("another endpoint answered: %+v", g)
		}
		if r := w.probe(probeOf(decision.Text)); r.Verdict() != probe.Passed {
			t.Fatalf("%+v", r)
		}
		if g := w.chat(); g.header.Get("Failback-Upstream") != "A" {
			t.Errorf("%+v", g)
		}
	})
}

// The answer to a probe takes little memory and little time, however long an
// upstream makes it.
func TestProbeOfAnAnswerWithoutEnd(t *testing.T) {
	chunk := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("x", 1<<10) + "\"}}]}\n\n"
	for name, tc := range map[string]struct {
		c           decision.Capability
		first, then string
		most        int // pieces of a KiB that may be sent, some of which nobody has taken
	}{
		"frame":  {decision.Stream, "data: ", strings.Repeat("x", 1<<10), 24 << 10},
		"stream": {decision.Stream, "", chunk, 24 << 10},
		"object": {decision.Text, `{"id":"`, strings.Repeat("x", 1<<10), 24 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, setting{}, func(w *scene) {
				var sent atomic.Int64
				w.up["A"].plays(func(e *exchange) {
					if tc.c == decision.Stream {
						e.sse()
					} else {
						e.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
					}
					e.piece(tc.first + tc.then)
					for range 64 << 10 {
						select {
						case <-e.gone:
							return
						default:
						}
						e.piece(tc.then)
						sent.Add(1)
					}
					e.hang()
				})
				r := w.probe(probeOf(tc.c))
				if r.Outcome.Class != decision.BadResponse || r.Verdict() != probe.Failed || sent.Load() > int64(tc.most) {
					t.Errorf("%d KiB sent: %+v", sent.Load(), r)
				}
			})
		})
	}
}

// Of several keys one that works is enough.
func TestProbeTriesEachKey(t *testing.T) {
	inScene(t, setting{upstreams: map[string]string{"A": ", api_keys: [one, two, three]"}}, func(w *scene) {
		w.up["A"].plays(func(e *exchange) {
			if e.req.header.Get("Authorization") != "Bearer three" {
				e.answer(401, `{"error":{"code":"invalid_api_key"}}`)
				return
			}
			ok(e)
		})
		for range 3 {
			if r := w.probe(probeOf(decision.Text)); r.Verdict() != probe.Passed {
				t.Errorf("%+v", r)
			}
		}
	})
}

// The upstream's own limits hold for probes.
func TestProbeWithinLimits(t *testing.T) {
	inScene(t, setting{upstreams: map[string]string{"A": ", limits: {concurrency: 1}"}}, func(w *scene) {
		release := make(chan struct{})
		w.up["A"].plays(func(e *exchange) {
			<-release
			ok(e)
		})
		done := make(chan *got)
		go func() { done <- w.chat() }()
		synctest.Wait()
		if r := w.probe(probeOf(decision.Text)); r.Held != string(decision.Capacity) {
			t.Errorf("%+v", r)
		}
		close(release)
		<-done
		synctest.Wait() // its place is given back behind its answer
		for range 3 {
			if r := w.probe(probeOf(decision.Text)); r.Verdict() != probe.Passed {
				t.Errorf("%+v", r)
			}
		}
	})
}

func TestProbeTargets(t *testing.T) {
	inScene(t, setting{
		names: []string{"A", "B"},
		candidates: map[string]string{
			"B": ", capabilities: [text, stream]}, {upstream: B, model: text-embed-1, weight: 4",
		},
		upstreams: map[string]string{
			"A": ", prices: {x: {input: 2, output: 10}}, probe: {every: 20s, max_cost_usd_per_day: 0.5}",
		},
		more: "  n: {candidates: [{upstream: B, model: x, capabilities: [text, tools]}]}\n",
	}, func(w *scene) {
		var names []string
		for _, target := range w.gw.ProbeTargets() {
			names = append(names, target.Upstream+" "+target.Model+" "+string(target.Capability))
			switch {
			case target.Upstream == "A":
				if target.Every != 20*time.Second || target.MaxCostPerDay != 0.5 || target.Cost(1e6, 1e5) != 3 || target.Expect <= 0 || target.Expect > 0.01 {
					t.Errorf("%+v", target)
				}
			case target.Every != 90*time.Second || target.MaxCostPerDay != 1 || target.Cost != nil || target.Expect != 0:
				t.Errorf("%+v", target)
			}
		}
		want := []string{
			"A x tools", "A x stream", "A x text", // it did not say, and is no embedding model
			"B x tools", "B x stream", "B x text",
			"B text-embed-1 embeddings",
		}
		if !slices.Equal(names, want) {
			t.Errorf("\n got %q\nwant %q", names, want)
		}
	})
	inScene(t, setting{dialect: decision.Anthropic, names: []string{"A"}}, func(w *scene) {
		if l := w.gw.ProbeTargets(); len(l) != 3 {
			t.Errorf("%v", l)
		}
	})
}

// The prober as it runs: beside traffic, across a reload, and to the end while
// a probe hangs.
func TestProberRuns(t *testing.T) {
	inScene(t, setting{names: []string{"A", "B"}}, func(w *scene) {
		p := w.gw.RunProber()
		<-time.After(10 * time.Minute)
		if _, err := w.gw.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		p.Configure(w.gw.ProbeTargets())
		<-time.After(10 * time.Minute)
		synctest.Wait()
		l := p.Snapshot()
		if len(l) != 6 {
			t.Errorf("%d targets", len(l))
		}
		for _, s := range l {
			if s.Passed < 10 || s.Failed > 0 || time.Since(s.Last.At) > 100*time.Second || s.Held != "" {
				t.Errorf("%+v", s)
			}
		}
		if ds := w.decisions(); len(ds) != 0 {
			t.Errorf("%d decisions", len(ds))
		}
		w.up["A"].plays((*exchange).hang)
		w.up["B"].plays((*exchange).hang)
		for !slices.ContainsFunc(p.Snapshot(), func(s probe.Status) bool { return s.Running }) {
			<-time.After(time.Second)
		}
	})
}
