package text

import (
	"slices"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// An upstream that stands twice among the candidates is two of them.
func TestTried(t *testing.T) {
	twice := []api.DecisionCandidate{{Provider: "a", Model: "big"}, {Provider: "a", Model: "small"}, {Provider: "b", Model: "big"}}
	attempt := func(provider, class, next string) api.DecisionAttempt {
		return api.DecisionAttempt{Provider: provider, Class: class, Next: next}
	}
	for _, tt := range []struct {
		name     string
		attempts []api.DecisionAttempt
		by       string // provider and model that answered
		skipped  int
		want     []int
	}{
		{"big answers", []api.DecisionAttempt{attempt("a", "ok", "answered")}, "a big", -1, []int{0}},
		{"small answers for big", []api.DecisionAttempt{attempt("a", "overloaded", "switch"), attempt("a", "ok", "answered")}, "a small", -1, []int{0, 1}},
		{"small answers, big was passed by", []api.DecisionAttempt{attempt("a", "ok", "answered")}, "a small", 0, []int{1}},
		{"big is asked again", []api.DecisionAttempt{attempt("a", "reset", "same_again"), attempt("a", "ok", "answered")}, "a big", -1, []int{0, 0}},
		{"both fail", []api.DecisionAttempt{attempt("a", "reset", "same_again"), attempt("a", "reset", "switch"), attempt("a", "reset", "switch"), attempt("b", "ok", "answered")}, "b big", -1, []int{0, 0, 1, 2}},
		{"an older version", []api.DecisionAttempt{attempt("a", "overloaded", ""), attempt("a", "ok", "")}, "a small", -1, []int{0, 1}},
		{"of nobody known", []api.DecisionAttempt{attempt("x", "ok", "answered")}, "x big", -1, []int{-1}},
	} {
		d := &api.Decision{Candidates: slices.Clone(twice), Attempts: tt.attempts}
		d.SelectedProvider, d.SelectedModel, _ = strings.Cut(tt.by, " ")
		if tt.skipped >= 0 {
			d.Candidates[tt.skipped].Skipped = "breaker_open"
		}
		if got := Tried(d); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// The way names the model where the upstream alone does not say which candidate.
func TestPathOfTwoModels(t *testing.T) {
	d := &api.Decision{
		SelectedProvider: "a", SelectedModel: "small", PrimaryProvider: "a", WorkflowStatus: "degraded_completed", Reason: "breaker_open",
		Candidates: []api.DecisionCandidate{{Provider: "a", Model: "big", Skipped: "breaker_open"}, {Provider: "a", Model: "small"}},
		Attempts:   []api.DecisionAttempt{{Provider: "a", Class: "ok", Next: "answered"}},
	}
	if got, want := Path(d), "a/big skipped: breaker_open > a/small ok"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := strings.Join(Why(d), "\n"); !strings.Contains(got, "a/small was asked first; passed by before it: a/big (breaker_open") || strings.Contains(got, "it is the primary") {
		t.Error(got)
	}
	d.Candidates[0].Skipped, d.Attempts = "", []api.DecisionAttempt{{Provider: "a", Class: "overloaded", Next: "switch"}, {Provider: "a", Class: "ok", Next: "answered"}}
	if got, want := Path(d), "a/big overloaded > a/small ok"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := strings.Join(Why(d), "\n"); !strings.Contains(got, "a/small was asked") {
		t.Error(got)
	}
}
