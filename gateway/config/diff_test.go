package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// CFG-03: a reload reports every changed key, and which of them need a restart.
func TestDiff(t *testing.T) {
	const second = "  b: {dialect: openai, base_url: https://b.example/v1, api_key: env:KEY}\nmodels:"
	for _, tt := range []struct {
		name              string
		before, after     string // appended
		replace, replace2 []string
		want              string
	}{
		{name: "nothing", want: ""},
		{name: "comments and order", before: "drain_delay: 1s\nenvironment: x\n", after: "# c\nenvironment: x\ndrain_delay: 1000ms\n", want: ""},
		{name: "written default", after: "drain_delay: 10s\n", want: ""},
		{name: "reload and restart together", replace2: []string{"8080", "8081"}, after: "retry: {attempts: 5}\n", want: "listen restart, retry.attempts"},
		{name: "data_dir", after: "data_dir: /elsewhere\n", want: "data_dir restart"},
		{name: "store comes", after: "store: {nats: \"nats://x\"}\n", want: "store restart"},
		{name: "store changes", before: "store: {nats: \"nats://y\"}\n", after: "store: {nats: \"nats://x\"}\n", want: "store.nats restart"},
		{name: "operator", after: "operator: {listen: 127.0.0.1:9095}\n", want: "operator.listen restart"},
		{name: "upstream comes", replace2: []string{"models:", second}, want: "upstreams.b"},
		{name: "upstream goes", replace: []string{"models:", second}, want: "upstreams.b"},
		{name: "upstreams change places", replace: []string{"models:", second}, replace2: []string{"  a: {", "  b: {dialect: openai, base_url: https://b.example/v1, api_key: env:KEY}\n  a: {"}, want: "upstreams"},
		{name: "upstream's own", replace2: []string{"api_key:", "region: eu, breaker: {cooldown: 1s}, api_key:"}, want: "upstreams.a.breaker.cooldown, upstreams.a.region"},
		{name: "weight", replace2: []string{"upstream: a}", "upstream: a, weight: 5}"}, want: "models.m.candidates[0].weight"},
		{name: "task comes", after: "tasks: {t: {fallback: any}}\n", want: "tasks.t"},
		{name: "literal changes", replace: []string{"env:KEY", "one"}, replace2: []string{"env:KEY", "two"}, want: "upstreams.a.api_key"},
		{name: "accepted", after: "accepted: {a/b: c}\n", want: `accepted["a/b"]`},
		{name: "limit", after: "limit: {fallback_ratio: 0.1}\n", want: "limit"},
		{name: "steps", after: "failback: {steps: [{share: 100}]}\n", want: "failback.steps[0].observe, failback.steps[0].share, failback.steps[1], failback.steps[2], failback.steps[3]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := minimalWith(tt.before), minimalWith(tt.after)
			if tt.replace != nil {
				a.Data = []byte(strings.Replace(string(a.Data), tt.replace[0], tt.replace[1], 1))
			}
			if tt.replace2 != nil {
				b.Data = []byte(strings.Replace(string(b.Data), tt.replace2[0], tt.replace2[1], 1))
			}
			before, after := load(t, a), load(t, b)
			if got := changes(Diff(before, after)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if (before.Hash() == after.Hash()) != (tt.want == "") {
				t.Errorf("hashes %s %s", before.Hash(), after.Hash())
			}
		})
	}
}

func changes(cs []Change) string {
	var words []string
	for _, c := range cs {
		w := c.Key
		if c.Restart {
			w += " restart"
		}
		words = append(words, w)
	}
	return strings.Join(words, ", ")
}

// CFG-08: the content of files counts, also behind a swapped symlink; turning
// TLS on needs a restart, another certificate does not.
func TestDiffOfFiles(t *testing.T) {
	dir := t.TempDir()
	one, two := certificate(t, dir, "one"), certificate(t, dir, "two")
	write := func(name, text string) {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		_ = os.Remove(dir + "/" + name)
		if err := os.Symlink(target, dir+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	write("key-1", "first\n")
	write("key-2", "second\n")
	link("key-1", "key")
	link(one+".pem", "cert.pem")
	link(one+".key", "cert.key")
	src := minimal()
	src.Path = dir + "/failback.yaml"
	src.Data = []byte(strings.Replace(minimalYAML, "env:KEY", "file:key", 1))
	plain := load(t, src)
	src.Data = append(src.Data, "tls: {cert: cert.pem, key: cert.key}\n"...)
	before := load(t, src)
	if got := changes(Diff(plain, before)); got != "tls restart" {
		t.Errorf("TLS comes: %s", got)
	}
	if got, want := fmt.Sprint(before.Files()), fmt.Sprint([]string{dir + "/cert.key", dir + "/cert.pem", dir + "/key"}); got != want {
		t.Errorf("files %s, want %s", got, want)
	}
	link("key-2", "key")
	link(two+".pem", "cert.pem")
	link(two+".key", "cert.key")
	after := load(t, src)
	if got := changes(Diff(before, after)); got != "tls.cert, tls.key, upstreams.a.api_key" {
		t.Errorf("files change: %s", got)
	}
	if got := after.Upstreams[0].Keys[0].Value(); got != "second" {
		t.Errorf("key %q", got)
	}
	if before.Hash() != after.Hash() {
		t.Error("the hash is of what the configuration says")
	}
	// A pair that does not belong together is refused (CFG-01).
	link(one+".key", "cert.key")
	if _, err := Load(t.Context(), src); err == nil || !strings.Contains(err.Error(), "tls.cert: certificate and key do not make a pair") {
		t.Errorf("%v", err)
	}
}
