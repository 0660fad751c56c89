package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"failback/gateway/operator/api"
	"failback/sources/gatewaytest"
)

// rulesConfig is a configuration whose credentials are not there.
const rulesConfig = `
listen: 127.0.0.1:0
upstreams:
  a: {dialect: openai, base_url: "https://a.example/v1", region: r, api_key: env:NOT_THERE_AT_ALL}
models:
  m: {candidates: [{upstream: a, model: x}], slo: {availability: 0.999, window: 168h}}
shared_dependencies: [{name: token, domain: identity/x, file: /nowhere, every: 1h}]
`

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "failback.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// rulesIn reads the rules as Prometheus does.
func rulesIn(t *testing.T, text string) map[string]string {
	t.Helper()
	var f struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal([]byte(text), &f); err != nil || len(f.Groups) != 1 {
		t.Fatalf("%v:\n%s", err, text)
	}
	exprs := map[string]string{}
	for _, r := range f.Groups[0].Rules {
		exprs[r.Alert] = r.Expr
	}
	return exprs
}

func TestRulesFromConfiguration(t *testing.T) {
	own := writeConfig(t, rulesConfig)
	theirs := writeConfig(t, rulesConfig+"sources: {every: 2m, prometheus: {url: \"http://p.example\", selector: 'job=\"llm\", dc=\"x\"'}}\n")
	for _, c := range []struct{ conf, selector, window string }{{own, `{job="failback"}[5m]`, "5m"}, {theirs, `{job="llm", dc="x"}[8m]`, "8m"}} {
		out, errs, code := runLine("rules", "--config", c.conf, "--threshold", "0.1", "--runbook-url", "https://r.example/{id}.md")
		if code != exitDone || errs != "" {
			t.Fatalf("exit %d: %s", code, errs)
		}
		exprs := rulesIn(t, out)
		if got := exprs["FailbackFallbackRatioHigh"]; strings.Count(got, c.selector) != 2 || !strings.HasSuffix(got, "> 0.1") {
			t.Errorf("the selector and window of the configuration are not in %s", got)
		}
		// A fiftieth of seven days an hour is 3.36 times too fast.
		if got := exprs["FailbackAvailabilityBurnsFast"]; !strings.Contains(got, "> on (model) clamp_max(3.36 * (1 - ") {
			t.Errorf("the window of the objective is not in %s", got)
		}
		for _, want := range []string{"runbook_url: 'https://r.example/fallback-ratio-high.md'", "\n# FailbackStreamsInterrupted is left out."} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in:\n%s", want, out)
			}
		}
		board, errs, code := runLine("rules", "--config", c.conf, "--dashboard")
		if code != exitDone || errs != "" || !json.Valid([]byte(board)) || !strings.Contains(board, "["+c.window+"]") {
			t.Errorf("exit %d: %s%s", code, errs, board)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		errs string
	}{
		{[]string{"--threshold", "10"}, exitUsage, "0.1 for 10%"},
		{[]string{"--threshold", "NaN"}, exitUsage, "--threshold"},
		{[]string{"--interrupted", "-1"}, exitUsage, "--interrupted"},
		{[]string{"--client-retries", "1"}, exitUsage, "--client-retries"},
		{[]string{"--first-output", "5"}, exitUsage, "as 5s"},
		{[]string{"--measured", "all"}, exitUsage, "such as 30d"},
		{[]string{"--measured", "--connect", "S"}, exitUsage, `--measured wants a span to look back, such as 30d, not "--connect"`},
		{[]string{"--first-output", "--connect", "S"}, exitUsage, "--first-output"},
		{[]string{"--measured", "30d", "x"}, exitUsage, "arguments"},
		{[]string{"x"}, exitUsage, "arguments"},
		{[]string{"--measured", "30d"}, exitFailed, "failback"}, // no gateway runs
		{[]string{"--config", own + "x"}, exitUsage, "cannot be read"},
	} {
		out, errs, code := runLine(append([]string{"rules", "--config", own}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.errs) {
			t.Errorf("rules %q: exit %d, %s%s", c.args, code, out, errs)
		}
	}
}

