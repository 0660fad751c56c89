package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Outcomes of a request as its client saw them, where no workflow status of
// the gateway tells: they complete TrafficStats.ByStatus.
const (
	// NoAnswer is a request that got no header: nobody listens, or the
	// connection broke before.
	NoAnswer = "no_answer"
	// Broken is an answer without its end, or a stream with an error event.
	Broken = "broken"
	// Unlabelled is an answer of something that is not the gateway.
	Unlabelled = "unlabelled"
)

// TrafficStats counts what the clients of a Traffic saw.
type TrafficStats struct {
	Sent int64
	// Skipped are requests that came due while MaxInFlight were under way.
	Skipped int64
	// Ended = sum over ByStatus; Sent - Ended are under way.
	Ended int64
	// ByStatus counts by the answer's Failback-Status, else by NoAnswer,
	// Broken or Unlabelled.
	ByStatus map[string]int64
	// ByTask is ByStatus per Failback-Task, "" for requests without.
	ByTask map[string]map[string]int64
}

// Traffic plays mixed clients against a gateway: both dialects, streams and
// whole answers, with and without tools, over thousands of conversations. The
// clients never retry.
type Traffic struct {
	// URL is the gateway's client address, without /v1.
	URL string
	// Rate is the mean number of requests a second; 0: 20. They arrive as
	// independent clients' do, in no rhythm.
	Rate float64
	// MaxInFlight bounds the requests under way; 0: 128. What comes due
	// beyond it is skipped and counted.
	MaxInFlight int
	// Timeout is each client's patience; 0: one minute.
	Timeout time.Duration
	// Seed makes the choice of requests repeatable.
	Seed uint64

	mu sync.Mutex // guards everything that follows

	stats TrafficStats
}

// Stats returns a copy of the counts so far.
func (t *Traffic) Stats() TrafficStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.ByStatus, s.ByTask = maps.Clone(s.ByStatus), map[string]map[string]int64{}
	for task, by := range t.stats.ByTask {
		s.ByTask[task] = maps.Clone(by)
	}
	return s
}

// Run sends requests until ctx ends, then breaks off those under way, waits
// for them and returns.
func (t *Traffic) Run(ctx context.Context) {
	rate, bound, patience := t.Rate, t.MaxInFlight, t.Timeout
	if rate <= 0 {
		rate = 20
	}
	if bound <= 0 {
		bound = 128
	}
	if patience <= 0 {
		patience = time.Minute
	}
	transport := &http.Transport{MaxIdleConnsPerHost: bound, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	rng := rand.New(rand.NewPCG(t.Seed, 0x6661696c))
	slots := make(chan struct{}, bound)
	var clients sync.WaitGroup
	defer clients.Wait()
	// Due times are laid out ahead, so that a slow moment of this process does
	// not thin the traffic.
	due := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			if ctx.Err() != nil {
				return // both were ready
			}
		}
		due = due.Add(time.Duration(rng.ExpFloat64() / rate * float64(time.Second)))
		if late := time.Since(due); late > time.Second {
			due = due.Add(late) // the machine slept: do not catch up
		}
		timer.Reset(time.Until(due))

		k, n := pick(rng)
		turn := rng.IntN(4)
		select {
		case slots <- struct{}{}:
		default:
			t.skip()
			continue
		}
		t.send(k.task)
		clients.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			t.end(k.task, ask(ctx, client, t.URL, k, n, turn))
		})
	}
}

func (t *Traffic) skip() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Skipped++
}

func (t *Traffic) send(task string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Sent++
	if t.stats.ByTask == nil {
		t.stats.ByStatus, t.stats.ByTask = map[string]int64{}, map[string]map[string]int64{}
	}
	if t.stats.ByTask[task] == nil {
		t.stats.ByTask[task] = map[string]int64{}
	}
}

func (t *Traffic) end(task, status string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Ended++
	t.stats.ByStatus[status]++
	t.stats.ByTask[task][status]++
}

// maxAnswer bounds what a client reads of an answer.
const maxAnswer = 4 << 20

// ask sends one request, reads its answer to the end and says what came of it.
func ask(ctx context.Context, client *http.Client, url string, k kind, conversation, turn int) string {
	h, body := k.call(conversation, turn)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(url, "/")+k.path, bytes.NewReader(body))
	if err != nil {
		return NoAnswer
	}
	r.Header = h
	r.GetBody = nil // net/http must not send it twice
	resp, err := client.Do(r)
	if err != nil {
		return NoAnswer
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil && !errors.Is(err, io.EOF) {
		return Broken
	}
	// A held stream knows its status only at its end, in a trailer.
	status := resp.Trailer.Get("Failback-Status")
	if status == "" {
		status = resp.Header.Get("Failback-Status")
	}
	if k.stream && resp.StatusCode == http.StatusOK && !streamEnded(got) {
		// A stream that failed after a keep-alive has its status all the same.
		if status == "" || status == "completed" || status == "degraded_completed" {
			return Broken
		}
	}
	if status == "" {
		return Unlabelled
	}
	return status
}

// streamEnded reports whether a stream of any endpoint came to its own end.
func streamEnded(b []byte) bool {
	for _, end := range []string{"data: [DONE]", "event: message_stop", "event: response.completed", "event: response.incomplete"} {
		if bytes.Contains(b, []byte(end)) {
			return true
		}
	}
	return false
}
