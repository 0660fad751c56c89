package gateway_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"failback/gateway/operator"
	"failback/gateway/operator/api"
	"failback/gateway/wire"
	"failback/internal/bubble"
)

// states are the series of a state gauge of provider: by their labels without
// the state, the states that are 1.
func (w *scene) states(name, provider string) map[string][]string {
	w.Helper()
	synctest.Wait()
	got := map[string][]string{}
	for series, v := range w.gw.Series() {
		if !strings.HasPrefix(series, name+"{") || !strings.Contains(series, `provider="`+provider+`"`) {
			continue
		}
		labels, state, _ := strings.Cut(series, `,state="`) // the last label by name
		if _, is := got[labels]; !is {
			got[labels] = nil
		}
		switch v {
		case 0:
		case 1:
			got[labels] = append(got[labels], strings.TrimSuffix(state, `"}`))
		default:
			w.Errorf("%s is %v", series, v)
		}
	}
	return got
}

// count is how many series of the metrics name A, by metric.
func (w *scene) about(provider string) map[string]int {
	n := map[string]int{}
	for series := range w.gw.Series() {
		if strings.Contains(series, `="`+provider+`"`) {
			name, _, _ := strings.Cut(series, "{")
			n[name]++
		}
	}
	return n
}

// TEL-01: every state of a target is a series of its own, there from the start
// until the target leaves the configuration, and exactly one of them is 1.
func TestTEL01(t *testing.T) {
	t.Run("breaker", func(t *testing.T) {
		alongPaths(t, anyPath, setting{}, func(w *scene, p path) {
			const gauge = "failback_breaker_state"
			_, capability, _ := strings.Cut(p.bucket(), ":")
			stands := func(provider, want string) {
				w.Helper()
				all := w.states(gauge, provider)
				if len(all) == 0 || w.about(provider)[gauge] != 4*len(all) {
					w.Errorf("%d series of %d buckets", w.about(provider)[gauge], len(all))
				}
				for labels, on := range all {
					state := "closed"
					if strings.Contains(labels, `capability="`+capability+`"`) {
						state = want
					}
					if !slices.Equal(on, []string{state}) {
						w.Errorf("%s: %q are 1, not %s", labels, on, state)
					}
				}
			}
			is := func(want string) {
				w.Helper()
				stands("A", want)
			}
			before := w.about("A")
			is("closed")
			w.opens(p.ep.ClientPath(), p.body(), p.bucket())
			is("open")
			w.up["A"].plays(func(e *exchange) {
				e.wait(time.Second)
				ok(e)
			})
			// Probes, the ramp, and whole again.
			seen := map[string]bool{}
			for range 200 {
				done := make(chan bool)
				go func() {
					w.ask(p)
					close(done)
				}()
				synctest.Wait()
				state := w.bucket(p.bucket()).State
				seen[state] = true
				is(state)
				<-done
				bubble.Sleep(time.Second)
				if state == "closed" {
					break
				}
			}
			if !seen["half_open"] || !seen["ramping"] || !seen["closed"] {
				w.Errorf("states seen: %v", seen)
			}
			is("closed")
			if diff := cmp.Diff(before, w.about("A")); diff != "" {
				w.Errorf("the series of A changed by their number:\n%s", diff)
			}
			// A and B fail, and B leaves as it is: nothing of it stays, not even that
			// it is open, and A stays as it is.
			w.up["A"].plays(failing)
			w.up["B"].plays(failing)
			for range 5 {
				w.ask(p)
			}
			is("open")
			stands("B", "open")
			w.reconfigure("{upstream: B, model: x, weight: 90}, ", "")
			w.rewriteLine("  B: ", "")
			if _, err := w.gw.Reload(w.Context(), "test"); err != nil {
				w.Fatal(err)
			}
			if left := w.about("B"); len(left) != 0 {
				w.Errorf("left of B: %v", left)
			}
			is("open")
			if n := w.about("A")[gauge]; n != before[gauge] {
				w.Errorf("%d series of A, %d before", n, before[gauge])
			}
		})
	})
	t.Run("health", func(t *testing.T) {
		inWard(t, illness{brief: true}, func(w *ward) {
			const gauge = "failback_upstream_state"
			is := func(want string) {
				w.Helper()
				for _, name := range []string{"A", "B"} {
					state := "healthy"
					if name == "A" {
						state = want
					}
					got := w.states(gauge, name)
					if len(got) != 1 || w.about(name)[gauge] != 4 {
						w.Errorf("%s has %v, %d series", name, got, w.about(name)[gauge])
					}
					for labels, on := range got {
						if !slices.Equal(on, []string{state}) {
							w.Errorf("%s: %q are 1, not %s", labels, on, state)
						}
					}
				}
			}
			before := w.about("A")
			is(api.Healthy)
			who := operator.Actor{Name: "ana", Role: api.RoleOperator}
			set := func(state string) {
				w.Helper()
				if _, err := w.gw.Control().SetState(w.Context(), who, "A", api.Command{State: state, Reason: "test", Override: true, Revision: new(w.upstream("A").Revision)}); err != nil {
					w.Fatal(err)
				}
				is(state)
			}
			set(api.Degraded)
			set(api.Recovering)
			set(api.Degraded)
			if diff := cmp.Diff(before, w.about("A")); diff != "" {
				w.Errorf("the series of A changed by their number:\n%s", diff)
			}
		})
	})
}

