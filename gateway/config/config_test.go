package config

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
)

// load fails the test if src is refused.
func load(t testing.TB, src Source) *Config {
	t.Helper()
	c, err := Load(context.Background(), src)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// minimalWith is minimal with something appended.
func minimalWith(more string, flags ...string) Source {
	src := minimal(flags...)
	src.Data = append(src.Data, more...)
	return src
}

// sample is the whole of what can be configured.
func sample(t testing.TB) *Config {
	return load(t, Source{Path: "testdata/sample.yaml", Env: func(k string) (string, bool) {
		return "SECRET-" + k, strings.HasSuffix(k, "_API_KEY")
	}})
}

// The sample shows every default, so what the least configuration comes to
// must be what the sample says.
func TestDefaultsAreTheSamples(t *testing.T) {
	notDefaults := map[string]bool{
		"listen": true, "operator.listen": true, "environment": true, "limit.fallback_ratio": true,
		"sources.prometheus.url": true, "sources.prometheus.selector": true, "sources.loki.url": true, "sources.loki.selector": true,
		"telemetry.otlp.endpoint": true, "notify.webhook": true, "store.nats": true,
	}
	got := map[string]Setting{}
	for _, s := range load(t, minimal()).Settings() {
		got[s.Key] = s
	}
	n := 0
	for _, s := range sample(t).Settings() {
		if notDefaults[s.Key] || s.Origin != OriginFile {
			continue
		}
		n++
		if g, ok := got[s.Key]; !ok || g.Value != s.Value || g.Origin != OriginDefault {
			t.Errorf("%s is %q by default (%v), the sample has %q", s.Key, g.Value, g.Origin, s.Value)
		}
	}
	if n < 50 {
		t.Errorf("only %d defaults compared", n)
	}
}

func TestSample(t *testing.T) {
	c := sample(t)
	want := []string{"anthropic-us-east-1", "vertex-us-central1", "openai"}
	for i, u := range c.Upstreams {
		if u.Name != want[i] {
			t.Errorf("upstream %d is %s, want %s: file order", i, u.Name, want[i])
		}
	}
	a, v, o := c.Upstreams[0], c.Upstreams[1], c.Upstreams[2]
	if a.Auth != "x-api-key" || v.Auth != "bearer" || o.Auth != "bearer" {
		t.Errorf("auth %s %s %s", a.Auth, v.Auth, o.Auth)
	}
	if got := a.Keys[0].Value(); got != "SECRET-ANTHROPIC_API_KEY" {
		t.Errorf("key %q", got)
	}
	if got := v.Keys[0].Value(); got != "vertex-secret-value" {
		t.Errorf("key %q", got)
	}
	if a.BaseURL.String() != "https://api.anthropic.com" || o.BaseURL.String() != "https://api.openai.com/v1" {
		t.Errorf("base_url %s %s", a.BaseURL, o.BaseURL)
	}
	if a.Limits != (Limits{200, 50, 400000}) || o.Limits != (Limits{}) {
		t.Errorf("limits %v %v", a.Limits, o.Limits)
	}
	k := c.Models[0].Candidates
	if k[0].Capabilities != decision.SetOf(decision.Capabilities...) || k[2].Capabilities != decision.SetOf(decision.Text, decision.Stream) {
		t.Errorf("capabilities %s %s", k[0].Capabilities, k[2].Capabilities)
	}
	if k[0].Weight != 100 || !k[2].Substitute || !k[2].LargerContext || k[0].ContextTokens != 200000 || k[1].ContextTokens != 0 {
		t.Errorf("candidates %+v", k)
	}
	if got := c.Tasks[1]; got.Name != "document_summary" || got.Fallback != "any" || got.Release != "complete" || got.OnUnavailable != "fail" {
		t.Errorf("task %+v", got)
	}
	if c.DefaultTask.Name != decision.TaskUnnamed || c.MaxRequestBytes != 32<<20 || c.Deadline.FirstOutput != time.Minute {
		t.Errorf("%+v", c.DefaultTask)
	}
	if s := c.Failback.Steps; len(s) != 4 || s[1] != (Step{25, 15 * time.Minute}) || s[3] != (Step{100, 0}) {
		t.Errorf("steps %v", s)
	}
	if got := c.Files(); len(got) != 1 || got[0] != "testdata/vertex.key" {
		t.Errorf("files %v", got)
	}
}

func TestDefaultsOfTheLeast(t *testing.T) {
	c := load(t, minimal())
	k := c.Models[0].Candidates[0]
	if k.Weight != 100 || k.Model != "m" || k.Capabilities != decision.SetOf(decision.Capabilities...) {
		t.Errorf("candidate %+v", k)
	}
	if u := c.Upstreams[0]; u.Region != "global" || u.Auth != "bearer" || u.Breaker != c.Breaker || u.Retry != c.Retry || u.Stream != c.Stream {
		t.Errorf("upstream %+v", u)
	}
	if c.TLS != nil || c.Limit != nil || c.Notify != nil || c.Store != nil || c.Operator.Listen != "" {
		t.Errorf("optional sections are there: %+v", c)
	}
	if len(c.Failback.Steps) != 4 || c.Telemetry.Sample["primary_completed"] != 1 {
		t.Errorf("%+v %+v", c.Failback, c.Telemetry)
	}
}

// CFG-06: flag, environment, file, default, in this order, and one's own
// section before that for all.
func TestPrecedence(t *testing.T) {
	src := minimalWith("breaker: {cooldown: 20s, window: 40s}\n", "breaker.window", "50s")
	src.Data = []byte(strings.Replace(string(src.Data), "api_key: env:KEY}", "api_key: env:KEY, breaker: {probes: 2, cooldown: 7s}}\n  b: {dialect: openai, base_url: https://b.example/v1, api_key: env:KEY}", 1))
	env := map[string]string{"KEY": "x", "FAILBACK_BREAKER_WINDOW": "60s", "FAILBACK_BREAKER_COOLDOWN": "30s", "FAILBACK_LIMIT_FALLBACK_RATIO": "0.5", "FAILBACK_BREAKER_SLOW_OVER": "9s"}
	src.Env = func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	c := load(t, src)
	for _, tt := range []struct{ key, value, origin string }{
		{"breaker.window", "50s", OriginFlag},
		{"breaker.cooldown", "30s", OriginEnvironment},
		{"breaker.slow.over", "9s", OriginEnvironment},
		{"breaker.probes", "1", OriginDefault},
		{"listen", "127.0.0.1:8080", OriginFile},
		{"limit.fallback_ratio", "0.5", OriginEnvironment},
		{"upstreams.a.breaker.cooldown", "7s", OriginFile},
		{"upstreams.a.breaker.probes", "2", OriginFile},
	} {
		found := false
		for _, s := range c.Settings() {
			if s.Key == tt.key {
				found = true
				if s.Value != tt.value || s.Origin != tt.origin {
					t.Errorf("%s is %s from %s, want %s from %s", s.Key, s.Value, s.Origin, tt.value, tt.origin)
				}
			}
		}
		if !found {
			t.Errorf("%s is not among the settings", tt.key)
		}
	}
	a, b := c.Upstreams[0].Breaker, c.Upstreams[1].Breaker
	if a.Cooldown != 7*time.Second || a.Probes != 2 || a.Window != 50*time.Second || a.Slow.Over != 9*time.Second {
		t.Errorf("a: %+v", a)
	}
	if b != c.Breaker || b.Cooldown != 30*time.Second {
		t.Errorf("b: %+v, all: %+v", b, c.Breaker)
	}
}

// Two keys must not be set by the same variable.
func TestEnvironmentNames(t *testing.T) {
	seen := map[string]string{}
	fixed(root(), "", func(path string, _ *field) {
		name := environmentName(path)
		if other, ok := seen[name]; ok {
			t.Errorf("%s sets %s and %s", name, other, path)
		}
		seen[name] = path
	})
	if seen["FAILBACK_LISTEN"] != "listen" || seen["FAILBACK_BREAKER_COOLDOWN"] != "breaker.cooldown" {
		t.Error("names of the environment")
	}
}

func TestPathsAreOfTheFile(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/failback.yaml"
	if err := os.WriteFile(path, []byte(minimalYAML+"telemetry: {decision_log: log/d.jsonl}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	src := minimal()
	src.Data, src.Path = nil, path
	c := load(t, src)
	if c.DataDir != dir+"/data" || c.Telemetry.DecisionLog != dir+"/log/d.jsonl" {
		t.Errorf("%s %s", c.DataDir, c.Telemetry.DecisionLog)
	}
	src.Flags["data_dir"] = "elsewhere"
	if c := load(t, src); c.DataDir != "elsewhere" {
		t.Errorf("a flag's path is %s", c.DataDir)
	}
	src.Path = dir + "/nowhere.yaml"
	_, err := Load(context.Background(), src)
	if err == nil || !strings.Contains(err.Error(), "nowhere.yaml: cannot be read: no such file or directory") {
		t.Errorf("%v", err)
	}
	src.Path = dir
	if _, err = Load(context.Background(), src); err == nil {
		t.Error("a directory is a configuration")
	}
}
