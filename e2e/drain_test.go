package e2e

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// SIGTERM under 200 requests a second, behind clients that go on for 2 s: no
// request fails.
func TestSIGTERMFailsNoRequest(t *testing.T) {
	a, b := newStub(t), newStub(t)
	a.delay = 100 * time.Millisecond
	g := start(t, configure(t, t.TempDir(), a, b, "drain_delay: 4s\nshutdown_grace: 10s\n"))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	ctx, stop := context.WithCancel(t.Context())
	var sent, failed atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			wg.Go(func() {
				sent.Add(1)
				if status, err := chat(client, g.url, "u"); err != nil || status != 200 {
					failed.Add(1)
					t.Errorf("%d %v", status, err)
				}
			})
		}
	})
	until(t, "traffic flows", func() bool { return sent.Load() > 200 })
	ended := make(chan error)
	go func() { ended <- g.term(t) }()
	until(t, "/readyz fails", func() bool {
		resp, err := http.Get(g.url + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	// The client behind a load balancer that has not noticed yet.
	goOn := time.NewTimer(2 * time.Second)
	<-goOn.C
	stop()
	wg.Wait()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v: %s", err, g.stderr)
	}
	if failed.Load() > 0 || sent.Load() < 500 {
		t.Errorf("%d of %d requests failed", failed.Load(), sent.Load())
	}
}

// kill -9 in the middle of traffic and steps loses no share and no audit, and
// the next start takes the stale socket over.
func TestKillLosesNothing(t *testing.T) {
	a, b := newStub(t), newStub(t)
	path := configure(t, t.TempDir(), a, b, "")
	g := start(t, path)
	for _, share := range []int{0, 5, 25} {
		g.step(t, "a", share)
	}
	before := g.upstream(t, "a")
	g.kill()
	g = start(t, path)
	after := g.upstream(t, "a")
	if after.Share != 25 || after.Revision != before.Revision || after.FailbackID != before.FailbackID {
		t.Errorf("before %+v, after %+v", before, after)
	}
	trail, err := g.client.Audit(t.Context(), 100)
	if err != nil || len(trail.Entries) < 3 {
		t.Errorf("%d audit entries: %v", len(trail.Entries), err)
	}
}
