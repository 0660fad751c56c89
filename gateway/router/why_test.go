package router

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/gateway/policy"
	"failback/gateway/tracecontext"
)

// followed is what the record says of each attempt: what came after it and why.
func (r result) followed() string {
	var s []string
	for _, a := range r.Attempts {
		s = append(s, fmt.Sprintf("%s:%s %s/%s", a.Provider, a.Outcome.Class, a.Next, a.Why))
	}
	return strings.Join(s, ", ")
}

// TestWhy goes real ways through the loop: the record says of every attempt what
// followed and what decided so.
func TestWhy(t *testing.T) {
	sideEffects := policy.Task{Name: "refund", Fallback: policy.Any, SideEffects: true}
	for _, tt := range []struct {
		name  string
		cs    []candidate
		set   func(*world)
		q     request
		want  string
		waits time.Duration // in sum, at least
	}{
		{name: "the primary answers", want: "a:ok answered/ok"},
		{name: "a stream", q: request{stream: true}, want: "a:ok answered/ok"},
		{name: "overloaded", set: does("a", fails(503)), want: "a:overloaded switch/overloaded, b:ok answered/ok"},
		{name: "a server error, once", set: does("a", script(fails(500), ok("a"))),
			want: "a:server_error same_again/first_failure, a:ok answered/ok"},
		{name: "a server error, twice", set: does("a", fails(500)),
			want: "a:server_error same_again/first_failure, a:server_error switch/repeated, b:ok answered/ok"},
		{name: "a reset", set: does("a", script(reset, ok("a"))), want: "a:reset same_again/first_failure, a:ok answered/ok"},
		{name: "a long Retry-After of a server error", set: does("a", fails(500, "Retry-After", "9")),
			want: "a:server_error switch/retry_after, b:ok answered/ok"},
		{name: "x-should-retry: false", set: does("a", fails(500, "X-Should-Retry", "false")),
			want: "a:server_error switch/should_retry, b:ok answered/ok"},
		{name: "x-should-retry: true", set: does("a", script(fails(503, "X-Should-Retry", "true"), ok("a"))),
			want: "a:overloaded same_again/should_retry, a:ok answered/ok"},
		{name: "a rate limit", set: does("a", fails(429, "Retry-After", "1")), want: "a:rate_limited switch/rate_limited, b:ok answered/ok"},
		{name: "patience", cs: []candidate{{name: "a", weight: 100}, {name: "c", weight: 10, substitute: true}},
			set: does("a", script(fails(429, "Retry-After", "2"), ok("a"))), waits: 2 * time.Second,
			want: "a:rate_limited same_again/patience, a:ok answered/ok"},
		{name: "no patience", cs: []candidate{{name: "a", weight: 100}, {name: "c", weight: 10, substitute: true}},
			set:  does("a", fails(429, "Retry-After", "3")),
			want: "a:rate_limited switch/retry_after, c:ok answered/ok"},
		{name: "nobody else", cs: []candidate{{name: "a", weight: 100}}, set: does("a", script(fails(429, "Retry-After", "1"), ok("a"))),
			waits: time.Second, want: "a:rate_limited same_again/nowhere_else, a:ok answered/ok"},
		{name: "nobody else, too long a wait", cs: []candidate{{name: "a", weight: 100}}, set: does("a", fails(429, "Retry-After", "99")),
			want: "a:rate_limited end/retry_after"},
		{name: "attempts", cs: []candidate{{name: "a", weight: 100}}, set: func(w *world) {
			w.plan.Attempts = 2
			w.stubs["a"].do(fails(429))
		}, want: "a:rate_limited same_again/nowhere_else, a:rate_limited end/attempts"},
		{name: "max_switches", set: func(w *world) {
			w.plan.MaxSwitches = 1
			w.stubs["a"].do(fails(503))
			w.stubs["b"].do(fails(500, "X-Should-Retry", "false"))
		}, want: "a:overloaded switch/overloaded, b:server_error end/max_switches"},
		{name: "max_wait is used up", cs: []candidate{{name: "a", weight: 100}}, set: func(w *world) {
			w.plan.MaxWait = 1500 * time.Millisecond
			w.stubs["a"].do(script(fails(429, "Retry-After", "1")))
		}, want: "a:rate_limited same_again/nowhere_else, a:rate_limited end/retry_after"},
		{name: "all failed", cs: two(), set: func(w *world) {
			w.stubs["a"].do(fails(500, "X-Should-Retry", "false"))
			w.stubs["b"].do(fails(500, "X-Should-Retry", "false"))
		}, want: "a:server_error switch/should_retry, b:server_error end/no_candidate"},
		{name: "the task falls back to nobody", q: request{task: policyTask("never")}, set: does("a", fails(500, "X-Should-Retry", "false")),
			want: "a:server_error end/not_allowed"},
		{name: "side effects", q: request{task: sideEffects}, set: does("a", fails(500)), want: "a:server_error end/side_effects"},
		{name: "side effects, not processed", q: request{task: sideEffects}, set: does("a", fails(503)),
			want: "a:overloaded switch/overloaded, b:ok answered/ok"},
		{name: "a caller's mistake", set: does("a", fails(400)), want: "a:invalid_request end/invalid_request"},
		{name: "a caller's mistake where nobody else is", cs: []candidate{{name: "a", weight: 100}}, set: does("a", fails(400)),
			want: "a:invalid_request end/invalid_request"},
		{name: "too long a context", set: does("a", errorCode(400, "context_length_exceeded")), want: "a:context_length end/context_length"},
		{name: "a dead key", set: does("a", fails(401)), want: "a:credential end/credential"},
		{name: "one dead key of two", cs: []candidate{{name: "a", weight: 100, keys: []string{"k1", "k2"}}, {name: "b", weight: 80}},
			set: does("a", script(fails(401), ok("a"))), want: "a:credential same_again/another_key, a:ok answered/ok"},
		{name: "the other one's breaker", cs: two(), set: func(w *world) {
			w.stubs["a"].do(fails(500, "X-Should-Retry", "false"))
			w.force("b:text", "open")
		}, want: "a:server_error end/breaker_open"},
		{name: "the retry budget", set: func(w *world) {
			w.router.Budget.Configure(0, 0)
			w.stubs["a"].do(fails(500))
		}, want: "a:server_error end/retry_budget"},
		{name: "the retry budget, on the way to another", set: func(w *world) {
			w.router.Budget.Configure(0, 0)
			w.stubs["a"].do(fails(503))
		}, want: "a:overloaded end/retry_budget"},
		{name: "the deadline", cs: []candidate{{name: "a", weight: 100}}, q: request{deadline: time.Second}, set: does("a", hang),
			want: "a:caller_deadline end/deadline"},
		{name: "a stream that breaks", q: request{stream: true}, set: does("a", func(rw http.ResponseWriter, _ *http.Request) {
			head(rw)
			chunk(rw, "half")
			panic(http.ErrAbortHandler)
		}), want: "a:interrupted end/relayed"},
		{name: "no output in time", q: request{stream: true}, set: does("a", hang),
			want: "a:first_output_timeout switch/first_output_timeout, b:ok answered/ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cs := tt.cs
			if cs == nil {
				cs = three()
			}
			inWorld(t, cs, func(w *world) {
				if tt.set != nil {
					tt.set(w)
				}
				r := w.send(tt.q)
				if got := r.followed(); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				w.recorded(r, tt.waits)
			})
		})
	}
}

