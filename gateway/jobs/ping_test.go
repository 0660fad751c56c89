package jobs

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/internal/memnet"
	"failback/internal/bubble"
)

const pingURL = "http://ping.test/s3cret?key=s3cret"

// receiver counts pings and answers as it is told.
type receiver struct {
	pings  atomic.Int64
	answer atomic.Value // http.HandlerFunc
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.pings.Add(1)
	if h, ok := r.answer.Load().(http.HandlerFunc); ok {
		h(w, q)
	}
}

// pinging runs a pinger against r in a bubble.
func pinging(t *testing.T, b *Board, r http.Handler, u string) (*Pinger, func()) {
	t.Helper()
	l := memnet.Listen("ping.test:80")
	s := &http.Server{Handler: r}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	target, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPinger(PingOptions{Board: b, URL: target, Dial: l.DialContext})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	synctest.Wait()
	return p, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = s.Close()
		<-served
	}
}

func TestPingOnlyWhileAllJobsAreInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Board
		b.Register("watch", time.Second)
		r := &receiver{}
		p, stop := pinging(t, &b, r, pingURL)
		defer stop()
		if s := p.Status(); r.pings.Load() != 1 || !s.LastOK.Equal(time.Now()) || s.Held != "" || !s.Configured {
			t.Fatalf("%d pings, %+v", r.pings.Load(), s)
		}
		ok := p.Status().LastOK
		bubble.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		if s := p.Status(); r.pings.Load() != 2 || s.Held != "late: watch" {
			t.Errorf("%d pings, %+v", r.pings.Load(), s)
		}
		b.Ran("watch", nil)
		bubble.Sleep(time.Minute)
		synctest.Wait()
		if s := p.Status(); r.pings.Load() != 3 || s.Held != "" || !s.LastOK.After(ok) {
			t.Errorf("%d pings, %+v", r.pings.Load(), s)
		}
	})
}

func TestPingIsConfirmedByA2xxAlone(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "it answers 500"},
		{"redirect", http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP, "it answers 302; redirects are not followed"},
		{"silence", func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, "no answer in time"},
		{"hung up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "the connection ends without an answer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b Board
				r := &receiver{}
				r.answer.Store(tc.answer)
				p, stop := pinging(t, &b, r, pingURL)
				defer stop()
				bubble.Sleep(pingTimeout)
				synctest.Wait()
				s := p.Status()
				if s.LastError != tc.want || s.LastErrorAt.IsZero() || !s.LastOK.IsZero() || r.pings.Load() != 1 {
					t.Errorf("%+v after %d pings", s, r.pings.Load())
				}
				if strings.Contains(s.LastError, "s3cret") {
					t.Error("the status gives the URL away")
				}
				r.answer.Store(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
				bubble.Sleep(time.Minute)
				synctest.Wait()
				if s := p.Status(); s.LastError != "" || s.LastOK.IsZero() {
					t.Errorf("after it answers: %+v", s)
				}
			})
		})
	}
}

func TestPingFollowsTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Board
		r := &receiver{}
		p, stop := pinging(t, &b, r, pingURL)
		defer stop()
		p.Configure(nil)
		bubble.Sleep(3*time.Minute + 30*time.Second)
		if s := p.Status(); s != (PingStatus{}) || r.pings.Load() != 1 {
			t.Errorf("switched off: %+v after %d pings", s, r.pings.Load())
		}
		u, err := url.Parse(pingURL)
		if err != nil {
			t.Fatal(err)
		}
		p.Configure(u)
		synctest.Wait()
		if s := p.Status(); !s.LastOK.Equal(time.Now()) || r.pings.Load() != 2 {
			t.Errorf("switched on: %+v after %d pings", s, r.pings.Load())
		}
	})
}

// What the former URL answers says nothing of the one in force.
func TestPingOfAFormerURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Board
		former := make(chan struct{})
		r := &receiver{}
		r.answer.Store(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/other" {
				<-q.Context().Done()
				return
			}
			<-former
			w.WriteHeader(http.StatusInternalServerError)
		}))
		p, stop := pinging(t, &b, r, pingURL)
		defer stop()
		p.Configure(&url.URL{Scheme: "http", Host: "ping.test", Path: "/other"})
		close(former)
		synctest.Wait()
		if s := p.Status(); s != (PingStatus{Configured: true}) || r.pings.Load() != 2 {
			t.Errorf("%+v after %d pings", s, r.pings.Load())
		}
	})
}
