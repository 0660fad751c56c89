package config

import (
	"os"
	"strings"
	"testing"
)

// Who looks for a gateway needs neither credentials nor a file without mistakes.
func TestDataDir(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/failback.yaml"
	for _, tt := range []struct{ yaml, want, err string }{
		{yaml: "lisen: x\nupstreams: []\n", want: dir + "/data"},
		{yaml: strings.Replace(minimalYAML, "env:KEY", "env:FAILBACK_TEST_NOT_THERE", 1) + "data_dir: /var/lib/failback\n", want: "/var/lib/failback"},
		{yaml: "data_dir: [x]\n", err: "failback.yaml:1:1: data_dir: text is wanted, found a list"},
		// Emergencies do not wait for a file to be mended.
		{yaml: "", want: dir + "/data"},
		{yaml: "a:\n\tb: c\n", want: dir + "/data"},
		{yaml: "data_dir: \"elsewhere\" # ours\na: {\n", want: dir + "/elsewhere"},
	} {
		if err := os.WriteFile(path, []byte(tt.yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := DataDir(path)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: %q, %v", tt.yaml, got, err)
		}
	}
	if err := os.WriteFile(path, []byte(minimalYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAILBACK_DATA_DIR", "/elsewhere")
	if got, err := DataDir(path); got != "/elsewhere" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := DataDir(dir + "/nowhere"); err == nil || !strings.Contains(err.Error(), "--connect") {
		t.Errorf("%v", err)
	}
}