func does(name string, h http.HandlerFunc) func(*world) {
	return func(w *world) { w.stubs[name].do(h) }
}

// force has an operator hold a bucket.
func (w *world) force(bucket, action string) {
	b, _ := decision.ParseBucket(bucket)
	if err := w.router.Breakers.Force(b, action, time.Hour, "ana"); err != nil {
		w.t.Fatal(err)
	}
}

// recorded checks what holds of the attempts of every request.
func (w *world) recorded(r result, waits time.Duration) {
	w.t.Helper()
	var sum, before time.Duration
	words := slices.Clone(decision.Rules)
	for _, c := range decision.Classes {
		words = append(words, decision.Why(c))
	}
	for _, reason := range decision.Reasons {
		words = append(words, decision.WhyOf(reason))
	}
	for i, a := range r.Attempts {
		last := i == len(r.Attempts)-1
		answered := r.Status == decision.Completed || r.Status == decision.DegradedCompleted
		if (a.Next == decision.NextAnswered) != (last && answered) || last && a.Next != decision.NextAnswered && a.Next != decision.NextEnd {
			w.t.Errorf("attempt %d of a request that is %s: %s", i+1, r.Status, a.Next)
		}
		if !slices.Contains(words, a.Why) {
			w.t.Errorf("attempt %d: nobody knows the word %q", i+1, a.Why)
		}
		if !last && (a.Next == decision.NextSame) != (a.Provider == r.Attempts[i+1].Provider) {
			w.t.Errorf("attempt %d: %s, and then %s was asked", i+1, a.Next, r.Attempts[i+1].Provider)
		}
		if a.Started < before || a.Started+a.Outcome.Duration > r.Duration || a.Remaining < 0 || a.Share != 100 || a.Weight <= 0 || a.RetryTokens < 0 {
			w.t.Errorf("attempt %d: %+v", i+1, a)
		}
		if a.Primary != (a.Provider == r.Primary) {
			w.t.Errorf("attempt %d on %s: primary is %t", i+1, a.Provider, a.Primary)
		}
		before = a.Started + a.Outcome.Duration + a.Wait
		sum += a.Wait
	}
	if sum < waits || sum > waits && waits > 0 && sum > waits+5*time.Second {
		w.t.Errorf("it rested for %s, want %s", sum, waits)
	}
}

