package config

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzLoad feeds any bytes: no panic, problems that can be printed and stand in
// the file, and what is accepted is stable.
func FuzzLoad(f *testing.F) {
	sampleData, err := os.ReadFile("testdata/sample.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sampleData)
	f.Add([]byte(minimalYAML))
	for _, a := range corpus(f) {
		for _, file := range a.Files {
			if file.Name == "failback.yaml" {
				f.Add(escapes.Replace(file.Data))
			}
		}
	}
	for _, s := range []string{"a: &a [*a]\n", "? ? ? a\n", "- - - -", "{{{", "a: |\n b\n", "a: >2-\n   b\n", "'a': {\"b\":[c]}\n", "!!map {a: b}\n", "%YAML 1.2\n---\na: b\n", "a:\n- b\n-\n", "\"\\x61\": 1\n", "\r0", "a: b\n---\n? *a\n"} {
		f.Add([]byte(s))
	}
	// A context that is over starts no command of an exec: credential.
	over, cancel := context.WithCancel(context.Background())
	cancel()
	env := func(k string) (string, bool) { return "k-" + k, !strings.HasPrefix(k, "FAILBACK_") }
	f.Fuzz(func(t *testing.T, data []byte) {
		src := Source{Data: data, Env: env}
		c, err := Load(over, src)
		if err != nil {
			checkProblems(t, data, err)
			return
		}
		keysStandWhereTheySay(t, data, c)
		c.Lint()
		c.Settings()
		if len(Diff(c, c)) > 0 {
			t.Errorf("differs from itself: %v", Diff(c, c))
		}
		if c.hides() {
			return
		}
		again, err := Load(over, Source{Data: c.Show(), Env: env})
		if err != nil {
			t.Fatalf("what Show prints is refused: %v\n%s", err, c.Show())
		}
		if again.Hash() != c.Hash() {
			t.Errorf("Show comes to something else: %v\n%s", Diff(c, again), c.Show())
		}
	})
}

func checkProblems(t *testing.T, data []byte, err error) {
	t.Helper()
	var problems Problems
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("%T: %v", err, err)
	}
	lines := strings.Split(string(data), "\n")
	for i, p := range problems {
		text := p.Error()
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\n\x1b\r\x00") {
			t.Errorf("not fit to print: %q", text)
		}
		if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Message == "" {
			t.Errorf("stands nowhere: %+v of %d lines", p, len(lines))
		}
		if i > 0 && (p.Line < problems[i-1].Line || p.Line == problems[i-1].Line && p.Column < problems[i-1].Column) {
			t.Errorf("not in file order: %v before %v", problems[i-1], p)
		}
	}
}

// hides reports whether Show leaves something out that Load would need.
func (c *Config) hides() bool {
	hides := len(c.Keys) > 0 || len(c.Operator.Tokens) > 0 || c.Notify != nil || c.Store != nil
	for _, u := range c.Upstreams {
		hides = hides || slices.ContainsFunc(u.Keys, func(s Secret) bool { return s.source == fromLiteral || s.source == fromExec })
	}
	for _, d := range c.SharedDependencies {
		hides = hides || d.HTTP != nil
	}
	return hides || c.Sources.Loki != nil || c.Sources.Prometheus != nil || c.Telemetry.OTLP != nil
}

// keysStandWhereTheySay compares the position of every plain key with the text there.
func keysStandWhereTheySay(t *testing.T, data []byte, c *Config) {
	t.Helper()
	lines := strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n")
	for path, at := range c.meta.at {
		key := path[strings.LastIndexByte(path, '.')+1:]
		if strings.ContainsAny(key, `[]"`) || key == "" {
			continue
		}
		if at.line > len(lines) {
			t.Fatalf("%s in line %d of %d", path, at.line, len(lines))
		}
		line := []rune(lines[at.line-1])
		rest := string(line[min(at.column-1, len(line)):])
		if !strings.HasPrefix(rest, key) && !strings.HasPrefix(rest, `"`) && !strings.HasPrefix(rest, "'") && !strings.HasPrefix(rest, "?") {
			t.Errorf("%s at %d:%d, there is %q", path, at.line, at.column, rest)
		}
	}
}

func TestPositions(t *testing.T) {
	data, err := os.ReadFile("testdata/sample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := sample(t)
	if len(c.meta.at) < 150 {
		t.Errorf("%d positions", len(c.meta.at))
	}
	keysStandWhereTheySay(t, data, c)
}

// What a file can ask of the parser is bounded.
func TestHostileFiles(t *testing.T) {
	for _, unit := range []string{"[", "{a: ", "- ", "!!a ", "&a ", "? ", "- [", "\"", "'", "|\n", "a: {", "!!a\n", "&a\n", "[[]]", "*a ", "a:\n- "} {
		start := time.Now()
		_, err := Load(context.Background(), Source{Data: []byte(strings.Repeat(unit, 20000/len(unit)))})
		if err == nil {
			t.Errorf("%q is accepted", unit)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%q took %s", unit, d)
		}
	}
	_, err := Load(context.Background(), Source{Data: make([]byte, maxFileBytes+1)})
	if err == nil || !strings.Contains(err.Error(), "1048577 bytes") {
		t.Errorf("%v", err)
	}
}

// Many upstreams load in a time that a reload can take.
func TestManyUpstreams(t *testing.T) {
	var b strings.Builder
	b.WriteString("listen: 127.0.0.1:8080\nupstreams:\n")
	for i := range 200 {
		b.WriteString("  u" + number(float64(i)) + ":\n    dialect: openai\n    base_url: https://a.example/v1\n    api_key: env:KEY\n    owner: x\n    fault_domains: {dns: a, egress: b}\n")
	}
	b.WriteString("models:\n  m:\n    candidates:\n")
	for i := range 200 {
		b.WriteString("      - {upstream: u" + number(float64(i)) + ", weight: 3}\n")
	}
	start := time.Now()
	c := load(t, Source{Data: []byte(b.String()), Env: minimal().Env})
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %s", d)
	}
	if len(c.Upstreams) != 200 || len(c.Models[0].Candidates) != 200 {
		t.Error("something is missing")
	}
}
