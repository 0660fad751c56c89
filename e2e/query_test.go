package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// failback query over a file needs no gateway and no configuration.
func TestQueryOverAFile(t *testing.T) {
	dir := t.TempDir()
	lines, err := filepath.Abs("../sources/logql/testdata/lines.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string // in stdout where the code is 0, else in stderr
	}{
		{[]string{"query"}, 0, "first-switch  when the first switch happened"},
		{[]string{"query", "by-reason", "--file", lines}, 0, "rate_limited           31"},
		{[]string{"query", "by-reason", "--file", lines, "--json"}, 0, `{"resultType":"vector","result":[{"metric":{"reason":`},
		{[]string{"query", "--logql", `{service_name="failback"} |= "req-0120"`, "--file", lines}, 0, "req-0120 policy_question degraded_completed server_error"},
		{[]string{"query", "--logql", `{service_name="failback"`, "--file", lines}, 1, "parse error at line 1, col 25: syntax error: unexpected $end, expecting } or ,"},
		{[]string{"query", "--logql", `{service_name="failback"`, "--file", lines, "--json"}, 1, "parse error at line 1, col 25: syntax error: unexpected $end, expecting } or ,"},
		{[]string{"query", "by-raeson", "--file", lines}, 2, "the nearest is by-reason"},
		{[]string{"query", "by-reason", "--file", "none.jsonl"}, 1, "none.jsonl"},
		{[]string{"query", "by-reason", "--start", "soon"}, 2, "--start"},
		{[]string{"query", "by-reason"}, 2, "failback.yaml"}, // no gateway is named
	} {
		stdout, stderr, code := cli(t, dir, c.args...)
		shown := stdout
		if c.code != 0 {
			shown = stderr
		}
		if code != c.code || !strings.Contains(shown, c.want) || c.code != 0 && stdout != "" {
			t.Errorf("failback %s: exit %d, want %d with %q\n%s%s", strings.Join(c.args, " "), code, c.code, c.want, stdout, stderr)
		}
	}
	f, err := os.Open(lines)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(program, "query", "by-reason", "--file", "-")
	cmd.Stdin = f
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), "rate_limited           31") {
		t.Errorf("standard input: %v, %s", err, out)
	}
}
