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
	"slices"
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

// audit returns what is in the audit, oldest first.
func (r *running) audit(t *testing.T) []api.AuditEntry {
	t.Helper()
	trail, err := r.client.Audit(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(trail.Entries)
	return trail.Entries
}

// smallDisk returns a directory on a disk of its own, and what fills and frees
// that.
func smallDisk(t *testing.T) (dir string, fill, free func()) {
	t.Helper()
	dir = place(t)
	if err := mount(dir, "32m"); err != nil {
		t.Skipf("requires the right to mount a tmpfs, as a disk that fills: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	fill = func() {
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for size := 1 << 16; size > 0; size /= 2 {
			for err == nil {
				_, err = f.Write(make([]byte, size))
			}
			err = nil
		}
	}
	free = func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	return dir, fill, free
}

// Lowering a share works when nothing can be written, and is written down as
// soon as it can; everything else is refused until then, and says so.
func TestLoweringNeedsNoDisk(t *testing.T) {
	t.Parallel()
	dir, fill, free := smallDisk(t)
	g := start(t, configure(t, dir, newStub(t), newStub(t), ""))
	g.step(t, "a", 75)
	fill()
	// What is full now may still take a line that fits into a page begun.
	set := func(share int) (*api.Result, error) {
		revision := g.upstream(t, "a").Revision
		return g.client.SetShare(t.Context(), "a", api.Command{Share: &share, Revision: &revision, Reason: "the disk is full", Override: true})
	}
	until(t, "a raise is refused", func() bool {
		_, err := set(100)
		e, ok := errors.AsType[*api.Error](err)
		if ok && (e.Code != api.CodeFailed || !strings.Contains(e.Error(), "lowering")) {
			t.Fatalf("raising: %v", err)
		}
		if err == nil {
			g.step(t, "a", 75)
		}
		return ok
	})
	result, err := set(5)
	if err != nil || result.Upstream.Share != 5 || !result.AuditPending || !result.Upstream.Unsynced {
		t.Fatalf("lowering: %+v, %v", result, err)
	}
	revision := result.Upstream.Revision
	if _, err := set(25); err == nil {
		t.Error("a raise went through")
	}
	if u := g.upstream(t, "a"); u.Share != 5 || u.Revision != revision || !u.Unsynced {
		t.Errorf("after the refusal: %d%%, revision %d, unsynced %t", u.Share, u.Revision, u.Unsynced)
	}
	if s := g.state(t); s.Audit.Pending == 0 || s.Audit.Error == "" || s.Store.Error == "" {
		t.Errorf("the state says nothing of it: %+v, %+v", s.Audit, s.Store)
	}
	chatAll(t, g.url, []string{"u1", "u2", "u3"})
	free()
	until(t, "everything is written", func() bool {
		s := g.state(t)
		return s.Audit.Pending == 0 && s.Audit.Error == "" && !s.Upstreams[0].Unsynced && s.Store.Error == ""
	})
	g.kill()
	g = start(t, filepath.Join(g.dir, "failback.yaml"))
	if u := g.upstream(t, "a"); u.Share != 5 {
		t.Errorf("after a restart the share is %d%%", u.Share)
	}
	if !slices.ContainsFunc(g.audit(t), func(e api.AuditEntry) bool {
		return e.Why == "the disk is full" && e.Result == api.ResultOK && e.From == "75" && e.To == "5" && e.NewRevision == revision
	}) {
		t.Error("the lowering is not in the audit")
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
	if got, then := sum(g.scrape(t), "failback_log_lines_dropped_total"), g.state(t).Log.Dropped; got < float64(log.Dropped) || got > float64(then) {
		t.Errorf("metrics say %g lines dropped, the state said %d and says %d", got, log.Dropped, then)
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
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, path, "broken")
	g.hangup(t) // which has much to say
	until(t, "SIGHUP is refused", func() bool { return len(g.events(t, "config_reload")) == 1 })
	chatAll(t, g.url, []string{"u1", "u2", "u3"})
	if err := g.term(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
	replace(t, path, string(good))
	g = start(t, path)
	if u := g.upstream(t, "a"); u.Share != 25 {
		t.Errorf("after a restart the share is %d%%", u.Share)
	}
	if n := len(g.audit(t)); n != 1 {
		t.Errorf("%d entries in the audit", n)
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
