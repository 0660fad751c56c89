package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// What Show prints is a configuration that comes to the same.
func TestShowIsAConfiguration(t *testing.T) {
	src := minimalWith(`environment: "a: b # \"c\" \u00e9 \u202e"
tasks: {"true": {fallback: any, user_sees: "it's \"so\""}, x: {data_zones: ["1", us]}}
accepted: {"a/b c": "1e3", d: "007"}
max_request_bytes: 1000
upstreams2: null
`, "breaker.cooldown", "3s")
	src.Data = []byte(strings.Replace(string(src.Data), "upstreams2: null\n", "", 1))
	src.Data = []byte(strings.Replace(string(src.Data), "api_key: env:KEY}", "api_keys: [env:KEY], base_url: http://127.0.0.1:9/v1, breaker: {probes: 2}, fault_domains: {dns: a b}}", 1))
	src.Data = []byte(strings.Replace(string(src.Data), "base_url: https://a.example/v1, ", "", 1))
	for _, c := range []*Config{load(t, src), load(t, minimal())} {
		again := src
		again.Data, again.Flags = c.Show(), nil
		d := load(t, again)
		if string(d.withoutComments()) != string(c.withoutComments()) {
			t.Errorf("got\n%s\nwant\n%s", d.Show(), c.Show())
		}
		if d.Hash() != c.Hash() {
			t.Errorf("hashes differ: %v", Diff(c, d))
		}
	}
}

func (c *Config) withoutComments() []byte {
	var b []byte
	for line := range strings.Lines(string(c.Show())) {
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " # default")
		line, _, _ = strings.Cut(line, " # flag")
		b = append(b, line+"\n"...)
	}
	return b
}

func TestShowSaysWhereFrom(t *testing.T) {
	src := minimal("environment", "TEST")
	src.Env = func(k string) (string, bool) {
		return map[string]string{"KEY": "x", "FAILBACK_DRAIN_DELAY": "1s"}[k], k == "KEY" || k == "FAILBACK_DRAIN_DELAY"
	}
	show := string(load(t, src).Show())
	for _, want := range []string{
		"listen: 127.0.0.1:8080\n", "environment: TEST # flag\n", "drain_delay: 1s # FAILBACK_DRAIN_DELAY\n",
		"shutdown_grace: 30s # default\n", "    api_key: env:KEY\n", "    auth: bearer # default\n", "steps: # default\n",
	} {
		if !strings.Contains(show, want) {
			t.Errorf("no %q in\n%s", want, show)
		}
	}
}

// SEC-01, SEC-04: no rendering of a configuration gives a secret away.
func TestSecretsStayHidden(t *testing.T) {
	const hash = "5ec4e7000000000000000000000000005ec4e700000000000000000000000000"
	src := minimalWith(`keys: [{name: web, hash: "sha256:` + hash + `"}]
notify: {webhook: "https://hooks.example/services/SECRET?x=SECRET"}
jobs: {ping: "https://ping.example/SECRET?x=SECRET"}
shared_dependencies: [{name: v, domain: identity/v, http: "https://v.example/?token=SECRET"}]
store: {nats: "nats://user:SECRET@n.example:4222"}
sources: {loki: {url: "http://l.example/?token=SECRET"}}
`)
	src.Data = []byte(strings.Replace(string(src.Data), "api_key: env:KEY", `api_keys: [SECRET-literal, "exec:echo SECRET", "exec:X=SECRET printenv X", env:KEY]`, 1))
	src.Env = func(k string) (string, bool) { return "SECRET-env", k == "KEY" }
	c := load(t, src)
	if got := c.Upstreams[0].Keys[1].Value(); got != "SECRET" {
		t.Fatalf("exec gave %q", got)
	}
	j, err := json.Marshal(c.Upstreams[0])
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", c.Upstreams[0].Keys[0], "keys", c.Upstreams[0].Keys)
	other := load(t, minimal())
	texts := map[string]string{
		"Show": string(c.Show()), "Settings": fmt.Sprint(c.Settings()), "Hash": c.Hash(), "Lint": fmt.Sprint(c.Lint()),
		"Diff": fmt.Sprint(Diff(c, other), Diff(other, c)), "Files": fmt.Sprint(c.Files()), "JSON": string(j), "log": log.String(),
		"%v": fmt.Sprintf("%v", c.Upstreams), "%+v": fmt.Sprintf("%+v", c.Upstreams), "%#v": fmt.Sprintf("%#v", c.Upstreams), "%x": fmt.Sprintf("%x %d", c.Upstreams[0].Keys, c.Upstreams[0].Keys),
	}
	for name, text := range texts {
		if strings.Contains(text, "SECRET") || strings.Contains(text, hash) || strings.Contains(text, "5345") {
			t.Errorf("%s gives a secret away:\n%s", name, text)
		}
	}
}
