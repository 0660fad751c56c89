package main_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"failback/gateway/config"
)

// The README's configuration is one that works, and its two commands are there.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	yaml := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(b)
	if yaml == nil {
		t.Fatal("no configuration in README.md")
	}
	env := func(name string) (string, bool) { return "key-of-" + name, strings.HasSuffix(name, "_API_KEY") }
	cfg, err := config.Load(context.Background(), config.Source{Data: yaml[1], Env: env})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Upstreams) != 3 {
		t.Errorf("%d upstreams", len(cfg.Upstreams))
	}
	for _, command := range []string{"go run . demo ", "go test ./... "} {
		if !strings.Contains(string(b), command) {
			t.Errorf("README.md lacks %q", command)
		}
	}
}