// rewriteLine replaces the line of the configuration that begins with old.
func (w *scene) rewriteLine(old, new string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	begin := strings.Index(string(w.config), "\n"+old) + 1
	if begin == 0 {
		w.Fatalf("the configuration has no line %q:\n%s", old, w.config)
	}
	end := begin + strings.IndexByte(string(w.config[begin:]), '\n') + 1
	w.config = slices.Concat(w.config[:begin], []byte(new), w.config[end:])
}

// changes are the series that f changes, by how much.
func (w *scene) changes(f func()) map[string]float64 {
	w.Helper()
	before := w.gw.Series()
	f()
	w.decisions() // waits for what is recorded
	after := w.gw.Series()
	d := map[string]float64{}
	for series, v := range after {
		if v != before[series] {
			d[series] = math.Round((v-before[series])*1e6) / 1e6
		}
	}
	return d
}

// TEL-03: a failure belongs to who failed, the answer to who answered, on every
// path, in the metrics as in the log.
func TestTEL03(t *testing.T) {
	alongPaths(t, anyPath, setting{}, func(w *scene, p path) {
		w.up["A"].plays(status(503, `{"error":{"message":"no"}}`))
		_, capability, _ := strings.Cut(p.bucket(), ":")
		class := "overloaded"
		got := w.changes(func() { w.answered(p, w.ask(p), "B") })
		delete(got, `failback_retry_budget_available{}`)
		want := map[string]float64{
			`ai_model_attempts_total{capability="` + capability + `",class="` + class + `",provider="A",region="global"}`: 1,
			`ai_model_attempts_total{capability="` + capability + `",class="ok",provider="B",region="global"}`:            1,
			`ai_model_requests_total{model="m",outcome="degraded_completed",provider="B",route="fallback"}`:               1,
			`ai_fallback_triggered_total{model="m",primary="A",reason="` + class + `",task_type="unnamed"}`:               1,
			`ai_workflow_duration_seconds_count{outcome="degraded_completed",route="fallback"}`:                           1,
			`failback_upstream_own_requests_total{answered_by="B",provider="A"}`:                                          1,
			`failback_slo_requests_total{model="m",provider="B",reason="` + class + `",verdict="good"}`:                   1,
		}
		for series := range got {
			// Times and weights are measured, not counted.
			if strings.HasPrefix(series, "ai_workflow_duration_seconds_sum") || strings.HasPrefix(series, "failback_upstream_weight") ||
				strings.HasPrefix(series, "ai_model_first_output_seconds") {
				if strings.Contains(series, "first_output") && !strings.Contains(series, `provider="B"`) {
					w.Errorf("%s changed", series)
				}
				delete(got, series)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Error(diff)
		}
		d := w.last()
		if classes(d) != "A:"+class+" B:ok" || d.FailedProvider != "A" || d.SelectedProvider != "B" || d.PrimaryProvider != "A" || d.Reason != class {
			w.Errorf("attempts %s, failed %s, selected %s, reason %s", classes(d), d.FailedProvider, d.SelectedProvider, d.Reason)
		}
		// Both fail: each for itself.
		w.up["B"].plays(status(500, `{"error":{"message":"no"}}`))
		w.up["C"].plays(status(401, `{"error":{"message":"no"}}`))
		got = w.changes(func() { w.ask(p) })
		for provider, class := range map[string]string{"A": "overloaded", "B": "server_error", "C": "credential"} {
			n := 0.0
			for series, v := range got {
				if strings.HasPrefix(series, "ai_model_attempts_total") && strings.Contains(series, `provider="`+provider+`"`) {
					n += v
					if !strings.Contains(series, `class="`+class+`"`) {
						w.Errorf("of %s: %s", provider, series)
					}
				}
			}
			if n == 0 || n != float64(strings.Count(classes(w.last()), provider+":")) {
				w.Errorf("%v attempts of %s are counted: %s", n, provider, classes(w.last()))
			}
		}
	})
}

// TEL-04: what clients and upstreams choose makes no series and no other lasting
// state, whatever they choose it for.
func TestTEL04(t *testing.T) {
	const n = 5000
	inScene(t, setting{more: "tasks: {refund: {fallback: never}}\n"}, func(w *scene) {
		r := rand.New(rand.NewPCG(1, 2))
		text := func() string { return fmt.Sprintf("x-%x", r.Uint64()) }
		for _, name := range []string{"A", "B", "C"} {
			w.up[name].plays(func(e *exchange) {
				x := text()
				switch e.n % 4 {
				case 0:
					e.answer(200, strings.Replace(replyOf("chat", x, false).whole, `"model":"x"`, `"model":"`+x+`"`, 1), "X-Request-Id: "+x)
				case 1:
					e.answer(400+e.n%100, `{"error":{"type":"`+x+`","code":"`+x+`","message":"`+x+`"}}`, "X-Request-Id: "+x)
				case 2:
					e.answer(900, x)
				default:
					ok(e)
				}
			})
		}
		send := func(i int) {
			method, path, model := http.MethodPost, chatPath, "m"
			switch i % 5 {
			case 0:
				model = text()
			case 1:
				path = "/v1/" + text()
			case 2:
				method = "X" + strings.ToUpper(strings.TrimPrefix(text(), "x-"))
			}
			body := fmt.Sprintf(`{"model":%q,"user":%q,"messages":[{"role":"user","content":%q}]}`, model, text(), text())
			req, err := http.NewRequestWithContext(w.Context(), method, w.base+path+"?"+text(), strings.NewReader(body))
			if err != nil {
				w.Fatal(err)
			}
			for _, h := range []string{"Failback-Task", "Failback-Conversation", "Failback-Turn", "Failback-Operation-Id", "X-Request-Id", "Idempotency-Key", "Authorization", "User-Agent", text()} {
				req.Header.Set(h, text())
			}
			res, err := w.hc.Do(req)
			if err != nil {
				w.Fatal(err)
			}
			_ = res.Body.Close()
		}
		// Those that nobody foresaw come once, if at all.
		for i := range 200 {
			send(i)
		}
		w.decisions()
		before := w.gw.Series()
		texts := len(w.texts.String())
		for i := range n {
			send(i)
		}
		w.decisions()
		after := w.gw.Series()
		grown := 0
		for series := range after {
			if strings.Contains(series, `"x-`) || strings.Contains(series, `"X`) {
				w.Errorf("a client's word is a label: %s", series)
			}
			if _, was := before[series]; !was {
				grown++
			}
		}
		// "±k": a kind of end that came up for the first time, whose words are ours.
		if grown > 10 || len(after) > len(before)+10 {
			w.Errorf("%d series became %d", len(before), len(after))
		}
		if got := w.gw.Counted("ai_model_requests_total", map[string]string{"model": "other", "outcome": "rejected"}); got != (n+200)/5 {
			w.Errorf("%v requests for other models", got)
		}
		if len(w.gw.OperatorState().Tasks) != 3 {
			w.Errorf("tasks %+v", w.gw.OperatorState().Tasks)
		}
		// The sibling: texts for the operator of the process.
		if got := len(w.texts.String()) - texts; got > n*100 {
			w.Errorf("%d bytes of texts", got)
		}
	})
}

// TEL-05: first output is the first content that reached the client, counted from
// the client's request; what an attempt took is its own; none is none.
func TestTEL05(t *testing.T) {
	const ms = time.Millisecond
	sample := func(w *scene, provider string) (count, sum float64) {
		for series, v := range w.gw.Series() {
			if strings.HasPrefix(series, "ai_model_first_output_seconds_count{") && strings.Contains(series, `provider="`+provider+`"`) {
				count += v
			}
			if strings.HasPrefix(series, "ai_model_first_output_seconds_sum{") && strings.Contains(series, `provider="`+provider+`"`) {
				sum += v
			}
		}
		return count, sum
	}
	near := func(got, want float64) bool { return math.Abs(got-want) < 0.002 }
	value := func(v *float64) float64 {
		if v == nil {
			return -1
		}
		return *v / 1000
	}
	// slowly answers with a head after 50 ms, a preamble after 100 and content after d.
	slowly := func(p path, d time.Duration) func(*exchange) {
		return func(e *exchange) {
			a := p.reply(e.name)
			e.wait(50 * ms)
			e.sse()
			e.wait(50 * ms)
			e.piece(a.preamble)
			if e.wait(d - 100*ms) {
				e.piece(a.first)
				e.piece(a.rest)
				e.end()
			}
		}
	}
	alongPaths(t, streamed, setting{}, func(w *scene, p path) {
		// Headers at 50 ms, a role at 100 ms, the first content at 2 s.
		w.up["A"].plays(slowly(p, 2000*ms))
		w.answered(p, w.ask(p), "A")
		d := w.last()
		if n, s := sample(w, "A"); n != 1 || !near(s, 2) || !near(value(d.FirstOutputMS), 2) || !near(value(d.Attempts[0].FirstOutputMS), 2) {
			w.Errorf("count %v, sum %v, line %v, attempt %v", n, s, value(d.FirstOutputMS), value(d.Attempts[0].FirstOutputMS))
		}
		// A fails after 1 s, B's first content comes 300 ms after its request.
		w.up["A"].plays(func(e *exchange) {
			e.wait(1000 * ms)
			e.answer(503, `{"error":{"message":"no"}}`)
		})
		w.up["B"].plays(slowly(p, 300*ms))
		w.answered(p, w.ask(p), "B")
		d = w.last()
		if n, s := sample(w, "B"); n != 1 || !near(s, 1.3) {
			w.Errorf("of B: count %v, sum %v", n, s)
		}
		if n, _ := sample(w, "A"); n != 1 {
			w.Errorf("A, who failed, has %v samples", n)
		}
		if !near(value(d.FirstOutputMS), 1.3) || d.Attempts[0].FirstOutputMS != nil || !near(value(d.Attempts[1].FirstOutputMS), 0.3) {
			w.Errorf("line %v, attempts %v and %v", value(d.FirstOutputMS), value(d.Attempts[0].FirstOutputMS), value(d.Attempts[1].FirstOutputMS))
		}
		// Of 2 s and 1.3 s the p95 is the longer one; the state's is right to 2 %.
		if p95 := w.gw.OperatorState().Traffic.FirstOutputP95; p95.State != api.StateValue || math.Abs(p95.Value-2) > 0.02*2 {
			w.Errorf("the state says p95 %v", p95)
		}
		// A's preamble is swallowed by its failure; it is no output of anybody.
		w.up["A"].plays(func(e *exchange) {
			e.sse()
			e.piece(p.reply("A").preamble)
			e.wait(500 * ms)
			e.cut()
		})
		w.answered(p, w.ask(p), "B")
		if d = w.last(); d.Attempts[0].FirstOutputMS != nil {
			w.Errorf("a role is called output: %v", value(d.Attempts[0].FirstOutputMS))
		}
		if n, _ := sample(w, "A"); n != 1 {
			w.Errorf("A has %v samples", n)
		}
	})
	// Nothing was delivered: no sample, anywhere.
	for _, c := range []struct {
		name string
		play func(p path) func(*exchange)
		stay time.Duration // of the client; 0: to the end
		more string
	}{
		{"everybody fails", func(path) func(*exchange) { return status(503, `{"error":{"message":"no"}}`) }, 0, ""},
		{"the client leaves before output", func(p path) func(*exchange) { return slowly(p, 2000*ms) }, 150 * ms, ""},
		{"the client leaves and A is read to its end", func(p path) func(*exchange) { return slowly(p, 2000*ms) }, 150 * ms, "on_client_gone: drain\n"},
		{"the client's mistake", func(path) func(*exchange) {
			return status(400, `{"error":{"message":"no","type":"invalid_request_error"}}`)
		}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			alongPaths(t, streamed, setting{more: c.more}, func(w *scene, p path) {
				for _, a := range w.up {
					a.plays(c.play(p))
				}
				ctx, leave := context.WithCancel(w.Context())
				defer leave()
				if c.stay > 0 {
					time.AfterFunc(c.stay, leave)
				}
				w.callIn(ctx, p.ep.ClientPath(), p.body())
				bubble.Sleep(5 * time.Second) // until nobody reads any more
				for _, name := range []string{"A", "B", "C", "none"} {
					if n, s := sample(w, name); n != 0 || s != 0 {
						w.Errorf("%s has %v samples, together %v s", name, n, s)
					}
				}
				d := w.last()
				if d.FirstOutputMS != nil {
					w.Errorf("the line says %v", *d.FirstOutputMS)
				}
				if drained := len(d.Attempts) == 1 && d.Attempts[0].FirstOutputMS != nil; drained != (c.more != "") {
					w.Errorf("the output of the attempts: %+v", d.Attempts)
				}
				if v := w.gw.OperatorState().Traffic.FirstOutputP95; v.State == api.StateValue {
					w.Errorf("the state says %v", v)
				}
			})
		})
	}
	// The siblings: a whole answer has output when it has a body.
	alongPaths(t, unstreamed, setting{}, func(w *scene, p path) {
		w.up["A"].plays(func(e *exchange) {
			e.wait(700 * ms)
			ok(e)
		})
		w.answered(p, w.ask(p), "A")
		d := w.last()
		n, s := sample(w, "A")
		if n != 1 || !near(s, 0.7) || !near(value(d.FirstOutputMS), 0.7) {
			w.Errorf("count %v, sum %v, line %v", n, s, value(d.FirstOutputMS))
		}
	})
}

