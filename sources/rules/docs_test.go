package rules

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"failback/gateway/decision"
	"failback/sources"
	"failback/sources/promql"
)

// documented are the names of docs/metrics.md, those of a histogram's series
// among them.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	b, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{promql.TargetUp: true}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram) \\|").FindAllStringSubmatch(string(b), -1) {
		names[m[1]] = true
		if m[2] == "histogram" {
			names[m[1]+"_bucket"] = true
		}
	}
	if len(names) < 20 {
		t.Fatalf("only %d metrics are documented", len(names))
	}
	return names
}

func checkExpr(t *testing.T, names map[string]bool, what, expr, selector string) {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if !names[s.Name] {
			t.Errorf("%s: there is no metric %s", what, s.Name)
		}
		if !strings.Contains(s.String(), selector) {
			t.Errorf("%s: %s does not select %s", what, s, selector)
		}
		return nil
	})
}

// shownBoard is as much of a dashboard as the tests look at.
type shownBoard struct {
	Panels        []panel
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Query string }
	}
}

func readBoard(t *testing.T, o Options) shownBoard {
	t.Helper()
	b, err := Dashboard(o)
	if err != nil {
		t.Fatal(err)
	}
	var d shownBoard
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Whatever is asked is PromQL, of metrics that there are, and of this gateway's.
func TestExpressions(t *testing.T) {
	names := documented(t)
	s, err := New(tested())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Missing) != 0 {
		t.Errorf("left out: %+v", s.Missing)
	}
	for _, r := range s.Rules {
		checkExpr(t, names, r.Name, r.Expr, `job="failback"`)
	}
	for _, p := range readBoard(t, tested()).Panels {
		for _, q := range p.Targets {
			checkExpr(t, names, p.Title, q.Expr, `job="failback"`)
		}
	}
}

// The ratio is the console's, in rules and dashboard, over a window of at least
// four scrapes.
func TestRatioIsTheConsoles(t *testing.T) {
	for _, every := range []time.Duration{time.Second, 15 * time.Second, time.Minute, 90 * time.Second, 5 * time.Minute} {
		o := tested()
		o.Every = every
		want := promql.New(o.Selector, sources.Window(every)).Ratio()
		if sources.Window(every) < 4*every {
			t.Errorf("a window of %s holds fewer than four scrapes", sources.Window(every))
		}
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if s.Rules[0].Expr != "("+want+") > 0.1" {
			t.Errorf("rule: %s\nconsole: %s", s.Rules[0].Expr, want)
		}
		d := readBoard(t, o)
		if !slices.ContainsFunc(d.Panels, func(p panel) bool { return len(p.Targets) == 1 && p.Targets[0].Expr == want }) {
			t.Errorf("no panel shows %s", want)
		}
		for _, r := range s.Rules {
			for _, m := range regexp.MustCompile(`\[(\w+)\]`).FindAllStringSubmatch(r.Expr, -1) {
				if w, err := model.ParseDuration(m[1]); err != nil || time.Duration(w) < 4*every {
					t.Errorf("%s: a range of %s, scraped every %s", r.Name, m[1], every)
				}
			}
		}
	}
}

// Violations are the console's, in rules and dashboard.
func TestViolationsAreTheConsoles(t *testing.T) {
	o := tested()
	want := promql.New(o.Selector, sources.Window(o.Every)).Violations()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.Name == "FailbackFellBackNotAllowed" && r.Expr == want }) {
		t.Errorf("no rule asks %s", want)
	}
	if !slices.ContainsFunc(readBoard(t, o).Panels, func(p panel) bool { return len(p.Targets) == 1 && p.Targets[0].Expr == want }) {
		t.Errorf("no panel shows %s", want)
	}
}