// The limit that the console shows is the threshold of its alert, unless a flag
// says another.
func TestRulesTakeTheConfiguredLimit(t *testing.T) {
	const head = "# The threshold of FailbackFallbackRatioHigh is limit.fallback_ratio of "
	limited := writeConfig(t, rulesConfig+"limit: {fallback_ratio: 0.05}\n")
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) { s.Limit, s.Sources.Prometheus.EverySeconds = &api.Limit{FallbackRatio: 0.07}, 15 })
	past := gatewaytest.New(t)
	past.Set(func(s *api.State) {
		s.Limit = &api.Limit{FallbackRatio: 0.07}
		s.Sources.Prometheus = api.Source{URL: pastOf(t, 48*time.Hour), Selector: `job="failback"`, EverySeconds: 15}
	})
	for _, c := range []struct {
		args      []string
		threshold string // empty: the rule is left out
		from      string // empty: the head does not say
	}{
		{[]string{"--config", limited}, "0.05", "the configuration: 0.05."},
		{[]string{"--config", limited, "--threshold", "0.1"}, "0.1", ""},
		{[]string{"--config", limited, "--threshold", "0"}, "0", ""},
		{[]string{"--config", writeConfig(t, rulesConfig)}, "", ""},
		{[]string{"--config", writeConfig(t, rulesConfig+"limit: {fallback_ratio: 0}\n")}, "0", "the configuration: 0."},
		{[]string{"--config", writeConfig(t, rulesConfig+"limit: {fallback_ratio: 1}\n")}, "", ""},
		{[]string{"--connect", g.Target()}, "0.07", "the gateway: 0.07."},
		{[]string{"--connect", past.Target(), "--measured", "4d"}, "0.07", "the gateway: 0.07."},
	} {
		out, errs, code := runLine(append([]string{"rules"}, c.args...)...)
		if code != exitDone || errs != "" {
			t.Fatalf("%q: exit %d: %s", c.args, code, errs)
		}
		expr := rulesIn(t, out)["FailbackFallbackRatioHigh"]
		left := strings.Contains(out, "FailbackFallbackRatioHigh is left out. It needs --threshold R, limit.fallback_ratio, or --measured 30d.")
		if c.threshold == "" && (expr != "" || !left) || c.threshold != "" && (!strings.HasSuffix(expr, " > "+c.threshold) || left) {
			t.Errorf("%q: want threshold %q: %s\n%s", c.args, c.threshold, expr, out)
		}
		if says := strings.Contains(out, head+c.from); c.from == "" && strings.Contains(out, head) || c.from != "" && !says {
			t.Errorf("%q: want from %q:\n%s", c.args, c.from, out)
		}
	}
}

