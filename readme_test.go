package main_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"failback/gateway/config"
)

// The README's screen is one that is drawn, its configuration one that works, and
// its two commands are there.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.ReadFile("ui/testdata/healths/100x30.txt")
	if err != nil {
		t.Fatal(err)
	}
	if want := "```\n" + strings.TrimRight(string(screen), " \n") + "\n```\n"; !strings.Contains(string(b), want) {
		t.Errorf("README.md lacks the screen as it is:\n%s", want)
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
