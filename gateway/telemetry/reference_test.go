package telemetry

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

var update = flag.Bool("update", false, "write the generated parts of docs/metrics.md")

const reference = "../../docs/metrics.md"

// TestReference holds docs/metrics.md against the code.
func TestReference(t *testing.T) {
	text := read(t, reference)
	generated := map[string]string{"metrics": metricsTable(), "buckets": bucketsTable()}
	for _, part := range []string{"metrics", "buckets"} {
		before, had, after := section(t, text, part)
		if *update {
			text = before + generated[part] + after
			continue
		}
		if diff := cmp.Diff(generated[part], had); diff != "" {
			t.Errorf("%s: the part %q is stale; run go test ./gateway/telemetry -run TestReference -update\n%s", reference, part, diff)
		}
	}
	if *update {
		if err := os.WriteFile(reference, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for heading, fields := range map[string][]string{
		"### `model_route_selected`": fieldsOf(reflect.TypeFor[api.Decision]()),
		"### `candidates[]`":         fieldsOf(reflect.TypeFor[api.DecisionCandidate]()),
		"### `attempts[]`":           fieldsOf(reflect.TypeFor[api.DecisionAttempt]()),
		"### Events":                 fieldsOf(reflect.TypeFor[eventLine]()),
	} {
		if diff := cmp.Diff(fields, documented(t, text, heading)); diff != "" {
			t.Errorf("%s: %s is stale\n%s", reference, heading, diff)
		}
	}
	for _, kind := range []decision.Kind{
		decision.KindBreakerTransition, decision.KindTrafficStep, decision.KindOperatorCommand,
		decision.KindConfigReload, decision.KindCredential, decision.KindPassthrough,
	} {
		if !strings.Contains(text, "`"+string(kind)+"`") {
			t.Errorf("%s does not name the event %s", reference, kind)
		}
	}
	for _, reason := range slices.Concat(triggeredReasons, []decision.Reason{decision.PrimaryCompleted, decision.Overflow, decision.Draining}) {
		isClass := slices.Contains(decision.Classes, decision.Class(reason))
		if !isClass && !strings.Contains(text, "`"+string(reason)+"`") {
			t.Errorf("%s does not name the reason %s", reference, reason)
		}
	}
	for _, why := range decision.Rules {
		if !strings.Contains(text, "`"+string(why)+"`") {
			t.Errorf("%s does not name the rule %s", reference, why)
		}
	}
	for _, status := range decision.Statuses {
		verdict := VerdictOf(status, "")
		if verdict == Undecided {
			continue
		}
		_, row, _ := strings.Cut(text, "\n| `"+string(verdict)+"` |")
		row, _, _ = strings.Cut(row, "\n")
		if !strings.Contains(row, "`"+string(status)+"`") {
			t.Errorf("%s: %s is %s, not so in the table of verdicts", reference, status, verdict)
		}
	}
}

// section cuts text around the generated part of that name.
func section(t *testing.T, text, part string) (before, had, after string) {
	t.Helper()
	_, rest, ok := strings.Cut(text, "<!-- "+part+": ")
	_, rest, ok2 := strings.Cut(rest, "-->\n")
	had, after, ok3 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s has no part %q", reference, part)
	}
	return text[:len(text)-len(rest)], had, "<!-- end -->" + after
}

func metricsTable() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, d := range definitions {
		labels := make([]string, len(d.labels))
		for i, l := range d.labels {
			labels[i] = "`" + l + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.name, d.kind, strings.Join(labels, ", "), d.help)
	}
	return b.String()
}

func bucketsTable() string {
	var b strings.Builder
	b.WriteString("| histogram | bounds in seconds |\n|---|---|\n")
	for _, h := range []struct {
		d      definition
		bounds []float64
	}{{firstOutputDef, firstOutputBuckets}, {durationDef, durationBuckets}} {
		fmt.Fprintf(&b, "| `%s` | %s |\n", h.d.name, strings.Trim(fmt.Sprint(h.bounds), "[]"))
	}
	return b.String()
}

// fieldsOf returns the JSON fields of a type as name and type. A field of the
// outer struct hides the same name of an embedded one, as in encoding/json.
func fieldsOf(t reflect.Type) []string {
	var l []string
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous {
				add(f.Type)
				continue
			}
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			kind := kindOf(f.Type)
			if options == "omitempty" {
				kind += ", may be absent"
			}
			row := name + ": " + kind
			if at := slices.IndexFunc(l, func(r string) bool { return strings.HasPrefix(r, name+": ") }); at >= 0 {
				l[at] = row
				continue
			}
			l = append(l, row)
		}
	}
	add(t)
	return l
}

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "list"
	case reflect.Pointer:
		return kindOf(t.Elem()) + " or null"
	}
	if t == reflect.TypeFor[time.Time]() {
		return "time"
	}
	return "number"
}

// documented returns the rows of the first table under heading as name and
// type, and fails on a field without a meaning.
func documented(t *testing.T, text, heading string) []string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no %s", reference, heading)
	}
	rest, _, _ = strings.Cut(rest, "\n#")
	var l []string
	for line := range strings.Lines(rest) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || !strings.HasPrefix(strings.TrimSpace(cells[0]), "`") {
			continue
		}
		name := strings.Trim(strings.TrimSpace(cells[0]), "`")
		if strings.TrimSpace(cells[2]) == "" {
			t.Errorf("%s: %s has no meaning", heading, name)
		}
		l = append(l, name+": "+strings.TrimSpace(cells[1]))
	}
	return l
}

// An objective has a series of what its budget was spent on before the first bad
// request, and no pair has two.
func TestSpentOnIsThereFromTheStart(t *testing.T) {
	for _, by := range [][]BudgetSpentGauge{nil, {{Other, Other, 3}}, {{"a", "reset", 1}}} {
		reg := prometheus.NewPedanticRegistry()
		NewMetrics(reg, func() Gauges {
			return Gauges{Budgets: []BudgetGauge{{Model: "m", Objective: "availability", By: by}}}
		})
		want := 0.0
		if len(by) > 0 && by[0].Provider == Other {
			want = 3
		}
		all := scraped(t, reg)
		found := 0
		for series, v := range all {
			if strings.HasPrefix(series, spentOnDef.name) && strings.Count(series, `"`+Other+`"`) == 2 {
				if found++; v != want {
					t.Errorf("%v: %s is %v, want %v", by, series, v, want)
				}
			}
		}
		if found != 1 {
			t.Errorf("%v: %d series of the pair %s in %v", by, found, Other, all)
		}
	}
}

// What is registered is what is documented, no more and no less.
func TestDefinitionsAreWhatIsRegistered(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg, func() Gauges {
		return Gauges{
			Breakers: []BreakerGauge{{Provider: "a", State: "closed"}},
			Shares:   []ShareGauge{{Provider: "a"}},
			Health:   []HealthGauge{{Provider: "a"}},
			Refusals: []RefusalGauge{{Provider: "a"}},
			Weights:  []WeightGauge{{Provider: "a"}},
			Jobs:     []JobGauge{{Job: "a"}},
			Spans:    &SpanGauge{},
			Budgets:  []BudgetGauge{{Model: "m", Objective: "availability", By: []BudgetSpentGauge{{Provider: "a", Reason: "reset", Bad: 1}}}},
		}
	})
	m.Reset(testTopology())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		got = append(got, fmt.Sprintln(f.GetName(), strings.ToLower(f.GetType().String()), labels, f.GetHelp()))
	}
	for _, d := range definitions {
		labels := slices.Sorted(slices.Values(d.labels))
		want = append(want, fmt.Sprintln(d.name, d.kind, labels, d.help))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
