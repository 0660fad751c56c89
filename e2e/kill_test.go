package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// kill -9 in the middle of traffic and steps: what was answered is in force
// after the restart and in the audit, what was not is either there or not, and
// the socket left behind is taken over.
func TestKillLosesNothing(t *testing.T) {
	a, b := newStub(t), newStub(t)
	path := configure(t, t.TempDir(), a, b, "")
	acknowledged := map[uint64]int{} // revision to share
	for round := range 6 {
		g := start(t, path)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				client := &http.Client{Timeout: 5 * time.Second}
				defer client.CloseIdleConnections()
				for i := 0; ctx.Err() == nil; i++ {
					_, _ = chat(client, g.url, fmt.Sprint(i)) // it is killed meanwhile
				}
			})
		}
		first := g.upstream(t, "a")
		known, asked := first, first.Share
		for steps := 0; ; steps++ {
			if steps == 1 {
				time.AfterFunc(time.Duration(10+17*round)*time.Millisecond, func() { _ = g.Process.Kill() })
			}
			asked = next(known.Share)
			revision := known.Revision
			r, err := g.client.SetShare(t.Context(), "a", api.Command{
				Share: &asked, Revision: &revision, Reason: fmt.Sprintf("round %d", round), Override: asked > known.Share,
			})
			if err != nil {
				if e, ok := errors.AsType[*api.Error](err); ok {
					t.Errorf("a step was refused: %v", e)
				}
				break
			}
			known = *r.Upstream
			acknowledged[known.Revision] = known.Share
		}
		stop()
		g.kill()
		wg.Wait()
		if fi, err := os.Lstat(filepath.Join(g.dir, "failback.sock")); err != nil || fi.Mode().Type() != os.ModeSocket {
			t.Errorf("the socket was not left behind: %v", err)
		}
		g = start(t, path)
		now := g.upstream(t, "a")
		switch {
		case now.Revision == known.Revision && now.Share == known.Share && now.FailbackID == known.FailbackID && now.StateBy == known.StateBy:
		case now.Revision == known.Revision+1 && now.Share == asked: // it was written, the answer did not come
		default:
			t.Errorf("round %d: %d%% at revision %d (%s) was acknowledged, %d%% at %d (%s) is in force", round,
				known.Share, known.Revision, known.FailbackID, now.Share, now.Revision, now.FailbackID)
		}
		chatAll(t, g.url, []string{"u1", "u2", "u3"})
		checkAudit(t, g.audit(t), acknowledged, round)
		if err := g.term(t); err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
	// The decision log is whole, too, but for a line that the kill tore.
	log, err := os.ReadFile(filepath.Join(filepath.Dir(path), "decisions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	torn := 0
	for line := range strings.Lines(string(log)) {
		if !json.Valid([]byte(line)) {
			torn++
		}
	}
	if torn > 6 {
		t.Errorf("%d lines of the decision log are torn by 6 kills", torn)
	}
}

// next walks down at once and up by steps.
func next(share int) int {
	switch share {
	case 0:
		return 5
	case 5:
		return 25
	case 25:
		return 75
	case 75:
		return 100
	}
	return 0
}

// checkAudit: each acknowledged step has its entry, and no command is without a result.
func checkAudit(t *testing.T, entries []api.AuditEntry, acknowledged map[uint64]int, round int) {
	t.Helper()
	open := map[string]bool{}
	written := map[uint64]string{}
	for _, e := range entries {
		switch e.Phase {
		case api.PhaseAsked:
			open[e.ID] = true
		case api.PhaseDone:
			delete(open, e.ID)
			if e.Result == api.ResultOK {
				written[e.NewRevision] = e.To
			}
			if e.By == "" || e.Action != "share" || e.Target != "a" || e.Time.IsZero() {
				t.Errorf("entry %+v", e)
			}
		}
	}
	if len(open) > 0 {
		t.Errorf("round %d: %d commands have no result", round, len(open))
	}
	for revision, share := range acknowledged {
		if written[revision] != fmt.Sprint(share) {
			t.Errorf("round %d: revision %d went to %d%%, the audit says %q", round, revision, share, written[revision])
		}
	}
}

// A second gateway on the same data directory is refused, says whose it is, and
// has touched nothing: not even with a configuration that lacks an upstream.
func TestASecondGatewayTouchesNothing(t *testing.T) {
	t.Parallel()
	a, b := newStub(t), newStub(t)
	path := configure(t, t.TempDir(), a, b, "")
	g := start(t, path)
	g.step(t, "a", 25)
	g.step(t, "b", 75)
	before := g.state(t).Upstreams
	other := filepath.Join(g.dir, "other.yaml")
	yaml := fmt.Sprintf("listen: %s\ndata_dir: %s\nupstreams:\n  c: {dialect: openai, base_url: %q, api_key: key-c}\nmodels:\n  m: {candidates: [{upstream: c}]}\n", freePort(t), g.dir, a.url)
	if err := os.WriteFile(other, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := cli(t, g.dir, "serve", "--config", other)
	if code != 1 || !strings.Contains(stderr, fmt.Sprint(g.Process.Pid)) || !strings.Contains(stderr, "data_dir") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	same := func(when string) {
		t.Helper()
		after := g.state(t).Upstreams
		if len(after) != len(before) {
			t.Fatalf("%s: %d upstreams", when, len(after))
		}
		for i, u := range after {
			was := before[i]
			if u.Name != was.Name || u.Share != was.Share || u.Revision != was.Revision || u.FailbackID != was.FailbackID {
				t.Errorf("%s: %s is at %d%%, revision %d; it was at %d%%, %d", when, u.Name, u.Share, u.Revision, was.Share, was.Revision)
			}
		}
	}
	same("after the second one's try")
	chatAll(t, g.url, []string{"u1", "u2", "u3"})
	if err := g.term(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
	g = start(t, path)
	same("after a restart")
	if err := g.term(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
	// What is no socket is not replaced by one.
	dir := t.TempDir()
	path = configure(t, dir, a, b, "")
	if err := os.WriteFile(filepath.Join(dir, "failback.sock"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code = cli(t, dir, "serve", "--config", path)
	if b, err := os.ReadFile(filepath.Join(dir, "failback.sock")); code != 1 || err != nil || string(b) != "precious" {
		t.Errorf("exit %d, %v: %s", code, err, stderr)
	}
	// A client address that is taken ends the start, and leaves no socket.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir = t.TempDir()
	path = configure(t, dir, a, b, "")
	_, stderr, code = cli(t, dir, "serve", "--config", path, "--listen", l.Addr().String())
	if code != 1 || !strings.Contains(stderr, l.Addr().String()) || strings.Contains(stderr, "goroutine ") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if _, err := os.Lstat(filepath.Join(dir, "failback.sock")); err == nil {
		t.Error("a gateway that did not start left its socket")
	}
}
