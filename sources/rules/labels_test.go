package rules

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"failback/sources/promql"
)

// What a selector fixes is what Prometheus's own parser reads of it: its
// matchers by =, but those that no alert can have.
func TestFixedLabels(t *testing.T) {
	for _, tt := range []struct {
		selector string
		want     []promql.Label
	}{
		{``, nil},
		{`job="failback"`, []promql.Label{{Name: "job", Value: "failback"}}},
		{`{job="it's", env=~"a|b", dc!="x", zone!~"y", path="a|\\d\n\"",}`, []promql.Label{{Name: "job", Value: "it's"}, {Name: "path", Value: "a|\\d\n\""}}},
		{"a='x\\'y', b=`\\raw, c=\"z\"`, c = \"\\u00e9\\x41,}=\"", []promql.Label{{Name: "a", Value: "x'y"}, {Name: "b", Value: `\raw, c="z"`}, {Name: "c", Value: "éA,}="}}},
		{`"my.env"="a", severity="x", alertname="y", empty="", __name__=~"f.+"`, []promql.Label{{Name: "my.env", Value: "a"}}},
	} {
		q := promql.New(tt.selector, Step)
		got := q.Fixed()
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.selector, d)
		}
		if tt.selector == "" {
			continue
		}
		p := parser.NewParser(parser.Options{})
		theirs, err := p.ParseMetricSelector("{" + promql.Matchers(tt.selector) + "}")
		if err != nil {
			t.Fatalf("%s: %v", tt.selector, err)
		}
		for _, l := range got {
			is := false
			for _, m := range theirs {
				is = is || m.Type == labels.MatchEqual && m.Name == l.Name && m.Value == l.Value
			}
			if !is {
				t.Errorf("%s: %+v is none of its matchers", tt.selector, l)
			}
		}
		// The console finds alerts that have these labels, and those that have
		// none, of rules that watch all gateways; it finds no others.
		e, err := p.ParseExpr(q.Firing())
		if err != nil {
			t.Fatalf("%s: %v", q.Firing(), err)
		}
		finds := func(with map[string]string) bool {
			ms := e.(*parser.AggregateExpr).Expr.(*parser.VectorSelector).LabelMatchers
			for _, m := range ms {
				if !m.Matches(with[m.Name]) {
					return false
				}
			}
			return true
		}
		alert := map[string]string{"__name__": "ALERTS", "alertname": "FailbackModelGone", "alertstate": "firing"}
		if !finds(alert) {
			t.Errorf("%s: rules without labels are not found", q.Firing())
		}
		for _, l := range got {
			alert[l.Name] = l.Value
		}
		if !finds(alert) {
			t.Errorf("%s: its own rules are not found", q.Firing())
		}
		for _, l := range got {
			alert[l.Name] = l.Value + "x"
			if finds(alert) {
				t.Errorf("%s: alerts of another %s are found", q.Firing(), l.Name)
			}
			alert[l.Name] = l.Value
		}
	}
}

// Each alert has the labels that the selector fixes, as Prometheus expands them.
func TestRulesHaveTheSelectorsLabels(t *testing.T) {
	o := tested()
	o.Selector = `job="failback", env="a: {{b}}", dc=~"x|y"`
	var f struct {
		Groups []struct {
			Rules []struct {
				Alert  string
				Labels map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(rulesFile(t, o)), &f); err != nil || len(f.Groups) != 1 || len(f.Groups[0].Rules) == 0 {
		t.Fatal(err)
	}
	for _, r := range f.Groups[0].Rules {
		severity := r.Labels["severity"]
		if d := cmp.Diff(map[string]string{"severity": severity, "job": "failback", "env": `a: {{"{{"}}b}}`}, r.Labels); d != "" || severity == "" {
			t.Errorf("%s: %s", r.Alert, d)
		}
	}
	o.Selector = ""
	if got := rulesFile(t, o); strings.Contains(got, "'job':") {
		t.Error("labels without a selector")
	}
}
