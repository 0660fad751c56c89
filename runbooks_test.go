package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/runbooks"
	"failback/sources"
	"failback/sources/rules"
)

// Every alert names a runbook that there is and that is for it, every runbook
// names alerts that are generated, and so does every canned query.
func TestRunbooksOfAlerts(t *testing.T) {
	rs, err := runbooks.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	byID := make(map[string]*runbooks.Runbook)
	for i := range rs {
		byID[rs[i].ID] = &rs[i]
	}
	one := 0.5
	set, err := rules.New(rules.Options{
		Selector: `job="failback"`, Every: 15 * time.Second,
		Thresholds: rules.Thresholds{FallbackRatio: &one, Interrupted: &one, ClientRetries: &one, FirstOutput: &one},
		Objectives: []rules.Objective{{Model: "m", Kind: rules.Availability, Window: 720 * time.Hour}, {Model: "m", Kind: rules.FirstOutput, Window: 720 * time.Hour}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Missing) > 0 {
		t.Fatalf("not all alerts are generated: %+v", set.Missing)
	}
	var names []string
	for _, r := range set.Rules {
		names = append(names, r.Name)
		switch b := byID[r.Runbook]; {
		case b == nil:
			t.Errorf("%s names the runbook %s, which there is not", r.Name, r.Runbook)
		case !slices.Contains(b.Alerts, r.Name):
			t.Errorf("%s does not name the alert %s", b.File, r.Name)
		}
	}
	for i := range rs {
		for _, a := range rs[i].Alerts {
			if !slices.Contains(names, a) {
				t.Errorf("%s names the alert %s, which nobody generates", rs[i].File, a)
			}
		}
	}
	for _, q := range sources.CannedQueries(nil, "") {
		if byID[q.Runbook] == nil {
			t.Errorf("the query %s names the runbook %q, which there is not", q.Name, q.Runbook)
		}
	}
}

// --runbooks reads a directory; one that is not there is an error to show, and
// no reason to end.
func TestRunbookDir(t *testing.T) {
	if x := (&invocation{}).runbookDir(); len(x.Runbooks) > 0 || len(x.Errors) > 0 {
		t.Errorf("without a directory: %+v", x)
	}
	dir := t.TempDir()
	x := (&invocation{runbooks: filepath.Join(dir, "nowhere")}).runbookDir()
	if len(x.Errors) != 1 || !strings.Contains(x.Errors[0].Error(), "name a directory of files *.md") {
		t.Errorf("no directory: %v", x.Errors)
	}
	own, err := os.ReadFile("runbooks/provider-5xx.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"own.md": string(own), "bad.md": "no runbook", "notes.txt": "nothing"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	x = (&invocation{runbooks: dir}).runbookDir()
	if len(x.Runbooks) != 1 || x.Runbooks[0].ID != "provider-5xx" || len(x.Errors) != 1 || !strings.HasPrefix(x.Errors[0].Error(), filepath.Join(dir, "bad.md")+":1: ") {
		t.Errorf("%d runbooks, errors %v", len(x.Runbooks), x.Errors)
	}
}