// A threshold that nobody gave leaves its rule out, with the flag that adds it.
func TestNoThresholdIsInvented(t *testing.T) {
	o := Options{Every: 15 * time.Second}
	got := rulesFile(t, o)
	for name, flag := range map[string]string{
		"FailbackFallbackRatioHigh": "--threshold R", "FailbackStreamsInterrupted": "--interrupted R", "FailbackClientsRetry": "--client-retries R",
		"FailbackFirstOutputSlow": "--first-output TIME", "FailbackAvailabilityBurnsFast": "slo.availability", "FailbackFirstOutputBurnsSlow": "slo.first_output",
		"FailbackGatewayDown": "sources.prometheus.selector",
	} {
		if !regexp.MustCompile(`(?m)^# `+name+` is left out\. .*`+regexp.QuoteMeta(flag)).MatchString(got) || strings.Contains(got, "alert: "+name+"\n") {
			t.Errorf("%s without %s:\n%s", name, flag, got)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("rules without a scrape interval")
	}
	for _, selector := range []string{`job=`, `job="a" b`, `a="b"} or vector(1) or x{c="d"`} {
		if _, err := New(Options{Every: time.Second, Selector: selector}); err == nil || !strings.Contains(err.Error(), "selector") {
			t.Errorf("rules for %s: %v", selector, err)
		}
		if _, err := Dashboard(Options{Every: time.Second, Selector: selector}); err == nil {
			t.Errorf("a dashboard for %s", selector)
		}
	}
}

// What no model has an objective for is not shown.
func TestDashboardShowsConfiguredBudgets(t *testing.T) {
	available := []Objective{{"m", Availability, time.Hour}}
	for _, tt := range []struct {
		objectives []Objective
		want       []string
	}{
		{nil, nil},
		{available, []string{"Error budget", "Budget spent", "Spent on"}},
		{append(available, Objective{"m", FirstOutput, time.Hour}), []string{"Error budget", "Budget spent", "Spent on", "First outputs that are late"}},
	} {
		o := tested()
		o.Objectives = tt.objectives
		var got []string
		for _, p := range readBoard(t, o).Panels {
			if slices.Contains([]string{"Error budget", "Budget spent", "Spent on", "First outputs that are late"}, p.Title) {
				got = append(got, p.Title)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v: %q, want %q", tt.objectives, got, tt.want)
		}
	}
}

// Grafana takes the dashboard: ids are its own, panels do not overlap, and each
// says what it shows and in which unit.
func TestDashboard(t *testing.T) {
	d := readBoard(t, tested())
	if d.SchemaVersion < 36 || len(d.Templating.List) != 1 || d.Templating.List[0].Type != "datasource" || d.Templating.List[0].Query != "prometheus" {
		t.Errorf("%+v", d.Templating)
	}
	type cell struct{ x, y int }
	taken := map[cell]string{}
	ids, titles := map[int]bool{}, map[string]bool{}
	for _, p := range d.Panels {
		if p.ID <= 0 || ids[p.ID] || p.Title == "" || titles[p.Title] {
			t.Errorf("%s has the id %d", p.Title, p.ID)
		}
		ids[p.ID], titles[p.Title] = true, true
		if p.GridPos.X < 0 || p.GridPos.W <= 0 || p.GridPos.H <= 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s is at %+v", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				c := cell{p.GridPos.X + x, p.GridPos.Y + y}
				if other, ok := taken[c]; ok {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[c] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || !slices.Contains([]string{unitRate, unitPart, unitSeconds, unitCount}, p.FieldConfig.Defaults.Unit) || len(p.Targets) == 0 {
			t.Errorf("%s: %q, unit %q, %d queries", p.Title, p.Description, p.FieldConfig.Defaults.Unit, len(p.Targets))
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if refs[q.RefID] || q.LegendFormat == "" || q.Datasource.UID != "${datasource}" {
				t.Errorf("%s: %+v", p.Title, q)
			}
			refs[q.RefID] = true
		}
	}
}

// docs/alerts.md has each alert with its severity and runbook, and no other.
func TestAlertsReference(t *testing.T) {
	b, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(tested())
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, r := range s.Rules {
		want = append(want, "`"+r.Name+"` | "+r.Severity+" | "+promql.Span(r.For)+" | `"+r.Runbook+"`")
	}
	for _, m := range regexp.MustCompile("(?m)^\\| (`Failback\\w+` \\| [^|]*\\| [^|]*\\| `[^`]*`) \\|").FindAllStringSubmatch(string(b), -1) {
		got = append(got, m[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/alerts.md has\n%s\nand there are\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, m := range regexp.MustCompile(`Failback[A-Z]\w+`).FindAllString(string(b), -1) {
		if !slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.Name == m }) {
			t.Errorf("docs/alerts.md speaks of %s, which there is not", m)
		}
	}
}

// The configurations in docs/alerts.md are YAML, and Prometheus takes its own.
func TestDocumentedConfigurations(t *testing.T) {
	b, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```yaml\n# (\\S+)\n(.*?)```").FindAllStringSubmatch(string(b), -1) {
		var v map[string]any
		if err := yaml.Unmarshal([]byte(m[2]), &v); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
		found[m[1]] = m[2]
	}
	if found["prometheus.yml"] == "" || found["collector.yaml"] == "" {
		t.Fatalf("found %d configurations", len(found))
	}
	path := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(path, []byte(found["prometheus.yml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "config", "--syntax-only", path)
	for _, flag := range []string{"--threshold", "--interrupted", "--client-retries", "--first-output", "--measured", "--runbook-url", "--dashboard"} {
		if !strings.Contains(string(b), "`"+flag) {
			t.Errorf("docs/alerts.md lacks %s", flag)
		}
	}
}

// The runbooks that rules name.
func TestRunbookIDs(t *testing.T) {
	ids := []string{"provider-5xx", "provider-silent", "rate-limited", "our-credential", "retired-model", "shared-fault", "fallback-ratio-high",
		"fell-back-not-allowed", "stream-interruptions", "users-time-out", "manual-failback", "closing-an-incident", "gateway-or-store"}
	s, err := New(tested())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Rules {
		if !slices.Contains(ids, r.Runbook) {
			t.Errorf("%s names the runbook %s", r.Name, r.Runbook)
		}
		if r.Summary == "" || r.Description == "" || r.Severity != Critical && r.Severity != Warning || r.For < 0 {
			t.Errorf("%+v", r)
		}
	}
}

// The words in the matchers are those of the gateway.
func TestWordsAreTheGateways(t *testing.T) {
	var counted []string
	for _, c := range decision.Classes {
		if c.Blame() == decision.OfBucket {
			counted = append(counted, string(c))
		}
	}
	if got := strings.Join(counted, "|"); got != blamed {
		t.Errorf("against a breaker count %s, and failures are %s", got, blamed)
	}
	rules := rulesFile(t, tested())
	for _, matcher := range []string{
		`class="` + string(decision.Credential) + `"`, `class="` + string(decision.ModelGone) + `"`,
		`reason="` + string(decision.SharedFault) + `"`, `outcome="` + string(decision.Incomplete) + `"`,
	} {
		if !strings.Contains(rules, matcher) {
			t.Errorf("no rule has %s", matcher)
		}
	}
}
