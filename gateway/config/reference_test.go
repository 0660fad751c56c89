package config

import (
	"os"
	"strings"
	"testing"
)

const (
	referencePath  = "../../docs/configuration.md"
	referenceBegin = "<!-- reference: written by go test ./gateway/config -update; do not edit -->\n"
	referenceEnd   = "<!-- end of reference -->\n"
)

// The document says what the code does; go test ./gateway/config -update
// writes it.
func TestReferenceDocument(t *testing.T) {
	b, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(b), referenceBegin)
	_, tail, ok2 := strings.Cut(rest, referenceEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the reference", referencePath)
	}
	want := head + referenceBegin + "\n" + referenceTable() + "\n" + referenceEnd + tail
	if *update {
		if err := os.WriteFile(referencePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(b) {
		t.Errorf("%s and the code differ; run go test ./gateway/config -update", referencePath)
	}
}

func referenceTable() string {
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	var b strings.Builder
	b.WriteString("| key | type | default | a change needs | meaning |\n|---|---|---|---|---|\n")
	for _, d := range Reference() {
		def := ""
		switch {
		case d.Required:
			def = "**required**"
		case d.Default != "":
			def = "`" + d.Default + "`"
		case d.None != "":
			def = "absent: " + d.None
		}
		change := d.Restart
		if change == "" {
			change = "reload"
		}
		meaning := d.Meaning
		if d.Inert {
			meaning += " *No effect in this version.*"
		}
		b.WriteString("| `" + d.Key + "` | " + cell(d.Type) + " | " + cell(def) + " | " + change + " | " + cell(meaning) + " |\n")
	}
	return b.String()
}

// Every key says what it means, and what absence means.
func TestEveryKeyIsExplained(t *testing.T) {
	restart := map[string]string{
		"listen": "restart", "data_dir": "restart", "operator.listen": "restart", "store": "restart", "store.nats": "restart",
		"telemetry.otlp": "restart", "telemetry.otlp.endpoint": "restart", "telemetry.otlp.protocol": "restart", "telemetry.otlp.sample": "restart",
		"telemetry.decision_log": "restart", "telemetry.sample": "restart",
		"sources.every": "restart", "sources.embedded.max_age": "restart", "sources.embedded.max_bytes": "restart",
		"sources.prometheus": "restart to turn it on or off", "sources.loki": "restart to turn it on or off",
		"tls": "restart to turn it on or off", "operator.tls": "restart to turn it on or off",
	}
	seen := map[string]bool{}
	for _, d := range Reference() {
		if d.Meaning == "" || d.Type == "" || !strings.HasSuffix(d.Meaning, ".") {
			t.Errorf("%s: type %q, meaning %q", d.Key, d.Type, d.Meaning)
		}
		if !d.Required && d.Default == "" && d.None == "" && d.Type != "section" {
			t.Errorf("%s does not say what its absence means", d.Key)
		}
		if seen[d.Key] {
			t.Errorf("%s is there twice", d.Key)
		}
		seen[d.Key] = true
		if d.Restart != restart[d.Key] {
			t.Errorf("%s: a change needs %q", d.Key, d.Restart)
		}
	}
	if len(seen) < 150 {
		t.Errorf("%d keys", len(seen))
	}
}

// Only listen, upstreams and models are required at the top.
func TestRequiredKeys(t *testing.T) {
	var got []string
	for _, d := range Reference() {
		if d.Required && !strings.ContainsAny(d.Key, ".[") {
			got = append(got, d.Key)
		}
	}
	if strings.Join(got, " ") != "listen upstreams models" {
		t.Error(got)
	}
}
