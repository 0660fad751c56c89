package rules

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/rules.yml anew")

// tested are the options of testdata/rules.yml, which has every rule.
func tested() Options {
	return Options{
		Selector: `job="failback"`, Every: 15 * time.Second, RunbookURL: "https://runbooks.example/",
		Thresholds: Thresholds{FallbackRatio: new(0.1), Interrupted: new(0.05), ClientRetries: new(0.2), FirstOutput: new(5.0)},
		Objectives: []Objective{{"sonnet", Availability, 720 * time.Hour}, {"sonnet", FirstOutput, 720 * time.Hour}},
	}
}

func rulesFile(t *testing.T, o Options, note ...string) string {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s.YAML(note, o.RunbookURL)
}

func TestRulesAreThoseThatAreTested(t *testing.T) {
	const path = "testdata/rules.yml"
	got := rulesFile(t, tested(), "Written by go test ./sources/rules -run TestRulesAreThoseThatAreTested -update")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is out of date: run it with -update\n%s", path, got)
	}
}

// promtool runs Prometheus's own tool.
func promtool(t *testing.T, args ...string) string {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool is missing: apt-get install prometheus")
		}
		t.Skip("requires promtool, which is missing here: apt-get install prometheus")
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Prometheus takes the rules, whatever the options are.
func TestPromtoolChecksRules(t *testing.T) {
	bare := Options{Every: time.Minute}
	odd := tested()
	odd.Selector = "{job=\"it's\", path=~\"a|\\\\d\\n\",}"
	odd.Every = 2 * time.Minute
	odd.Objectives = append(odd.Objectives, Objective{`a"b\c.d`, Availability, time.Hour})
	odd.RunbookURL = "https://x.example/{id}.md"
	for name, o := range map[string]Options{"bare": bare, "odd": odd, "tested": tested()} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rules.yml")
			if err := os.WriteFile(path, []byte(rulesFile(t, o, "a note", "with \x1b[0m and\nlines")), 0o600); err != nil {
				t.Fatal(err)
			}
			if out := promtool(t, "check", "rules", path); !strings.Contains(out, "SUCCESS") {
				t.Error(out)
			}
		})
	}
}

// Each rule fires when it must and not when it must not: Prometheus's own tests.
func TestPromtoolTestsRules(t *testing.T) {
	files, err := filepath.Glob("testdata/*_test.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			t.Parallel()
			promtool(t, "test", "rules", f)
		})
	}
}
