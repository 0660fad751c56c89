package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// whole reads a file of JSON lines, each of which must be whole.
func whole[T any](t *testing.T, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Errorf("%s: %v: %q", filepath.Base(path), err, lines.Text())
		}
		all = append(all, v)
	}
	return all
}

func (r *running) audit(t *testing.T) []api.AuditEntry {
	t.Helper()
	return whole[api.AuditEntry](t, filepath.Join(r.dir, "audit.jsonl"))
}

// Lowering a share works when nothing can be written, and is written down as
// soon as it can; everything else is refused until then, and says so.
func TestLoweringNeedsNoDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file string
		spoil      func(path string) error
	}{
		{"a directory in the audit file's place", "audit.jsonl", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"an audit file on a full disk", "audit.jsonl", func(path string) error { return os.Symlink("/dev/full", path) }},
		{"a directory in the share table's place", "traffic.json", func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := start(t, configure(t, t.TempDir(), newStub(t), newStub(t), ""))
			g.step(t, "a", 75)
			path := filepath.Join(g.dir, c.file)
			if err := os.Rename(path, path+".aside"); err != nil {
				t.Fatal(err)
			}
			if err := c.spoil(path); err != nil {
				t.Skipf("missing here: %v", err)
			}
			lower, raise := 5, 25
			result, err := g.client.SetShare(t.Context(), "a", api.Command{Share: &lower, Reason: "the disk is full"})
			if err != nil || result.Upstream.Share != 5 {
				t.Fatalf("lowering: %+v, %v", result, err)
			}
			audit := c.file == "audit.jsonl"
			if result.AuditPending != audit || result.Upstream.Unsynced == audit {
				t.Errorf("audit pending: %t, unsynced: %t", result.AuditPending, result.Upstream.Unsynced)
			}
			revision := result.Upstream.Revision
			_, err = g.client.SetShare(t.Context(), "a", api.Command{Share: &raise, Revision: &revision})
			if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeFailed || !strings.Contains(e.Error(), "lowering") {
				t.Errorf("raising: %v", err)
			}
			if u := g.upstream(t, "a"); u.Share != 5 || u.Revision != revision {
				t.Errorf("after the refusal: %d%%, revision %d", u.Share, u.Revision)
			}
			if s := g.state(t).Audit; audit && (s.Pending == 0 || s.Error == "") {
				t.Errorf("the state says nothing of it: %+v", s)
			}
			// The disk is back.
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".aside", path); err != nil {
				t.Fatal(err)
			}
			until(t, "everything is written", func() bool {
				s := g.state(t)
				return s.Audit.Pending == 0 && s.Audit.Error == "" && !s.Upstreams[0].Unsynced
			})
			found := false
			for _, e := range g.audit(t) {
				found = found || e.Why == "the disk is full" && e.Result == api.ResultOK && e.From == "75" && e.To == "5" && e.NewRevision == revision
			}
			if !found {
				t.Error("the lowering is not in the audit")
			}
			g.kill()
			g = start(t, filepath.Join(g.dir, "failback.yaml"))
			if u := g.upstream(t, "a"); u.Share != 5 {
				t.Errorf("after a restart the share is %d%%", u.Share)
			}
		})
	}
}

// A reader of the decision log that is gone ends nothing: lines that cannot be
// written are counted, and the exit code says that the gateway stopped as asked.
func TestADeadStdoutIsCounted(t *testing.T) {
	path := configure(t, t.TempDir(), newStub(t), newStub(t), "")
	edit(t, path, "decision_log: decisions.jsonl", "decision_log: stdout")
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	g := startAs(t, path, func(c *exec.Cmd) { c.Stdout = in })
	_ = in.Close()
	chatAll(t, g.url, []string{"u1"})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var d api.Decision
	if err != nil || json.Unmarshal(line, &d) != nil || d.Event != "model_route_selected" {
		t.Errorf("the first line is %q: %v", line, err)
	}
	_ = out.Close()
	users := make([]string, 8500) // more than wait for the sink
	for i := range users {
		users[i] = fmt.Sprintf("u%d", i)
	}
	chatAll(t, g.url, users)
	log := g.state(t).Log
	if log.Dropped == 0 || !strings.Contains(log.Error, "pipe") {
		t.Errorf("the state says %+v", log)
	}
	if got := sum(g.scrape(t), "failback_log_lines_dropped_total"); got < float64(log.Dropped) {
		t.Errorf("metrics say %g lines dropped, the state said %d", got, log.Dropped)
	}
	if err := g.term(t); err != nil {
		t.Errorf("it ended with %v: %s", err, g.stderr)
	}
	if !strings.Contains(g.stderr.String(), "decision log") {
		t.Errorf("nothing is said of lost lines: %s", g.stderr)
	}
}

// Without any standard stream the gateway serves, and what it would have
// written there does not end up in the files it opens.
func TestClosedStandardStreams(t *testing.T) {
	path := configure(t, t.TempDir(), newStub(t), newStub(t), "")
	edit(t, path, "decision_log: decisions.jsonl", "decision_log: stdout")
	g := startAs(t, path, func(c *exec.Cmd) {
		c.Path = "/bin/sh"
		c.Args = []string{"sh", "-c", `exec "$@" <&- >&- 2>&-`, "sh", program, "serve", "--config", path}
		c.Stderr = nil
	})
	chatAll(t, g.url, []string{"u1", "u2", "u3"})
	g.step(t, "a", 25)
	replace(t, path, "broken")
	g.hangup(t) // which has much to say
	until(t, "SIGHUP is refused", func() bool { return len(g.events(t, "config_reload")) == 1 })
	chatAll(t, g.url, []string{"u1", "u2", "u3"})
	if err := g.term(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
	g.audit(t)
	table, err := os.ReadFile(filepath.Join(g.dir, "traffic.json"))
	if err != nil || !json.Valid(table) {
		t.Errorf("traffic.json: %v: %s", err, table)
	}
}

// A reader of the gateway's own texts that is gone ends nothing either.
func TestADeadStderr(t *testing.T) {
	path := configure(t, t.TempDir(), newStub(t), newStub(t), "")
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	g := startAs(t, path, func(c *exec.Cmd) { c.Stderr = in })
	_ = in.Close()
	_ = out.Close()
	replace(t, path, "broken")
	for i := range 3 {
		g.hangup(t)
		until(t, "SIGHUP is refused", func() bool { return len(g.events(t, "config_reload")) == i+1 })
	}
	chatAll(t, g.url, []string{"u1", "u2", "u3"})
	if err := g.term(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// scrape returns the text of /metrics.
func (r *running) scrape(t *testing.T) string {
	t.Helper()
	resp, err := http.Get(r.metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
