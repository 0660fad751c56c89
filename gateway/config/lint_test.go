package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Every archive of testdata/lint is a configuration and what Lint says of it.
func TestLint(t *testing.T) {
	entries, err := os.ReadDir("testdata/lint")
	if err != nil || len(entries) < 5 {
		t.Fatal(len(entries), err)
	}
	doc, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Run(strings.TrimSuffix(e.Name(), ".txtar"), func(t *testing.T) {
			path := "testdata/lint/" + e.Name()
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			src, want := sourceOf(t, a)
			var b strings.Builder
			for _, f := range load(t, src).Lint() {
				if kind, _, _ := strings.Cut(f.Subject, "/"); !strings.Contains(string(doc), "`"+kind+"/") {
					t.Errorf("%s does not explain %s", referencePath, kind)
				}
				fmt.Fprintf(&b, "%s %s: %s\n", f.Severity, f.Subject, f.Message)
			}
			if *update {
				a.Files[len(a.Files)-1].Data = []byte(b.String())
				if err := os.WriteFile(path, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if b.String() != want {
				t.Errorf("got\n%s\nwant\n%s", b.String(), want)
			}
		})
	}
}

// Every key that nothing acts on is reported when it is given, and none of them
// when it is not.
func TestKeysWithoutEffect(t *testing.T) {
	reported := map[string]bool{}
	for _, f := range sample(t).Lint() {
		if key, ok := strings.CutPrefix(f.Subject, "no-effect/"); ok {
			reported[key] = true
		}
	}
	for _, want := range []string{
		"keys[0].budget_usd_per_day", "tasks.policy_question.max_cost_usd",
	} {
		if !reported[want] {
			t.Errorf("%s is not reported", want)
		}
		delete(reported, want)
	}
	if len(reported) > 0 {
		t.Errorf("reported too: %v", reported)
	}
	for _, f := range load(t, minimal()).Lint() {
		if strings.HasPrefix(f.Subject, "no-effect/") {
			t.Errorf("%v of a default", f)
		}
	}
}
