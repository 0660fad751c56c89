package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// cli runs the program and returns its output and exit code.
func cli(t *testing.T, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		code = e.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), code
}

const good = "listen: 127.0.0.1:0\nupstreams:\n  a: {dialect: openai, base_url: \"https://api.example/v1\", api_key: literal-key}\nmodels:\n  m: {candidates: [{upstream: a}]}\n"

// Configuration mistakes name file, line, column, key and the nearest valid
// key, and exit with 2, in check as in serve.
func TestConfigurationMistakes(t *testing.T) {
	for _, c := range []struct {
		name, yaml string
		want       []string
	}{
		{"empty file", "", []string{"failback.yaml:1:1"}},
		{"unknown key", strings.Replace(good, "listen", "lisen", 1), []string{"failback.yaml:1:1", "lisen", "listen"}},
		{"wrong type", good + "max_inflight: many\n", []string{"failback.yaml:6:1", "max_inflight"}},
		{"duplicate", good + "listen: 127.0.0.1:1\n", []string{"failback.yaml:6:1", "listen"}},
		{"missing credential", strings.Replace(good, "literal-key", "env:NOT_SET_ANYWHERE", 1), []string{"failback.yaml:3:", "api_key", "NOT_SET_ANYWHERE"}},
		{"unknown upstream", strings.Replace(good, "upstream: a", "upstream: aa", 1), []string{"failback.yaml:5:", "upstream", "aa", "a"}},
		{"octal", good + "max_inflight: 010\n", []string{"failback.yaml:6:1", "max_inflight", "010"}},
		{"comma in a flow map", good + "keys: [{name: web, hash: sha256:ab,cd}]\n", []string{"failback.yaml:6:", "keys"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "failback.yaml"), []byte(c.yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"check", "serve"} {
				_, stderr, code := cli(t, dir, command)
				if code != 2 {
					t.Errorf("%s: exit %d: %s", command, code, stderr)
				}
				for _, want := range c.want {
					if !strings.Contains(stderr, want) {
						t.Errorf("%s: no %q in: %s", command, want, stderr)
					}
				}
				if strings.Contains(stderr, "goroutine ") || strings.Contains(stderr, "literal-key") {
					t.Errorf("%s: a stack trace or a key in: %s", command, stderr)
				}
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "failback.yaml"), []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		out  string // in stdout where the code is 0, else in stderr
	}{
		{[]string{"version"}, 0, "failback "},
		{[]string{"version", "--json"}, 0, `"version"`},
		{[]string{"--help"}, 0, "passthrough"},
		{[]string{"step", "--help"}, 0, "--override"},
		{[]string{"check"}, 0, "TASK"},
		{[]string{"check", "--show"}, 0, "cooldown"},
		{[]string{"check", "--json"}, 0, `"findings"`},
		{[]string{"token"}, 0, "sha256:"},
		{[]string{"nonsense"}, 2, "no command"},
		{[]string{"step", "a"}, 2, "arguments"},
		{[]string{"step", "a", "lots"}, 2, "SHARE"},
		{[]string{"status", "--no-such-flag"}, 2, "no-such-flag"},
		{[]string{"passthrough", "on"}, 2, "--order"},
		{[]string{"status"}, 1, "no such socket: is the gateway running"}, // nobody answers, and what to do
		{[]string{"step", "a", "0"}, 1, "is the gateway running"},
		{[]string{"status", "--connect", "http://127.0.0.1:1"}, 1, "nobody listens there"},
		{[]string{"status", "--connect", "127.0.0.1:1"}, 2, "--connect"},
		{[]string{"status", "--connect", "http://example.com:1", "--token-file", "failback.yaml"}, 2, "in clear"},
		{[]string{"status", "--token-file", "none"}, 1, "--token-file"},
		{[]string{"status", "--config", "none.yaml"}, 2, "none.yaml"},
		{[]string{"check", "--config", "none.yaml"}, 2, "none.yaml"},
		{[]string{"status", "extra"}, 2, "arguments"},
		{[]string{"step", "a", "5", "--revision", "x"}, 2, "--revision"},
		{[]string{"passthrough", "maybe"}, 2, "maybe"},
		{[]string{"decisions", "--limit", "many"}, 2, "--limit"},
		{[]string{"console", "--connect", "unix:x"}, 2, "failback status"},
		{[]string{"demo"}, 2, "failback status"},
		{[]string{}, 2, "failback status"},
	} {
		stdout, stderr, code := cli(t, dir, c.args...)
		shown := stdout
		if c.code != 0 {
			shown = stderr
		}
		if code != c.code || !strings.Contains(shown, c.out) || strings.Contains(stdout+stderr, "literal-key") {
			t.Errorf("failback %s: exit %d, want %d with %q\n%s%s", strings.Join(c.args, " "), code, c.code, c.out, stdout, stderr)
		}
	}
}

// The text commands against a running gateway, as text and as JSON.
func TestTextCommands(t *testing.T) {
	g := start(t, configure(t, t.TempDir(), newStub(t), newStub(t), ""))
	chatAll(t, g.url, []string{"u1", "u2", "u3"})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"status"}, "CLOSED"},
		{[]string{"decisions"}, "primary_completed"},
		{[]string{"step", "a", "0", "--reason", "maintenance"}, "0%"},
		{[]string{"step", "a", "5", "--override", "--reason", "drill"}, "5%"},
		{[]string{"step", "a", "0"}, "0%"},
		{[]string{"breaker", "b:text", "open", "--for", "1m"}, "open"},
		{[]string{"breaker", "b:text", "auto"}, "itself"},
		{[]string{"passthrough", "on", "--order", "b,a", "--for", "1m"}, "on at this gateway only until"},
		{[]string{"passthrough", "off"}, "off"},
		{[]string{"reload"}, "reloaded"},
	} {
		for _, asJSON := range []bool{false, true} {
			args := append(append([]string{}, c.args...), "--config", filepath.Join(g.dir, "failback.yaml"))
			if asJSON {
				args = append(args, "--json")
			}
			stdout, stderr, code := cli(t, g.dir, args...)
			if code != 0 {
				t.Errorf("%v: exit %d: %s", args, code, stderr)
			}
			if asJSON && !json.Valid([]byte(stdout)) {
				t.Errorf("%v: not JSON: %s", args, stdout)
			}
			if !asJSON && !strings.Contains(stdout, c.want) {
				t.Errorf("%v: no %q in %s", args, c.want, stdout)
			}
		}
	}
	// Refusals exit with 1 and say why.
	_, stderr, code := cli(t, g.dir, "step", "a", "75", "--config", filepath.Join(g.dir, "failback.yaml"))
	if code != 1 || !strings.Contains(stderr, "5") {
		t.Errorf("a jump: exit %d: %s", code, stderr)
	}
	_, stderr, code = cli(t, g.dir, "step", "nobody", "0", "--config", filepath.Join(g.dir, "failback.yaml"))
	if code != 1 || !strings.Contains(stderr, "nobody") {
		t.Errorf("an unknown upstream: exit %d: %s", code, stderr)
	}
	// A second gateway on the same data directory is refused.
	_, stderr, code = cli(t, g.dir, "serve", "--config", filepath.Join(g.dir, "failback.yaml"))
	if code != 1 || !strings.Contains(stderr, "failback.sock") {
		t.Errorf("a second gateway: exit %d: %s", code, stderr)
	}
}

