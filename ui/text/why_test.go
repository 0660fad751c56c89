package text

import (
	"strings"
	"testing"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// decided is a decision about a, b and c in that order, a the primary.
func decided(change func(d *api.Decision), attempts ...string) *api.Decision {
	d := &api.Decision{
		PrimaryProvider: "a", WorkflowStatus: "unavailable", Reason: "server_error", HTTPStatus: 502, RemainingDeadlineMS: 9000, RetryTokens: 80,
		Candidates: []api.DecisionCandidate{{Provider: "a"}, {Provider: "b"}, {Provider: "c"}},
	}
	for _, s := range attempts {
		provider, class, _ := strings.Cut(s, " ")
		d.Attempts = append(d.Attempts, api.DecisionAttempt{Provider: provider, Class: class})
	}
	if change != nil {
		change(d)
	}
	return d
}

// Every rule of the loop has its sentence.
func TestEveryRuleHasASentence(t *testing.T) {
	for _, r := range decision.Rules {
		if rules[string(r)] == "" {
			t.Errorf("%s has none", r)
		}
	}
	if len(rules) != len(decision.Rules) {
		t.Errorf("%d sentences for %d rules", len(rules), len(decision.Rules))
	}
}

// What a decision recorded is said as it is, whatever could be derived.
func TestWhyRecorded(t *testing.T) {
	wait := 250.0
	d := decided(func(d *api.Decision) {
		d.WorkflowStatus, d.SelectedProvider, d.Candidates[1].Skipped = "degraded_completed", "c", "capacity"
		for i, next := range []string{"same_again", "switch", "answered"} {
			d.Attempts[i].Next = next
		}
		d.Attempts[0].Why, d.Attempts[0].WaitMS, d.Attempts[1].Why = "should_retry", &wait, "repeated"
	}, "a server_error", "a server_error", "c ok")
	got := Why(d)
	for i, want := range []string{
		"a was asked first", "It was asked again after a wait of 0.2s: the upstream itself said so",
		"c was asked: it had failed there just before, so that a second try was not worth it; passed by: b (capacity", "c: ok, it answered, and its answer was seen to its end. Nothing had to follow",
	} {
		if i >= len(got) || !strings.Contains(got[i], want) {
			t.Fatalf("%d: no %q in %q", i, want, got)
		}
	}
	d = decided(func(d *api.Decision) { d.Attempts[0].Next, d.Attempts[0].Why = "end", "something_new" }, "a server_error")
	if got := Why(d); !strings.HasSuffix(got[1], "Nobody was asked after it: something_new") {
		t.Errorf("%q", got)
	}
}

func TestWhy(t *testing.T) {
	skip := func(b, c string) func(*api.Decision) {
		return func(d *api.Decision) { d.Candidates[1].Skipped, d.Candidates[2].Skipped = b, c }
	}
	first := 90.0
	for _, c := range []struct {
		name string
		d    *api.Decision
		want []string // parts, in order, of all sentences
	}{
		{"the primary", decided(func(d *api.Decision) { d.WorkflowStatus = "completed" }, "a ok"), []string{"a was asked first: it is the primary", "Nothing had to follow", "completed: the primary answered"}},
		{"passed by", decided(func(d *api.Decision) {
			d.Candidates[0].Skipped, d.WorkflowStatus, d.SelectedProvider, d.Reason, d.Substitute = "breaker_open", "degraded_completed", "b", "breaker_open", true
		}, "b ok"), []string{"b was asked first; passed by before it: a (breaker_open, the breaker", "b answered instead of a, because of breaker_open", "another model"}},
		{"switched", decided(func(d *api.Decision) {
			d.Candidates[1].Skipped, d.WorkflowStatus, d.SelectedProvider = "capacity", "degraded_completed", "c"
		}, "a server_error", "a server_error", "c ok"), []string{"asked once more after a short wait", "c was the next in order that was open; passed by: b (capacity", "c: ok"}},
		{"nobody else may", decided(skip("not_allowed", "not_allowed"), "a server_error"), []string{"No other candidate might take it: b (not_allowed", "c (not_allowed", "unavailable: nobody answered, and the client got HTTP 502"}},
		{"budget", decided(func(d *api.Decision) { d.RetryTokens = 0.4 }, "a server_error"), []string{"The retry budget was used up (0.4 left), so b was not asked"}},
		{"attempts", decided(nil, "a server_error", "b overloaded"), []string{"b was the next in order", "retry.max_switches", "so c was not asked"}},
		{"credential", decided(func(d *api.Decision) { d.Reason = "credential" }, "a credential"), []string{"errors.credential: fail", "so b was not asked"}},
		{"another key", decided(nil, "a credential", "a ok"), []string{"So its next key was used at once"}},
		{"no time", decided(func(d *api.Decision) { d.RemainingDeadlineMS = 0 }, "a attempt_timeout"), []string{"No time was left"}},
		{"relayed", decided(func(d *api.Decision) { d.FirstOutputMS, d.WorkflowStatus = &first, "incomplete" }, "a interrupted"), []string{"never joined", "incomplete: the client got part"}},
		{"caller", decided(func(d *api.Decision) { d.WorkflowStatus = "rejected" }, "a invalid_request"), []string{"the client got this answer as it is", "rejected: the request was the caller's mistake"}},
		{"a fallback's complaint", decided(nil, "a server_error", "b invalid_request"), []string{"From another than the primary that is no answer"}},
		{"too large", decided(nil, "a context_length"), []string{"larger_context"}},
		{"client gone", decided(func(d *api.Decision) { d.WorkflowStatus = "cancelled" }, "a client_gone"), []string{"Nobody waits", "cancelled: the client left"}},
		{"unknown", decided(nil, "a unknown"), []string{"failed safely"}},
		{"nobody asked", decided(func(d *api.Decision) {
			for i := range d.Candidates {
				d.Candidates[i].Skipped = "upstream_degraded"
			}
			d.WorkflowStatus = "human"
		}), []string{"nobody was asked: a (upstream_degraded", "b (", "human: nobody might answer"}},
		{"draining", decided(func(d *api.Decision) { d.WorkflowStatus, d.Reason = "refused", "draining" }), []string{"nobody was asked: draining, this gateway was stopping", "refused: this gateway did not take"}},
		{"overflow", decided(func(d *api.Decision) { d.WorkflowStatus, d.Reason = "completed", "overflow" }, "a ok"), []string{"outside its share"}},
		{"only one", decided(func(d *api.Decision) { d.Candidates = d.Candidates[:1] }, "a connect"), []string{"There was no other candidate"}},
		{"nothing known", &api.Decision{}, []string{"nobody was asked"}},
		{"candidates unknown", &api.Decision{Attempts: []api.DecisionAttempt{{Provider: "x", Class: "ok"}}}, []string{"x was asked first", "Nothing had to follow"}},
	} {
		got := strings.Join(Why(c.d), "\n")
		rest := got
		for _, want := range c.want {
			at := strings.Index(rest, want)
			if at < 0 {
				t.Errorf("%s: no %q (in this order) in:\n%s", c.name, want, got)
				break
			}
			rest = rest[at:]
		}
	}
}

// Every status has a sentence of its own.
func TestWhyEveryStatus(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range decision.Statuses {
		w := Why(&api.Decision{WorkflowStatus: string(s), Reason: "server_error"})
		last := w[len(w)-1]
		if _, rest, _ := strings.Cut(last, ": "); seen[rest] || rest == because("server_error") {
			t.Errorf("%s: %q", s, last)
		} else {
			seen[rest] = true
		}
	}
}

func TestRule(t *testing.T) {
	for _, c := range []struct {
		t    *api.Task
		want string
	}{
		{&api.Task{Fallback: "never", OnUnavailable: "human"}, "fallback: never (nobody but the primary may answer); on_unavailable: human (without an answer it goes to a person)"},
		{&api.Task{Fallback: "same_model", OnUnavailable: "fail"}, "only a candidate of the same model"},
		{&api.Task{Fallback: "any", OnUnavailable: "queue"}, "it waits in the queue"},
		{nil, "not known"},
	} {
		if got := Rule(c.t); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q lacks %q", c.t, got, c.want)
		}
	}
}
