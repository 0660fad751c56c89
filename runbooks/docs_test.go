package runbooks

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/runbooks.md anew")

const docFile = "../docs/runbooks.md"

// holdsWhen says of each condition what it asks.
var holdsWhen = map[Cause]string{
	Violation:        "a task fell back that may not, within the last hour",
	SharedFault:      "a shared fault is declared",
	OpenBreaker:      "a bucket is not closed, and it opened for one of the reasons, and most of its attempts ended with one of the classes; either may be left out",
	CoolingKeys:      "the keys of an upstream cool for one of these",
	RedSignal:        "this signal of an upstream is red",
	GoneModel:        "an attempt of the last minutes, or the last probe of a candidate, ended with model_gone",
	Troubled:         "the console has a banner of it; `notify` and what stands behind it come after `share`",
	BadHealth:        "the health of an upstream is one of these; not during passthrough",
	BurningBudget:    "a fiftieth of the error budget of one of these objectives went in the last hour",
	OverLimit:        "the fallback ratio is over `limit.fallback_ratio`",
	FailedDependency: "a declared dependency fails",
	BoundRate:        "429s bind the rate of a bucket",
	LoweredShare:     "an upstream has less than all of its own traffic; not during passthrough",
	OpenIncident:     "an incident is open, or open with its traffic back",
}

func codes(ws []string) string { return "`" + strings.Join(ws, "` `") + "`" }

// docTables are the tables that the code knows, by their header.
func docTables(t *testing.T) map[string]string {
	t.Helper()
	rs, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	var index, conditions, live strings.Builder
	for i := range rs {
		alerts := ""
		if len(rs[i].Alerts) > 0 {
			alerts = codes(rs[i].Alerts)
		}
		fmt.Fprintf(&index, "| [%s](../runbooks/%s) | %s | %s |\n", rs[i].ID, rs[i].File, rs[i].Title, alerts)
	}
	for c, key := range conditionKeys {
		cause := Cause(c)
		values := ""
		switch {
		case cause == FiringAlert:
			continue
		case cause == OpenBreaker:
			values = "`reason:` " + codes(Reasons) + "; `class:` " + codes(Classes)
		case words[cause] != nil:
			values = codes(words[cause])
		default:
			values = "`" + literals[cause] + "`"
		}
		if holdsWhen[cause] == "" {
			t.Errorf("nothing says when %s holds", key)
		}
		fmt.Fprintf(&conditions, "| `%s` | %s | %s |\n", key, values, holdsWhen[cause])
	}
	for _, v := range LiveValues {
		fmt.Fprintf(&live, "| `%s` | %s |\n", v.Name, v.Shows)
	}
	return map[string]string{
		"| id | title | alerts |\n|---|---|---|\n":             index.String(),
		"| condition | values | holds when |\n|---|---|---|\n": conditions.String(),
		"| name | shows |\n|---|---|\n":                        live.String(),
	}
}

// docs/runbooks.md has the runbooks, conditions and live values that there are,
// and its example is a runbook.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for head, want := range docTables(t) {
		_, rest, ok := strings.Cut(text, head)
		if !ok {
			t.Fatalf("docs/runbooks.md has no table %q", head)
		}
		have, _, _ := strings.Cut(rest, "\n\n")
		have = strings.TrimRight(have, "\n") + "\n"
		if have == want {
			continue
		}
		if *update {
			text = strings.Replace(text, head+strings.TrimRight(have, "\n"), head+strings.TrimRight(want, "\n"), 1)
			continue
		}
		t.Errorf("docs/runbooks.md is not as the code is (go test ./runbooks -run TestDocs -update writes it):\n%s\nwant\n%s", have, want)
	}
	if *update {
		if err := os.WriteFile(docFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, rest, _ := strings.Cut(text, "## Format\n\n```\n")
	example, _, _ := strings.Cut(rest, "```\n")
	p := parser{file: "example"}
	if r := p.parse([]byte(example)); len(p.errs) > 0 || r.ID != "provider-5xx" {
		t.Errorf("the example: %v", p.errs)
	}
	if !strings.Contains(text, fmt.Sprintf("for %d days", AgedAfter)) {
		t.Error("it does not say when a runbook is aged")
	}
}

// A runbook that sends on to another names it by its title.
func TestTitlesNamed(t *testing.T) {
	rs, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for i := range rs {
		b, err := files.ReadFile(rs[i].File)
		if err != nil {
			t.Fatal(err)
		}
		for _, rest := range strings.Split(string(b), "the runbook ")[1:] {
			if !slices.ContainsFunc(rs, func(r Runbook) bool { return strings.HasPrefix(rest, r.Title) }) && !strings.HasPrefix(rest, "of the reason") {
				t.Errorf("%s sends on to a runbook that is not there: %.40q", rs[i].File, rest)
			}
		}
	}
}
