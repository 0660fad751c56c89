package policy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"failback/gateway/decision"
)

var update = flag.Bool("update", false, "write the tables of answers anew")

// golden compares a table of answers with the one that was reviewed.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("answers changed (-reviewed +now); review them, then run with -update:\n%s", diff)
	}
}

func allCauses() []decision.Reason {
	var rs []decision.Reason
	for _, c := range decision.Classes {
		if c != decision.OK {
			rs = append(rs, decision.ReasonOf(c))
		}
	}
	return append(rs, decision.Reasons...)
}

var stageNames = map[Stage]string{Unsent: "unsent", Refused: "refused", Sent: "sent", Relayed: "relayed"}

var candidateKinds = []struct {
	name string
	c    Candidate
}{
	{"primary", Candidate{Primary: true}},
	{"same", Candidate{}},
	{"same+larger", Candidate{LargerContext: true}},
	{"substitute", Candidate{Substitute: true}},
	{"substitute+larger", Candidate{Substitute: true, LargerContext: true}},
}

// forAll calls f with every combination MayFallback can be asked about.
func forAll(f func(t Terms, c Cause, s Stage, k Candidate, v Verdict)) {
	for _, fb := range []Fallback{Never, SameModel, Any} {
		for bits := range 64 {
			terms := Terms{
				Task:               Task{Fallback: fb, SideEffects: bits&1 != 0},
				OperationID:        bits&2 != 0,
				Embeddings:         bits&4 != 0,
				Bound:              bits&8 != 0,
				SwitchOnCredential: bits&16 != 0,
				SwitchOnQuota:      bits&32 != 0,
			}
			for _, reason := range allCauses() {
				for _, atPrimary := range []bool{true, false} {
					for _, s := range []Stage{Unsent, Refused, Sent, Relayed} {
						for _, k := range candidateKinds {
							cause := Cause{Reason: reason, AtPrimary: atPrimary}
							f(terms, cause, s, k.c, MayFallback(terms, cause, s, k.c))
						}
					}
				}
			}
		}
	}
}

// TestMayFallbackTable is every answer for a plain request, by task, cause at
// the primary, stage and candidate.
func TestMayFallbackTable(t *testing.T) {
	var b strings.Builder
	fmt.Fprintln(&b, "# cause at the primary | stage | task: candidates that may take it")
	for _, reason := range allCauses() {
		for _, s := range []Stage{Unsent, Refused, Sent, Relayed} {
			fmt.Fprintf(&b, "%-20s %-8s", reason, stageNames[s])
			for _, task := range []struct {
				name string
				t    Terms
			}{
				{"never", Terms{Task: Task{Fallback: Never}}},
				{"same_model", Terms{Task: Task{Fallback: SameModel}}},
				{"any", Terms{Task: Task{Fallback: Any}}},
				{"any+side_effects", Terms{Task: Task{Fallback: Any, SideEffects: true}}},
				{"any+side_effects+operation", Terms{Task: Task{Fallback: Any, SideEffects: true}, OperationID: true}},
			} {
				var may []string
				for _, k := range candidateKinds[1:] {
					if MayFallback(task.t, Cause{Reason: reason, AtPrimary: true}, s, k.c).Allowed {
						may = append(may, k.name)
					}
				}
				if len(may) == 0 {
					may = []string{"-"}
				}
				fmt.Fprintf(&b, " | %s: %s", task.name, strings.Join(may, " "))
			}
			fmt.Fprintln(&b)
		}
	}
	golden(t, "may_fallback.txt", b.String())
}

func TestMayFallbackLaws(t *testing.T) {
	asked := 0
	forAll(func(terms Terms, c Cause, s Stage, k Candidate, v Verdict) {
		asked++
		if v.Allowed == (v.Reason != "") {
			t.Fatalf("%+v %+v: a refusal has a reason and a permission has none: %+v", terms, c, v)
		}
		if !v.Allowed {
			return
		}
		broken := ""
		switch {
		case s == Relayed:
			broken = "after output was relayed nothing may replace it"
		case terms.Bound:
			broken = "a bound request is never switched"
		case terms.Task.Fallback == Never && !k.Primary:
			broken = "a task that may not fall back fell back"
		case terms.Task.Fallback == SameModel && k.Substitute:
			broken = "a same_model task went to a substitute"
		case terms.Embeddings && k.Substitute:
			broken = "embeddings went to a substitute"
		case terms.Task.SideEffects && !terms.OperationID && s == Sent:
			broken = "side effects were risked twice"
		case c.Reason == decision.ReasonOf(decision.ContextLength) && !k.LargerContext:
			broken = "a too long request went to a context no larger"
		case c.Reason == decision.ReasonOf(decision.Credential) && c.AtPrimary && !terms.SwitchOnCredential:
			broken = "the primary's dead key was passed by although errors.credential is fail"
		case c.Reason == decision.ReasonOf(decision.QuotaExhausted) && c.AtPrimary && !terms.SwitchOnQuota:
			broken = "the primary's empty account was passed by although errors.quota_exhausted is fail"
		case CallersMistake(decision.Class(c.Reason)) && c.Reason != decision.ReasonOf(decision.ContextLength):
			broken = "a caller's mistake was tried elsewhere"
		}
		if broken != "" {
			t.Fatalf("%s: terms %+v, cause %+v, stage %s, candidate %+v", broken, terms, c, stageNames[s], k)
		}
	})
	if asked < 100_000 {
		t.Fatalf("only %d combinations were asked", asked)
	}
}

