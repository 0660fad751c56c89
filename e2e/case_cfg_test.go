package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// CFG-07: whatever is wrong with the file, start, check and reload say the same:
// where, which key, and what was probably meant. They exit with 2 (a reload of a
// gateway that runs on with 1), and never with a stack trace.
func TestCFG07(t *testing.T) {
	t.Parallel()
	running := start(t, configure(t, t.TempDir(), newStub(t), newStub(t), ""))
	path := filepath.Join(running.dir, "failback.yaml")
	original, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, yaml string
		want       []string
	}{
		{"empty", "", []string{":1:1:", "empty"}},
		{"blank lines", "\n\n  \n", []string{":1:1:", "empty"}},
		{"comments only", "# listen: 127.0.0.1:1\n# nothing else\n", []string{":1:1:", "only comments"}},
		{"a document's head only", "---\n", []string{":1:1:", "only comments"}},
		{"a list for a map", strings.Replace(good, "upstreams:\n  a:", "upstreams:\n  - a:", 1), []string{":2:1:", "upstreams"}},
		{"a map for a list", strings.Replace(good, "[{upstream: a}]", "{upstream: a}", 1), []string{":5:", "models.m.candidates", "list"}},
		{"a word for a map", good + "breaker: fast\n", []string{":6:1:", "breaker"}},
		{"a list for a word", good + "environment: [a]\n", []string{":6:1:", "environment"}},
		{"a misspelt key", good + "failbak: {advance: auto}\n", []string{":6:1:", "failbak", "failback"}},
		{"a misspelt key of a task", good + "tasks: {t: {fallbacks: any}}\n", []string{":6:13:", "fallbacks", "fallback"}},
		{"a key of elsewhere", good + "cooldown: 3s\n", []string{":6:1:", "cooldown", "breaker"}},
		{"a misspelt value", good + "tasks: {t: {fallback: nevr}}\n", []string{":6:13:", "nevr", "never"}},
		{"tabs", strings.Replace(good, "  m:", "\tm:", 1), []string{":5:1:", "tab"}},
		{"twice", good + "listen: 127.0.0.1:1\n", []string{":6:1:", "listen", "line 1"}},
		{"twice deep down", strings.Replace(good, "dialect: openai,", "dialect: openai, dialect: openai,", 1), []string{":3:24:", "dialect"}},
		{"a number without unit", good + "drain_delay: 10\n", []string{":6:1:", "drain_delay", "10s"}},
		{"not text", "\xff\xfe\x00l", []string{":1:1:"}},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "failback.yaml")
		if err := os.WriteFile(file, []byte(c.yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		said := map[string]string{}
		for _, command := range []string{"check", "serve"} {
			out, stderr, code := cli(t, dir, command)
			if code != 2 || out != "" {
				t.Errorf("%s: %s: exit %d, stdout %q", c.name, command, code, out)
			}
			said[command] = stderr
		}
		replace(t, path, c.yaml)
		_, stderr, code := cli(t, running.dir, "reload", "--connect", "unix:"+filepath.Join(running.dir, "failback.sock"))
		if code != 1 && code != 2 {
			t.Errorf("%s: reload: exit %d", c.name, code)
		}
		said["reload"] = stderr
		for command, text := range said {
			for _, want := range append(c.want, "failback.yaml") {
				if !strings.Contains(text, want) {
					t.Errorf("%s: %s does not say %q: %s", c.name, command, want, text)
				}
			}
			if strings.Contains(text, "goroutine ") || strings.Contains(text, "panic") || strings.Contains(text, "literal-key") || strings.Contains(text, "\x1b") || strings.Contains(text, "\xff") || strings.Contains(text, "\x00") {
				t.Errorf("%s: %s says %q", c.name, command, text)
			}
		}
	}
	// A byte order mark is no mistake.
	replace(t, path, "\ufeff"+string(original))
	if _, err := running.client.Reload(t.Context(), api.Command{}); err != nil {
		t.Errorf("a byte order mark: %v", err)
	}
}
