package config

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write what the code says into goldens and docs/configuration.md")

// corpus is every archive in testdata/mistakes: failback.yaml, other files it
// needs, env and flags with KEY=VALUE lines, and want, which is the whole
// error, or "ok".
func corpus(t testing.TB) map[string]*txtar.Archive {
	t.Helper()
	paths, err := filepath.Glob("testdata/mistakes/*.txtar")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d archives, %v", len(paths), err)
	}
	all := map[string]*txtar.Archive{}
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all[p] = a
	}
	return all
}

// sourceOf unpacks an archive's files and returns what is to be loaded.
func sourceOf(t testing.TB, a *txtar.Archive) (src Source, want string) {
	t.Helper()
	dir := t.TempDir()
	env := map[string]string{"KEY": "from-the-environment"}
	for _, f := range a.Files {
		switch f.Name {
		case "want":
			want = string(f.Data)
		case "env":
			for line := range strings.Lines(string(f.Data)) {
				k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
				env[k] = v
			}
		case "flags":
			src.Flags = map[string]string{}
			for line := range strings.Lines(string(f.Data)) {
				k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
				src.Flags[k] = v
			}
		default:
			if err := os.WriteFile(filepath.Join(dir, f.Name), escapes.Replace(f.Data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	src.Path = filepath.Join(dir, "failback.yaml")
	src.Env = func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	return src, want
}

// escapes lets an archive hold what editors would not keep.
var escapes = replacer{strings.NewReplacer("<TAB>", "\t", "<BOM>", "\ufeff", "<CR>", "\r", "<ESC>", "\x1b", "<FF>", "\xff", "<UTF16>", "\xff\xfel\x00")}

type replacer struct{ *strings.Replacer }

func (r replacer) Replace(b []byte) []byte { return []byte(r.Replacer.Replace(string(b))) }

// verdict is what came of a load, without the directory.
func verdict(src Source, err error) string {
	if err == nil {
		return "ok\n"
	}
	return strings.ReplaceAll(err.Error(), filepath.Dir(src.Path)+"/", "") + "\n"
}

// CFG-07: empty files, wrong types, unknown and duplicate keys, tabs, BOM.
func TestMistakes(t *testing.T) {
	for path, a := range corpus(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			src, want := sourceOf(t, a)
			_, err := Load(context.Background(), src)
			got := verdict(src, err)
			if *update {
				kept := a.Files[:0]
				for _, f := range a.Files {
					if f.Name != "want" {
						kept = append(kept, f)
					}
				}
				a.Files = append(kept, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(path, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if strings.Contains(got, "SECRET") {
				t.Errorf("a secret is in the error:\n%s", got)
			}
		})
	}
}

// CFG-04: start, check and reload give the same verdict, whatever was loaded
// before and wherever the bytes come from.
func TestOneVerdict(t *testing.T) {
	for path, a := range corpus(t) {
		src, _ := sourceOf(t, a)
		_, start := Load(context.Background(), src)
		if _, err := Load(context.Background(), minimal()); err != nil {
			t.Fatal(err)
		}
		_, reload := Load(context.Background(), src)
		check := src
		check.Data, _ = os.ReadFile(src.Path)
		_, checked := Load(context.Background(), check)
		if verdict(src, start) != verdict(src, reload) || verdict(src, start) != verdict(src, checked) {
			t.Errorf("%s: start %v\nreload %v\ncheck %v", path, start, reload, checked)
		}
	}
}

const minimalYAML = `listen: 127.0.0.1:8080
upstreams:
  a: {dialect: openai, base_url: https://a.example/v1, api_key: env:KEY}
models:
  m: {candidates: [{upstream: a}]}
`

// minimal is a configuration with nothing but what is required.
func minimal(flags ...string) Source {
	src := Source{Data: []byte(minimalYAML), Env: func(k string) (string, bool) { return "from-the-environment", k == "KEY" }, Flags: map[string]string{}}
	for i := 0; i < len(flags); i += 2 {
		src.Flags[flags[i]] = flags[i+1]
	}
	return src
}
