//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// numbers asks the Prometheus API of a gateway on a socket.
type numbers struct {
	client *http.Client
}

func numbersOf(target string) numbers {
	socket := strings.TrimPrefix(target, "unix:")
	return numbers{&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// series are the labels of what a query returns, and whether any value is above 0.
func (n numbers) series(t *testing.T, query string) (found []map[string]string, above bool) {
	t.Helper()
	res, err := n.client.Get("http://gateway/prometheus/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var a struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil || a.Status != "success" || a.Data.ResultType != "vector" {
		t.Fatalf("%s: %d, %v, %+v", query, res.StatusCode, err, a)
	}
	for _, r := range a.Data.Result {
		found = append(found, r.Metric)
		above = above || r.Value[1] != "0"
	}
	return found, above
}

// notKept are metrics that the gateway's own store has not: a scraper adds them.
var notKept = []string{"up"}

// mayBeEmpty are panels and rules whose expression returns nothing for a gateway
// that has been up for less than a minute, by name, with the reason.
var mayBeEmpty = map[string]string{
	"Spans of traces":           "the demo has no telemetry.otlp",
	"FailbackTraceSpansDropped": "the demo has no telemetry.otlp",
	"Not allowed":               "there is no violation, and it leaves 0 out",
	"FailbackGatewayDown":       "up is the scraper's",
	"FailbackSeriesAbsent":      "it returns something where there are no series",
}

// noSpans are the ones of mayBeEmpty whose series are not there either.
var noSpans = []string{"Spans of traces", "FailbackTraceSpansDropped"}

// selectorsHold asks for each selector of an expression by itself: it finds series,
// of each label value that it names, and they have the labels that are grouped by.
func selectorsHold(t *testing.T, n numbers, name, expr string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	parser.Inspect(parsed, func(node parser.Node, path []parser.Node) error {
		s, ok := node.(*parser.VectorSelector)
		if !ok || slices.Contains(notKept, s.Name) {
			return nil
		}
		found := func(matchers ...*labels.Matcher) []map[string]string {
			bare := &parser.VectorSelector{Name: s.Name, LabelMatchers: matchers}
			f, _ := n.series(t, bare.String())
			return f
		}
		all := found(s.LabelMatchers...)
		if len(all) == 0 {
			t.Errorf("%s: no series of %s", name, s)
		}
		for i, m := range s.LabelMatchers {
			var values []string
			switch m.Type {
			case labels.MatchRegexp:
				values = strings.Split(m.Value, "|")
			case labels.MatchNotEqual:
				values = []string{m.Value}
			}
			for _, v := range values {
				with := slices.Clone(s.LabelMatchers)
				with[i] = labels.MustNewMatcher(labels.MatchEqual, m.Name, v)
				if len(found(with...)) == 0 {
					t.Errorf("%s: no series of %s has %s=%q", name, s, m.Name, v)
				}
			}
		}
		for _, label := range matchedBy(s, path) {
			if !slices.ContainsFunc(all, func(l map[string]string) bool { return l[label] != "" }) {
				t.Errorf("%s: no series of %s has the label %s", name, s, label)
			}
		}
		return nil
	})
}

// matchedBy are the labels by which the nodes above a selector, in path, group it
// or match it with others. What only says which series stay is grouped by nobody.
func matchedBy(below parser.Node, path []parser.Node) (names []string) {
	for _, above := range slices.Backward(path) {
		switch a := above.(type) {
		case *parser.AggregateExpr:
			if !a.Without {
				names = append(names, a.Grouping...)
			}
		case *parser.BinaryExpr:
			if m := a.VectorMatching; m != nil && m.On {
				names = append(names, m.MatchingLabels...)
			}
			if below == a.RHS && (a.Op == parser.LAND || a.Op == parser.LUNLESS) {
				return names
			}
		}
		below = above
	}
	return names
}

// unfiltered is an expression whose comparisons answer 0 or 1 instead of leaving
// series out, but for those that say which series an unless takes away.
func unfiltered(t *testing.T, expr string) string {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatal(err)
	}
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || !b.Op.IsComparisonOperator() {
			return nil
		}
		for _, above := range slices.Backward(path) {
			if a, ok := above.(*parser.BinaryExpr); ok && a.Op == parser.LUNLESS && n == a.RHS {
				return nil
			}
			n = above
		}
		b.ReturnBool = true
		return nil
	})
	return e.String()
}

// Every panel of the dashboard shows something of a gateway that has had an
// outage, and every rule asks for series that there are, with labels that they
// have: a wrong label or value is no error in PromQL, it is silence.
func TestPanelsAndRulesFindSeries(t *testing.T) {
	t.Parallel()
	target := demoGateway(t, "outage")
	n := numbersOf(target)
	until(t, "the store of numbers is open", func() bool {
		res, err := n.client.Get("http://gateway/prometheus/api/v1/query?query=vector(1)")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	over := time.Now().Add(90 * time.Second) // the outage begins by the demo's own clock
	for {
		_, fell := n.series(t, `sum(increase(ai_fallback_triggered_total[1m]))`)
		_, open := n.series(t, `sum(failback_breaker_state{state!="closed"})`)
		_, late := n.series(t, `sum(failback_slo_budget_bad_requests)`)
		if fell && open && late {
			break
		}
		if time.Now().After(over) {
			t.Fatalf("fallbacks %v, a breaker open %v, a budget spent on %v", fell, open, late)
		}
		<-time.After(500 * time.Millisecond)
	}
	rules := func(args ...string) []byte {
		cmd := exec.Command(program, append([]string{"rules", "--connect", target, "--threshold", "0.1", "--interrupted", "0.05", "--client-retries", "0.2", "--first-output", "5s"}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}

	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(rules("--dashboard"), &board); err != nil {
		t.Fatal(err)
	}
	names, asked := map[string]bool{}, 0
	legend := regexp.MustCompile(`\{\{(\w+)\}\}`)
	for _, p := range board.Panels {
		names[p.Title] = true
		for _, q := range p.Targets {
			asked++
			if !slices.Contains(noSpans, p.Title) {
				selectorsHold(t, n, p.Title, q.Expr)
			}
			if mayBeEmpty[p.Title] != "" {
				continue
			}
			found, _ := n.series(t, q.Expr)
			if len(found) == 0 {
				t.Errorf("%s shows nothing: %s", p.Title, q.Expr)
				continue
			}
			for _, label := range legend.FindAllStringSubmatch(q.LegendFormat, -1) {
				if !slices.ContainsFunc(found, func(l map[string]string) bool { return l[label[1]] != "" }) {
					t.Errorf("%s: nothing that it shows has the label %s of its legend", p.Title, label[1])
				}
			}
		}
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(rules(), &file); err != nil || len(file.Groups) != 1 {
		t.Fatal(file, err)
	}
	for _, r := range file.Groups[0].Rules {
		names[r.Alert] = true
		asked++
		if !slices.Contains(noSpans, r.Alert) {
			selectorsHold(t, n, r.Alert, r.Expr)
		}
		if found, _ := n.series(t, unfiltered(t, r.Expr)); len(found) == 0 && mayBeEmpty[r.Alert] == "" {
			t.Errorf("%s finds nothing: %s", r.Alert, r.Expr)
		}
	}
	for name, why := range mayBeEmpty {
		if !names[name] {
			t.Errorf("%s, which may be empty since %s, is not there", name, why)
		}
	}
	if asked < 45 {
		t.Errorf("only %d expressions were asked", asked)
	}
}