// TEL-07: what a request costs in log is bounded, whatever is in it, whoever
// fails and however often: a line of the decision log, and texts for the operator
// of the process that are said once.
func TestTEL07(t *testing.T) {
	const most = 4 << 10
	huge := strings.Repeat(`{\"a\":ü`, 1<<13)
	names := []string{"A", "B", "C", "D", "E"}
	measure := func(w *scene, p path, calls int, ask func()) {
		w.Helper()
		w.decisions()
		w.lines.forget()
		w.texts.forget()
		for range calls {
			ask()
		}
		if ds := w.decisions(); len(ds) != calls {
			w.Errorf("%d decisions of %d calls", len(ds), calls)
		}
		log, texts := w.lines.String(), w.texts.String()
		if n := len(log) / calls; n > most {
			w.Errorf("%d bytes of log per request", n)
		}
		for l := range strings.Lines(log) {
			if len(l) > 2*most {
				w.Errorf("a line of %d bytes", len(l))
			}
		}
		if n := len(texts); n > 100*calls+most {
			w.Errorf("%d bytes of texts for %d requests: %.300s", n, calls, texts)
		}
		for l := range strings.Lines(texts) {
			if len(l) > most {
				w.Errorf("a text of %d bytes", len(l))
			}
		}
		state := w.outputs()["the state"]
		if len(state) > 64<<10 {
			w.Errorf("the state has %d bytes", len(state))
		}
	}
	more := "retry: {attempts: 5, max_switches: 4, budget: {ratio: 1, burst: 1000}}\nbreaker: {mode: shadow}\n"
	both := func(p path) bool { return !p.secure && (p.ep == wire.ChatCompletions || p.ep == wire.Messages) }
	alongPaths(t, both, setting{names: names, more: more}, func(w *scene, p path) {
		broken := strings.Replace(p.body(), `"model":"m"`, `"model":"m","user":"`+huge+`","history":[{"tool_calls":[{"function":{"arguments":"`+huge+`"}}]}]`, 1)
		id := strings.Repeat("i", 8000)
		theirs := fmt.Sprintf(`{"error":{"type":"invalid_request_error","code":"%s","message":"%s"}}`, huge, huge)
		w.up["A"].plays(status(400, theirs, "X-Request-Id: "+id))
		headers := []string{"Failback-Conversation", id, "Failback-Turn", id, "Failback-Operation-Id", id, "X-Request-Id", id, "Traceparent", id}
		measure(w, p, 100, func() {
			w.call(p.ep.ClientPath(), broken, append(headers, "Failback-Task", id)...)
		})
		ask := func() { w.call(p.ep.ClientPath(), broken, headers...) } // a task nobody knows may not fall back
		// A chain of five that fail, each with much to say of it, and each time
		// something else.
		for i, name := range names {
			n := 0
			w.up[name].plays(func(e *exchange) {
				n++
				e.answer(500+i, fmt.Sprintf(`{"error":{"type":"t%d","code":"%d%s","message":"%d%s"}}`, n, n, huge, n, huge), "X-Request-Id: "+id)
			})
		}
		measure(w, p, 100, ask)
		if d := w.last(); len(d.Attempts) != 5 {
			w.Errorf("attempts %s", classes(d))
		}
		// Statuses that no rule names, and bytes that are no answer: alarms.
		for i, name := range names {
			n := 0
			w.up[name].plays(func(e *exchange) {
				n++
				if i%2 == 0 {
					e.answer(600+n%300, huge)
					return
				}
				e.raw(fmt.Sprintf("HTTP/1.1 2%s%d\r\n\r\n", huge, n))
				e.cut()
			})
		}
		measure(w, p, 100, ask)
	})
	// Those who are no clients at all.
	inScene(t, setting{secure: true}, func(w *scene) {
		measure(w, path{ep: wire.ChatCompletions}, 1, func() { w.chat() })
		for i := range 1000 {
			c, err := w.net.DialContext(w.Context(), "tcp", "gateway.test:80")
			if err != nil {
				w.Fatal(err)
			}
			_, _ = fmt.Fprintf(c, "no TLS at all %d %s\r\n\r\n", i, huge[:100])
			_ = c.Close()
		}
		synctest.Wait()
		if n := len(w.texts.String()); n > 100<<10 {
			w.Errorf("%d bytes of texts for 1000 strangers", n)
		}
	})
}