// TestFailClosedNames: a client's misspelt task must not gain rights by it.
func TestTheZeroTaskMayNotFallBack(t *testing.T) {
	for _, k := range candidateKinds[1:] {
		v := MayFallback(Terms{}, Cause{Reason: decision.BreakerOpen, AtPrimary: true}, Unsent, k.c)
		if v.Allowed || v.Reason != decision.NotAllowed {
			t.Errorf("%s: %+v", k.name, v)
		}
	}
}

// A fallback's own key or account says nothing of the next candidate's, whatever
// is configured for the primary's.
func TestAFallbacksKeyHoldsNobodyUp(t *testing.T) {
	for _, class := range []decision.Class{decision.Credential, decision.QuotaExhausted} {
		for _, atPrimary := range []bool{true, false} {
			v := MayFallback(Terms{Task: Task{Fallback: Any}}, Cause{Reason: decision.ReasonOf(class), AtPrimary: atPrimary}, Refused, Candidate{})
			if v.Allowed == atPrimary {
				t.Errorf("%s, at the primary %t: %+v", class, atPrimary, v)
			}
		}
	}
}

// The client gets the status of an answer that cannot be read only if it blames
// the client.
func TestUnreadBlamesTheCaller(t *testing.T) {
	for status, want := range map[int]int{200: 400, 302: 400, 400: 400, 404: 404, 422: 422, 499: 499, 500: 400, 529: 400} {
		if e := Unread(decision.InvalidRequest, status); e.HTTPStatus != want || e.Status != decision.Rejected || e.Code != string(decision.InvalidRequest) {
			t.Errorf("%d: %+v", status, e)
		}
	}
	if e := Unread(decision.ContextLength, 200); e.Code != "context_length_exceeded" {
		t.Errorf("%+v", e)
	}
}

// TestABoundSubstitute: what a substitute began stays with it only where the
// task takes substitutes.
func TestABoundSubstitute(t *testing.T) {
	for fallback, want := range map[Fallback]bool{Never: false, SameModel: false, Any: true} {
		c := Candidate{Primary: true, Substitute: true}
		if got := MayServe(Terms{Task: Task{Fallback: fallback}, Bound: true}, c).Allowed; got != want {
			t.Errorf("%s: %t", fallback, got)
		}
	}
}

func TestEndTable(t *testing.T) {
	var b strings.Builder
	fmt.Fprintln(&b, "# last cause | attempted | policy refused | on_unavailable | status http code retryable")
	for _, reason := range allCauses() {
		for bits := range 4 {
			for _, on := range []OnUnavailable{Fail, Queue, Human} {
				f := Finish{Last: reason, Attempted: bits&1 != 0, PolicyRefused: bits&2 != 0}
				e := End(Terms{Task: Task{OnUnavailable: on}}, f)
				fmt.Fprintf(&b, "%-20s attempted=%-5t refused=%-5t %-5s | %s %d %s %t\n",
					reason, f.Attempted, f.PolicyRefused, on, e.Status, e.HTTPStatus, e.Code, e.Retryable)
				if e.HTTPStatus == 401 || e.HTTPStatus == 403 {
					t.Errorf("%s: %d would blame the caller's key", reason, e.HTTPStatus)
				}
				if e.HTTPStatus == 0 && e.Status != decision.Rejected {
					t.Errorf("%s: the upstream's own answer is for caller's mistakes only", reason)
				}
				if e.HTTPStatus != 0 && (e.Message == "" || e.Code == "") {
					t.Errorf("%s: an error without words", reason)
				}
				if e.Retryable && (f.Attempted || f.PolicyRefused) && reason != decision.Draining {
					t.Errorf("%s: a client is told to retry what was retried or refused", reason)
				}
			}
		}
	}
	golden(t, "end.txt", b.String())
}
