package config

import (
	"context"
	"testing"
)

// What a configuration says is known without the credentials it names, and
// mistakes in it are found all the same.
func TestLoadTextNeedsNoCredentials(t *testing.T) {
	const text = `
listen: 127.0.0.1:0
upstreams:
  a: {dialect: openai, base_url: "https://a.example/v1", region: r, api_key: env:NOT_THERE}
  b: {dialect: openai, base_url: "https://b.example/v1", region: r, api_key: "exec:false"}
models:
  m: {candidates: [{upstream: a, model: x}, {upstream: b, model: x}], slo: {availability: 0.99}}
sources: {every: 30s}
`
	none := func(string) (string, bool) { return "", false }
	cfg, err := LoadText(Source{Data: []byte(text), Env: none})
	if err != nil || cfg.Sources.Every.Seconds() != 30 || cfg.Models[0].SLO.Availability != 0.99 {
		t.Fatalf("%v", err)
	}
	if _, err := Load(context.Background(), Source{Data: []byte(text), Env: none}); err == nil {
		t.Error("the credentials are missed by nobody")
	}
	if _, err := LoadText(Source{Data: []byte(text + "nonsense: 1\n"), Env: none}); err == nil {
		t.Error("a mistake is not found")
	}
}
