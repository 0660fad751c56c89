package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// client is one that keeps its connections.
func client(conns int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns, MaxConnsPerHost: 0, DisableCompression: true}}
}

func ask(c *http.Client, url, body string) error {
	res, err := c.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil {
		return fmt.Errorf("%d, broken off after %d bytes: %w", res.StatusCode, n, err)
	}
	if res.StatusCode != http.StatusOK || n < 100 {
		return fmt.Errorf("%d, %d bytes: not the answer of the stub", res.StatusCode, n)
	}
	return nil
}

// closed sends requests one after the other on each of conns connections for
// d, or until most were sent, and returns how many were.
func closed(url, body string, conns int, d time.Duration, most int64) (int64, error) {
	c := client(conns)
	defer c.CloseIdleConnections()
	var sent atomic.Int64
	var failed atomic.Pointer[error]
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for range conns {
		wg.Go(func() {
			for time.Now().Before(end) && failed.Load() == nil {
				if sent.Add(1) > most {
					return
				}
				if err := ask(c, url, body); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return min(sent.Load(), most), nil
}

// open sends rate requests a second for d, whatever becomes of them, and
// returns how long each took from the moment it was meant to be sent.
func open(url, body string, rate int, d time.Duration) ([]time.Duration, error) {
	c := client(256)
	defer c.CloseIdleConnections()
	n := int(d.Seconds() * float64(rate))
	took := make([]time.Duration, n)
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	began := time.Now()
	for i := range n {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due))
		wg.Go(func() {
			if err := ask(c, url, body); err != nil {
				failed.Store(&err)
			}
			took[i] = time.Since(due)
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	slices.Sort(took)
	return took, nil
}

func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

func median[T int64 | float64 | time.Duration](v []T) T {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