// No quantile is above the highest finite bucket: a threshold of that makes a rule
// that never fires, and is refused. The bucket is that of the gateway.
func TestRulesRefuseWhatNoQuantileExceeds(t *testing.T) {
	conf := writeConfig(t, rulesConfig)
	patient := writeConfig(t, rulesConfig+"deadline: {first_output: 45m}\n")
	bounds := func(finite string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"at":"2026-01-02T03:04:05Z","sources":{"prometheus":{"every_seconds":15}}}`)
				return
			}
			fmt.Fprintf(w, "# TYPE ai_model_first_output_seconds histogram\n")
			for _, le := range append(strings.Fields(finite), "+Inf") {
				fmt.Fprintf(w, "ai_model_first_output_seconds_bucket{model=\"m\",le=\"%s\"} 0\n", le)
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	short, long, none := bounds("60 600"), bounds("600 2700"), bounds("")
	for _, c := range []struct {
		args []string
		errs string // empty: taken
	}{
		{[]string{"--config", conf, "--first-output", "599s"}, ""},
		{[]string{"--config", conf, "--first-output", "10m"}, "the highest bucket of ai_model_first_output_seconds is 10m"},
		{[]string{"--config", conf, "--first-output", "20m", "--dashboard"}, "the highest bucket of ai_model_first_output_seconds is 10m"},
		{[]string{"--config", patient, "--first-output", "20m"}, ""},
		{[]string{"--config", patient, "--first-output", "45m"}, "is 45m"},
		{[]string{"--connect", short, "--first-output", "20m"}, "is 10m"},
		{[]string{"--connect", long, "--first-output", "20m"}, ""},
		{[]string{"--connect", none, "--first-output", "20m"}, "no histogram"},
		{[]string{"--connect", none}, ""},
	} {
		out, errs, code := runLine(append([]string{"rules"}, c.args...)...)
		if c.errs == "" && (code != exitDone || errs != "") || c.errs != "" && (code == exitDone || out != "" || !strings.Contains(errs, c.errs)) {
			t.Errorf("rules %q: exit %d, %s\n%.200s", c.args, code, errs, out)
		}
	}
}

// pastOf is a Prometheus that has known every series for so long: a tenth of the
// requests leave their primary.
func pastOf(t *testing.T, known time.Duration) string {
	t.Helper()
	now := time.Now().Unix()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/query") {
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"scalar","result":[%d,"%d"]}}`, now, now)
			return
		}
		start, _ := strconv.ParseFloat(r.FormValue("start"), 64)
		end, _ := strconv.ParseFloat(r.FormValue("end"), 64)
		step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
		value := "10"
		if strings.Contains(r.FormValue("query"), "ai_fallback_triggered_total") {
			value = "1"
		}
		var points []string
		for at := start; at <= end; at += step {
			if at > float64(now)-known.Seconds() {
				points = append(points, fmt.Sprintf(`[%.3f,%q]`, at, value))
			}
		}
		result := ""
		if len(points) > 0 {
			result = `{"metric":{},"values":[` + strings.Join(points, ",") + `]}`
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, result)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestRulesMeasured(t *testing.T) {
	g := gatewaytest.New(t)
	ask := func(known time.Duration, args ...string) (string, string, int) {
		url := pastOf(t, known)
		g.Set(func(s *api.State) {
			s.Sources.Prometheus = api.Source{URL: url, Selector: `job="failback"`, EverySeconds: 15}
			s.Models = []api.Model{{Name: "m", Budgets: []api.Budget{{Objective: "first_output", WindowSeconds: 30 * 86400}}}}
		})
		return runLine(append([]string{"rules", "--connect", g.Target(), "--measured", "4d"}, args...)...)
	}
	out, errs, code := ask(48 * time.Hour)
	if code != exitDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	exprs := rulesIn(t, out)
	if got := exprs["FailbackFallbackRatioHigh"]; !strings.HasSuffix(got, " > 0.1") {
		t.Errorf("measured: %s", got)
	}
	if exprs["FailbackFirstOutputBurnsFast"] == "" || exprs["FailbackAvailabilityBurnsFast"] != "" {
		t.Error("the objectives are not the gateway's")
	}
	if !strings.Contains(out, "# fallback ratio ") || !strings.Contains(out, "0.1       0.1       0.1       0.1     ") || !strings.Contains(out, "# What follows from it for failback.yaml:") {
		t.Errorf("what was measured is not shown:\n%s", out)
	}
	if out, _, _ := ask(48*time.Hour, "--threshold", "0.3"); !strings.HasSuffix(rulesIn(t, out)["FailbackFallbackRatioHigh"], " > 0.3") {
		t.Error("the measured threshold replaces the given one")
	}
	out, errs, code = ask(3 * time.Hour)
	if code != exitFailed || out != "" || !strings.Contains(errs, "too little history") || !strings.Contains(errs, "needed are 300") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	g.Set(func(s *api.State) { s.Sources.Prometheus.URL = "http://127.0.0.1:1" })
	if _, errs, code := runLine("rules", "--connect", g.Target(), "--measured", "4d"); code != exitFailed || !strings.Contains(errs, "connection refused") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