// Refusals as JSON are JSON, on stdout, with the exit code of a failure; and
// what stands in the way is shown.
func TestRefusalsAsJSON(t *testing.T) {
	t.Parallel()
	g := start(t, configure(t, t.TempDir(), newStub(t), newStub(t), ""))
	g.step(t, "a", 0)
	g.step(t, "a", 5)
	for _, c := range []struct {
		args []string
		code string
	}{
		{[]string{"step", "a", "25", "--revision", "1"}, api.CodeStaleRevision},
		{[]string{"step", "a", "75"}, api.CodeBlocked},
		{[]string{"step", "a", "7"}, api.CodeInvalid},
		{[]string{"step", "nobody", "0"}, api.CodeNotFound},
		{[]string{"breaker", "nobody:text", "open"}, api.CodeNotFound},
		{[]string{"passthrough", "on", "--order", "nobody"}, api.CodeNotFound},
	} {
		stdout, stderr, code := cli(t, g.dir, append(c.args, "--json")...)
		var e api.Error
		if err := json.Unmarshal([]byte(stdout), &e); err != nil || code != 1 || e.Code != c.code || e.Message == "" {
			t.Errorf("%v: exit %d, %v: %s%s", c.args, code, err, stdout, stderr)
		}
		if _, stderr, code := cli(t, g.dir, c.args...); code != 1 || !strings.Contains(stderr, e.Message) {
			t.Errorf("%v as text: exit %d: %s", c.args, code, stderr)
		}
	}
	// An override needs a reason, and goes through with one.
	if _, _, code := cli(t, g.dir, "step", "a", "75", "--override"); code != 1 {
		t.Errorf("an override without a reason: exit %d", code)
	}
	if out, stderr, code := cli(t, g.dir, "step", "a", "75", "--override", "--reason", "all is well"); code != 0 || !strings.Contains(out, "75%") {
		t.Errorf("an override: exit %d: %s%s", code, out, stderr)
	}
	if out, stderr, code := cli(t, g.dir, "step", "a", "5"); code != 0 {
		t.Errorf("lowering: exit %d: %s%s", code, out, stderr)
	}
	if out, stderr, code := cli(t, g.dir, "step", "a", "--undo"); code != 0 || !strings.Contains(out, "75%") {
		t.Errorf("undo: exit %d: %s%s", code, out, stderr)
	}
}

// Flag before environment before file before default, and status says which.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := configure(t, dir, newStub(t), newStub(t), "breaker: {cooldown: 11s, min_samples: 12}\nmax_inflight: 13\n")
	g := startAs(t, path, func(c *exec.Cmd) {
		c.Args = append(c.Args, "--breaker-cooldown", "21s", "--instance", "gw-7")
		c.Env = append(os.Environ(), "FAILBACK_BREAKER_COOLDOWN=31s", "FAILBACK_BREAKER_MIN_SAMPLES=32")
	})
	if got := g.state(t).Instance; got != "gw-7" {
		t.Errorf("instance %q", got)
	}
	settings := map[string]string{}
	for _, s := range g.state(t).Settings {
		settings[s.Key] = s.Origin + " " + s.Value
	}
	for key, want := range map[string]string{
		"breaker.cooldown": "flag 21s", "breaker.min_samples": "environment 32", "max_inflight": "file 13", "breaker.cooldown_max": "default 2m",
	} {
		if settings[key] != want {
			t.Errorf("%s is %q, not %q", key, settings[key], want)
		}
	}
	out, _, code := cli(t, dir, "status")
	if code != 0 || !strings.Contains(out, "environment") || !strings.Contains(out, "21s") {
		t.Errorf("exit %d: %s", code, out)
	}
	// A reload does not lose what the command line said.
	edit(t, path, "cooldown: 11s", "cooldown: 41s")
	if _, err := g.client.Reload(t.Context(), api.Command{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range g.state(t).Settings {
		if s.Key == "breaker.cooldown" && s.Value != "21s" {
			t.Errorf("after a reload: %+v", s)
		}
	}
}
