package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// stallFor is for a long look at a reader that stops; see CONTRIBUTING.md.
var stallFor = flag.Duration("stall", 0, "how long the reader of TestTEL07AReaderThatStops stops; 0: 12s")

// tap reads a gateway's decision log from a pipe while it is open.
type tap struct {
	open, shut chan struct{}
	done       chan struct{}

	mu        sync.Mutex // guards everything that follows
	decisions int
	broken    []string
}

// newTap reads from a pipe whose other end it returns, once it is opened.
func newTap(t *testing.T) (*tap, *os.File) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{open: make(chan struct{}, 1), shut: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer out.Close()
		r := bufio.NewReader(out)
		<-p.open
		for {
			select {
			case <-p.shut:
				<-p.open
			default:
			}
			line, err := r.ReadBytes('\n')
			if len(line) > 0 {
				p.take(line)
			}
			if err != nil {
				return
			}
		}
	}()
	return p, in
}

func (p *tap) take(line []byte) {
	var d api.Decision
	err := json.Unmarshal(line, &d)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil || line[len(line)-1] != '\n':
		p.broken = append(p.broken, string(line))
	case d.Event == "model_route_selected":
		p.decisions++
	}
}

func (p *tap) read() (decisions int, broken []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decisions, slices.Clone(p.broken)
}

// pace is what became of requests that were sent at a rate.
type pace struct {
	took   []time.Duration // of each, sorted
	failed int             // those that did not get their answer
	rate   float64         // a second, as reached
}

// paced sends rate requests a second for d, or as many as the machine allows,
// and waits for the end of each, at most patience.
func paced(url string, rate int, d, patience time.Duration) pace {
	const workers = 32
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}, Timeout: patience}
	defer client.CloseIdleConnections()
	began := time.Now()
	var mu sync.Mutex // guards p
	var p pace
	var wg sync.WaitGroup
	for n := range workers {
		wg.Go(func() {
			tick := time.NewTicker(workers * time.Second / time.Duration(rate))
			defer tick.Stop()
			var own []time.Duration
			bad := 0
			for i := 0; time.Since(began) < d; i++ {
				<-tick.C
				sent := time.Now()
				if status, err := chat(client, url, fmt.Sprintf("u%d-%d", n, i%50)); err != nil || status != http.StatusOK {
					bad++
				}
				own = append(own, time.Since(sent))
			}
			mu.Lock()
			defer mu.Unlock()
			p.took, p.failed = append(p.took, own...), p.failed+bad
		})
	}
	wg.Wait()
	slices.Sort(p.took)
	p.rate = float64(len(p.took)) / time.Since(began).Seconds()
	return p
}

func (p pace) at(q float64) time.Duration { return p.took[int(q*float64(len(p.took)-1))] }

func (p pace) String() string {
	const to = 10 * time.Microsecond
	return fmt.Sprintf("%d requests, %.0f/s, p50 %s, p99 %s, most %s", len(p.took), p.rate, p.at(0.5).Round(to), p.at(0.99).Round(to), p.at(1).Round(to))
}

// TEL-07: a reader of the decision log that stops reading delays no request; what
// it does not take is dropped and counted in the metrics, the state and the
// status, and when it reads again whole lines flow.
func TestTEL07AReaderThatStops(t *testing.T) {
	if testing.Short() {
		t.Skip("requires half a minute of load")
	}
	path := configure(t, t.TempDir(), newStub(t), newStub(t), "")
	edit(t, path, "decision_log: decisions.jsonl", "decision_log: stdout")
	tap, in := newTap(t)
	g := startAs(t, path, func(c *exec.Cmd) { c.Stdout = in })
	_ = in.Close()
	const (
		rate = 2000
		calm = 5 * time.Second
	)
	stall := cmp.Or(*stallFor, 12*time.Second)
	sent := 0
	load := func(what string, d time.Duration) pace {
		t.Helper()
		p := paced(g.url, rate, d, 2*stall)
		sent += len(p.took)
		if p.failed > 0 {
			t.Errorf("%s: %d of %d requests failed", what, p.failed, len(p.took))
		}
		t.Logf("%s, %d/s wanted: %s", what, rate, p)
		return p
	}
	tap.open <- struct{}{}
	load("while it reads", calm)
	if n := g.state(t).Log.Dropped; n != 0 {
		t.Errorf("%d lines are dropped while it reads", n)
	}
	close(tap.shut)
	taken, _ := tap.read()
	stalled := load("while it does not", stall)
	for over := time.Now().Add(2 * time.Minute); g.state(t).Log.Dropped == 0 && time.Now().Before(over); {
		load("until the queue is full, on a slow machine", calm)
	}
	// All of them have ended and it still does not read: none waited for it.
	if n, _ := tap.read(); n > taken+1 { // one may have been under way
		t.Fatalf("the reader read %d lines after it stopped", n-taken)
	}
	if most := stalled.at(1); most > stall/2 {
		t.Errorf("of %s that nobody read, a request took %s", stall, most)
	}
	log := g.state(t).Log
	if log.Dropped == 0 {
		t.Fatalf("after %d requests, %.0f/s, nothing is dropped: %+v", sent, stalled.rate, log)
	}
	if got, then := sum(g.scrape(t), "failback_log_lines_dropped_total"), g.state(t).Log.Dropped; got < float64(log.Dropped) || got > float64(then) {
		t.Errorf("the metrics say %g lines dropped, the state said %d and says %d", got, log.Dropped, then)
	}
	out, _, code := cli(t, g.dir, "status")
	if code != 0 || !strings.Contains(out, "lines of the decision log dropped") {
		t.Errorf("status (exit %d) does not say so:\n%s", code, out)
	}
	// It reads again: what waited comes, and what is new.
	before, _ := tap.read()
	close(tap.open)
	load("while it reads again", calm)
	settled := func() bool {
		s := g.state(t).Log
		n, _ := tap.read()
		return n+int(s.Dropped) >= sent
	}
	until(t, "every request is in the log or counted", settled)
	end := g.state(t).Log
	if err := g.term(t); err != nil {
		t.Errorf("it ended with %v: %s", err, g.stderr)
	}
	select {
	case <-tap.done:
	case <-time.After(30 * time.Second):
		t.Fatal("the log does not end with the gateway")
	}
	n, broken := tap.read()
	if len(broken) > 0 {
		t.Errorf("%d broken lines, the first %q", len(broken), broken[0])
	}
	if n <= before {
		t.Errorf("%d lines before it read again, %d after", before, n)
	}
	if n+int(end.Dropped) != sent {
		t.Errorf("%d lines and %d dropped of %d requests", n, end.Dropped, sent)
	}
	t.Logf("%d requests, %d lines, %d dropped", sent, n, end.Dropped)
}