func TestWhyOfAClientThatLeft(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		w.stubs["a"].do(hang)
		ctx, cancel := context.WithCancel(w.t.Context())
		defer time.AfterFunc(time.Second, cancel).Stop()
		if got := w.send(request{ctx: ctx}).followed(); got != "a:client_gone end/client_gone" {
			t.Error(got)
		}
		synctest.Wait()
	})
}

func TestWhyOfOurOwnFault(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		r := w.send(request{out: &recorded{panics: true}})
		if n := len(r.Attempts); n != 1 || r.Attempts[0].Next != decision.NextEnd || r.Attempts[0].Why != "internal" {
			t.Errorf("%+v", r.Attempts)
		}
	})
}

// A skipped candidate's line says for people why, where its reason is not all.
func TestSkippedWhy(t *testing.T) {
	inWorld(t, three(), func(w *world) {
		w.force("a:text", "open")
		r := w.send(request{task: policyTask("same_model")})
		a, b, c := r.Candidates[0], r.Candidates[1], r.Candidates[2]
		opened := time.Now().UTC().Format("15:04:05Z")
		if want := "text open since " + opened + ": forced for 1h0m0s by ana"; a.Skipped != decision.BreakerOpen || !a.Blocked || a.SkippedWhy != want || !a.Primary {
			t.Errorf("%+v, want %q", a, want)
		}
		if b.Skipped != "" || b.SkippedWhy != "" || b.Blocked || b.Primary {
			t.Errorf("who answered: %+v", b)
		}
		if c.Skipped != decision.NotAllowed || c.SkippedWhy != "a substitute, and its task takes the same model alone" || c.Blocked {
			t.Errorf("%+v", c)
		}
		w.force("a:text", "auto")
		w.force("a:text", "close")
		if a := w.send(request{}).Candidates[0]; a.SkippedWhy != "" || a.Blocked {
			t.Errorf("who answered: %+v", a)
		}
		w.stubs["a"].do(fails(500))
		r = w.send(request{task: policy.Task{Name: "refund", Fallback: policy.Any, SideEffects: true}})
		if b := r.Candidates[1]; b.Skipped != decision.NotAllowed || b.SkippedWhy != "it may have been processed, and its task has side effects" {
			t.Errorf("%+v", b)
		}
	})
	inWorld(t, two(), func(w *world) {
		for range 5 {
			w.stubs["a"].do(fails(500, "X-Should-Retry", "false"))
			w.send(request{})
		}
		if a := w.send(request{}).Candidates[0]; a.Skipped != decision.BreakerOpen || !strings.Contains(a.SkippedWhy, "server_error x5") {
			t.Errorf("%+v", a)
		}
	})
}

// Every attempt is told to its upstream as a span of its own, below the
// request's; without spans the client's trace passes through.
func TestUpstreamsAreToldTheTrace(t *testing.T) {
	inWorld(t, two(), func(w *world) {
		var got []http.Header
		keep := func(h http.HandlerFunc) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				got = append(got, r.Header)
				h(rw, r)
			}
		}
		w.stubs["a"].do(keep(fails(500)))
		w.stubs["b"].do(keep(ok("b")))
		id, own := tracecontext.NewTraceID(), tracecontext.NewSpanID()
		w.trace = func(d *decision.Decision, q *Request) {
			d.TraceID, d.Span, q.TraceFlags, q.Tracestate = id, own, tracecontext.Sampled, "x=1"
			q.Header.Set("Traceparent", "the client's own") // never passes by itself
		}
		r := w.send(request{})
		spans := map[decision.SpanID]bool{own: true}
		for i, a := range r.Attempts {
			if want := "00-" + id + "-" + a.Span.String() + "-01"; spans[a.Span] || !slices.Equal(got[i]["Traceparent"], []string{want}) || got[i].Get("Tracestate") != "x=1" {
				t.Errorf("attempt %d: %v, want %s", i+1, got[i], want)
			}
			spans[a.Span] = true
		}
		if len(spans) != 4 {
			t.Errorf("%d attempts", len(r.Attempts))
		}
		got = nil
		passed := tracecontext.Format(id, own, 0)
		w.trace = func(d *decision.Decision, q *Request) { d.TraceID, q.Traceparent, q.Tracestate = id, passed, "y=2" }
		r = w.send(request{})
		if got[0].Get("Traceparent") != passed || got[0].Get("Tracestate") != "y=2" || !r.Attempts[0].Span.IsZero() {
			t.Errorf("without spans: %v", got[0])
		}
		got = nil
		w.trace = func(_ *decision.Decision, q *Request) { q.Header.Set("Traceparent", "invalid") }
		w.send(request{})
		if got[0]["Traceparent"] != nil || got[0]["Tracestate"] != nil {
			t.Errorf("without a trace: %v", got[0])
		}
	})
}
