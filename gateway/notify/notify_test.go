package notify

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
	"failback/gateway/internal/memnet"
	"failback/internal/bubble"
)

const hook = "http://hook.test/services/s3cret?token=s3cret"

// receiver keeps what is posted and answers as it is told.
type receiver struct {
	mu     sync.Mutex
	answer http.HandlerFunc
	posts  []post
}

type post struct {
	at   time.Time
	id   string
	body body
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	raw, err := io.ReadAll(q.Body)
	var b body
	if err == nil {
		err = json.Unmarshal(raw, &b)
	}
	if err != nil || q.Method != http.MethodPost || q.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "not a message", http.StatusTeapot)
		return
	}
	r.mu.Lock()
	r.posts = append(r.posts, post{time.Now(), q.Header.Get(IDHeader), b})
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		answer(w, q)
	}
}

func (r *receiver) set(h http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = h
}

func (r *receiver) got() []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.posts)
}

// bench is a notifier that runs against a receiver in a bubble.
type bench struct {
	*Notifier
	*receiver
	listener *memnet.Listener
	stop     func()

	mu     sync.Mutex
	events []decision.Event
}

func (b *bench) told() []decision.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.events)
}

// ends are Notified and Result of the escalations so far.
func (b *bench) ends() []string {
	var out []string
	for _, e := range b.told() {
		out = append(out, strings.TrimSuffix(e.Notified+" "+e.Result, " "))
	}
	return out
}

func parse(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func started(t *testing.T, u *url.URL) *bench {
	t.Helper()
	b := &bench{receiver: &receiver{}, listener: memnet.Listen("hook.test:80")}
	s := &http.Server{Handler: b.receiver}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(b.listener) }()
	b.Notifier = New(Options{URL: u, Environment: "PROD", Instance: "gw-1", Dial: b.listener.DialContext, OnEvent: func(e decision.Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, e)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = s.Close()
		<-served
		for _, e := range b.told() {
			for _, text := range []string{e.Detail, e.Required, e.Notified, e.Reason} {
				if strings.Contains(text, "s3cret") || strings.Contains(text, "hook.test") {
					t.Errorf("an event gives the address away: %+v", e)
				}
			}
		}
		if e := b.Status().LastError; strings.Contains(e, "s3cret") || strings.Contains(e, "hook.test") {
			t.Errorf("the status gives the address away: %q", e)
		}
	})
	return b
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := started(t, parse(t, hook))
		defer b.stop()
		at := time.Now().Add(-time.Second).In(time.FixedZone("CET", 3600))
		b.Tell(Message{Kind: Degraded, Upstream: "a", Text: "two groups red for 60 s", At: at, Fields: map[string]string{"share": "0"}})
		synctest.Wait()
		posts := b.got()
		if len(posts) != 1 {
			t.Fatalf("%d posts", len(posts))
		}
		want := body{
			ID: posts[0].id, Kind: Degraded, Text: "[PROD] a degraded: two groups red for 60 s", Upstream: "a", Detail: "two groups red for 60 s",
			Required: Degraded.required(), At: at.UTC(), Environment: "PROD", Instance: "gw-1",
		}
		got := posts[0].body
		if fields := got.Fields; len(fields) != 1 || fields["share"] != "0" {
			t.Errorf("fields: %v", fields)
		}
		if got.Fields = nil; !got.At.Equal(want.At) || got.At.Location() != time.UTC || len(got.ID) != 32 {
			t.Errorf("%+v", got)
		}
		got.At = want.At
		if x, y := jsonOf(t, got), jsonOf(t, want); x != y {
			t.Errorf("got %s\nwant %s", x, y)
		}
		equal(t, b.ends(), []string{"none", "webhook ok"})
		for i, e := range b.told() {
			// That a person is needed is of when it happened, the delivery of when it was
			// confirmed.
			when, detail := at, "two groups red for 60 s"
			if i == 1 {
				when, detail = time.Now(), detail+" (of "+at.UTC().Format("15:04:05Z")+")"
				if at.UTC().YearDay() != when.UTC().YearDay() {
					detail = "two groups red for 60 s (of " + at.UTC().Format("2006-01-02 15:04:05Z") + ")"
				}
			}
			if e.Kind != decision.KindEscalation || e.Provider != "a" || e.Reason != "degraded" || e.Required == "" || !e.Time.Equal(when) || e.Detail != detail {
				t.Errorf("%+v", e)
			}
		}
		if s := b.Status(); !s.Configured || s.Pending != 0 || !s.LastOK.Equal(time.Now()) || s.Lost != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	j, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(j)
}

func TestRepeatedUntilConfirmed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"500", status(500), "it answers 500"},
		{"404", status(404), "it answers 404"},
		{"redirect", http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect).ServeHTTP, "it answers 307; redirects are not followed"},
		{"hang", func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, "no answer in time"},
		{"hung up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "the connection ends without an answer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := started(t, parse(t, hook))
				defer b.stop()
				b.set(tc.answer)
				since := time.Now()
				b.Tell(Message{Kind: Retreat, Upstream: "a"})
				bubble.Sleep(time.Minute)
				synctest.Wait()
				s := b.Status()
				if s.Pending != 1 || !s.Oldest.Equal(since) || s.LastError != tc.want || s.LastErrorAt.IsZero() || !s.LastOK.IsZero() {
					t.Errorf("%+v", s)
				}
				equal(t, b.ends(), []string{"none"})
				if n := len(b.got()); n < 2 || n > 8 {
					t.Errorf("%d posts in a minute", n)
				}
				b.set(nil)
				bubble.Sleep(2 * maxPause)
				synctest.Wait()
				equal(t, b.ends(), []string{"none", "webhook ok"})
				if s := b.Status(); s.Pending != 0 || s.LastError != "" || s.LastOK.IsZero() || s.Lost != 0 {
					t.Errorf("%+v", s)
				}
				for _, p := range b.got() {
					if first := b.got()[0].id; p.id != first || p.body.ID != first {
						t.Errorf("a repetition has another id: %s, %s", p.id, first)
					}
				}
			})
		})
	}
}

// One that failed waits for its next turn, and another is not held up by it.
func TestAMessageThatWaitsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := started(t, parse(t, hook))
		defer b.stop()
		b.set(status(500))
		b.Tell(Message{Kind: Degraded, Upstream: "a"})
		synctest.Wait()
		b.set(nil)
		b.Tell(Message{Kind: Degraded, Upstream: "b"})
		synctest.Wait()
		if posts := b.got(); len(posts) != 2 || posts[1].body.Upstream != "b" {
			t.Errorf("%+v", posts)
		}
		equal(t, b.ends(), []string{"none", "none", "webhook ok"})
	})
}

func TestGivenUpAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := started(t, parse(t, hook))
		defer b.stop()
		b.set(status(500))
		since := time.Now()
		b.Tell(Message{Kind: Waiting, Upstream: "a"})
		bubble.Sleep(giveUp - maxPause)
		synctest.Wait()
		if s := b.Status(); s.Pending != 1 || s.Lost != 0 {
			t.Fatalf("before the hour is over: %+v", s)
		}
		bubble.Sleep(maxPause + time.Second)
		synctest.Wait()
		if s := b.Status(); s.Pending != 0 || s.Lost != 1 {
			t.Errorf("after it: %+v", s)
		}
		equal(t, b.ends(), []string{"none", "none failed"})
		n := len(b.got())
		if d := b.told()[1].Detail; !strings.HasPrefix(d, "given up after ") || !strings.HasSuffix(d, " attempts: it answers 500 (of "+since.UTC().Format("15:04:05Z")+")") {
			t.Errorf("%q after %d", d, n)
		}
		bubble.Sleep(time.Hour)
		synctest.Wait()
		if len(b.got()) != n {
			t.Error("what was given up is tried again")
		}
	})
}

func TestOneKindAndUpstreamIsCollapsedWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := started(t, parse(t, hook))
		defer b.stop()
		tell := func(k Kind, u, text string) { b.Tell(Message{Kind: k, Upstream: u, Text: text}) }
		tell(Degraded, "a", "first")
		tell(Degraded, "a", "second")
		tell(Degraded, "b", "other upstream")
		tell(Retreat, "a", "other kind")
		bubble.Sleep(59 * time.Second)
		tell(Degraded, "a", "third")
		synctest.Wait()
		texts := func() (out []string) {
			for _, p := range b.got() {
				out = append(out, p.body.Detail)
			}
			return out
		}
		equal(t, texts(), []string{"first", "other upstream", "other kind"})
		if s := b.Status(); s.Pending != 1 || time.Since(s.Oldest) != 59*time.Second {
			t.Errorf("what is held back is not confirmed: %+v", s)
		}
		bubble.Sleep(time.Second)
		synctest.Wait()
		equal(t, texts(), []string{"first", "other upstream", "other kind", "third"})
		if last := b.got()[3].body; last.Repeated != 1 || !strings.HasSuffix(last.Text, "third (last of 2 within a minute)") {
			t.Errorf("%+v", last)
		}
		bubble.Sleep(time.Minute)
		tell(Degraded, "a", "fourth")
		synctest.Wait()
		if got := texts(); len(got) != 5 || got[4] != "fourth" {
			t.Errorf("a minute after the last: %q", got)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := started(t, parse(t, hook))
		defer b.stop()
		b.set(status(500))
		for i := range maxPending + 3 {
			b.Tell(Message{Kind: Degraded, Upstream: "up-" + string(rune('a'+i%26)) + string(rune('a'+i/26))})
		}
		synctest.Wait()
		if s := b.Status(); s.Pending != maxPending || s.Lost != 3 {
			t.Errorf("%+v", s)
		}
		lost := 0
		for _, e := range b.told() {
			if e.Result == resultFailed {
				lost++
			}
		}
		if lost != 3 {
			t.Errorf("%d were said to be lost", lost)
		}
	})
}

func TestNobodyToTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := started(t, nil)
		defer b.stop()
		b.Tell(Message{Kind: SharedFault})
		synctest.Wait()
		equal(t, b.ends(), []string{"none"})
		if s := b.Status(); s != (Status{}) || b.listener.Dialed() != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// What needs a person is an event at once and of its own time, whoever is told of it
// and however late; one that is posted late says of when it is.
func TestAnEventIsOfWhenItHappened(t *testing.T) {
	for name, webhook := range map[string]string{"nobody is told": "", "a webhook is": hook} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var u *url.URL
				if webhook != "" {
					u = parse(t, webhook)
				}
				b := started(t, u)
				defer b.stop()
				var want []time.Time
				for range 3 {
					bubble.Sleep(10 * time.Second)
					want = append(want, time.Now())
					b.Tell(Message{Kind: Retreat, Upstream: "a", Text: "worse", At: time.Now()})
				}
				synctest.Wait()
				var got []time.Time
				for _, e := range b.told() {
					if e.Notified == decision.NotifiedNone {
						got = append(got, e.Time)
					}
				}
				if !slices.EqualFunc(got, want, time.Time.Equal) {
					t.Errorf("told of %v, it happened at %v", got, want)
				}
				if s := b.Status(); (s.Pending > 0) != (u != nil) {
					t.Errorf("%+v", s)
				}
				bubble.Sleep(time.Minute)
				synctest.Wait()
				told := b.told()
				for i, e := range told[1:] {
					if e.Time.Before(told[i].Time) {
						t.Errorf("%v comes after %v", e.Time, told[i].Time)
					}
				}
				if u == nil {
					if len(told) != 3 {
						t.Errorf("%+v", told)
					}
					return
				}
				equal(t, b.ends(), []string{"none", "webhook ok", "none", "none", "webhook ok"})
				last := told[len(told)-1]
				if !last.Time.Equal(want[0].Add(time.Minute)) || last.Detail != "worse (last of 2 within a minute) (of "+want[2].UTC().Format("15:04:05Z")+")" {
					t.Errorf("%+v", last)
				}
			})
		})
	}
}

func TestStopWhilePending(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"between attempts": status(500),
		"in an attempt":    func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := started(t, parse(t, hook))
				b.set(answer)
				b.Tell(Message{Kind: Degraded, Upstream: "a"})
				b.Tell(Message{Kind: Degraded, Upstream: "a", Text: "held back"})
				synctest.Wait()
				before := time.Now()
				b.stop()
				if d := time.Since(before); d > 0 {
					t.Errorf("stopping took %s", d)
				}
				equal(t, b.ends(), []string{"none", "none", "none failed", "none failed"})
				if s := b.Status(); s.Pending != 0 || s.Lost != 2 {
					t.Errorf("%+v", s)
				}
				if e := b.told()[2]; e.Detail != "the gateway stopped before the delivery was confirmed" {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

func TestConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := started(t, parse(t, hook))
		defer b.stop()
		b.set(status(500))
		b.Tell(Message{Kind: Degraded, Upstream: "a"})
		bubble.Sleep(20 * time.Minute)
		synctest.Wait()
		n := len(b.got())
		b.Configure(parse(t, hook), "PROD")
		synctest.Wait()
		if len(b.got()) != n {
			t.Error("the same webhook is not asked sooner")
		}
		b.set(nil)
		b.Configure(parse(t, "http://hook.test/other"), "TEST")
		synctest.Wait()
		equal(t, b.ends(), []string{"none", "webhook ok"})
		if last := b.got()[n].body; last.Environment != "TEST" {
			t.Errorf("%+v", last)
		}

		b.set(status(500))
		b.Tell(Message{Kind: Retreat, Upstream: "a"})
		synctest.Wait()
		b.Configure(nil, "TEST")
		synctest.Wait()
		equal(t, b.ends()[2:], []string{"none", "none failed"})
		if s := b.Status(); s.Configured || s.Pending != 0 || s.Lost != 1 || s.LastError != "" {
			t.Errorf("%+v", s)
		}
	})
}

// What the former webhook answers says nothing of the one in force.
func TestAnswerOfTheFormerWebhook(t *testing.T) {
	for name, code := range map[string]int{"confirmed": http.StatusOK, "failed": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := started(t, parse(t, hook))
				defer b.stop()
				former := make(chan struct{})
				b.set(func(w http.ResponseWriter, q *http.Request) {
					if q.URL.Path == "/other" {
						<-q.Context().Done()
						return
					}
					<-former
					w.WriteHeader(code)
				})
				b.Tell(Message{Kind: Degraded, Upstream: "a"})
				synctest.Wait()
				b.Configure(parse(t, "http://hook.test/other"), "PROD")
				close(former)
				synctest.Wait()
				if s := b.Status(); !s.LastOK.IsZero() || s.LastError != "" || !s.LastErrorAt.IsZero() {
					t.Errorf("%+v", s)
				}
				// What failed there is tried here at once.
				want := 1
				if code != http.StatusOK {
					want = 2
				}
				if posts := b.got(); len(posts) != want {
					t.Errorf("%d posts, want %d", len(posts), want)
				}
			})
		})
	}
}

// Tell returns whether or not anybody runs.
func TestTellNeverBlocks(t *testing.T) {
	n := New(Options{URL: parse(t, hook)})
	for i := range 3 * maxEvents {
		n.Tell(Message{Kind: Degraded, Upstream: "u" + time.Duration(i).String()})
	}
	if s := n.Status(); s.Pending != maxPending || s.Lost != 3*maxEvents-maxPending || len(n.events) != maxEvents {
		t.Errorf("%+v, %d events", s, len(n.events))
	}
}

func TestTLSFailureOverLoopback(t *testing.T) {
	s := httptest.NewTLSServer(&receiver{})
	t.Cleanup(s.Close)
	n := New(Options{})
	err := n.post(t.Context(), target{url: parse(t, s.URL+"/s3cret")}, newPending(Message{Kind: Degraded}, time.Now()))
	if err == nil || err.Error() != "its certificate is signed by an authority that is not trusted" {
		t.Errorf("got %v", err)
	}
	n = New(Options{Roots: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs})
	if err := n.post(t.Context(), target{url: parse(t, s.URL+"/s3cret")}, newPending(Message{Kind: Degraded}, time.Now())); err != nil {
		t.Error(err)
	}
	s.Close()
	if err := n.post(t.Context(), target{url: parse(t, s.URL+"/s3cret")}, newPending(Message{Kind: Degraded}, time.Now())); err == nil || err.Error() != "connection refused" {
		t.Errorf("got %v", err)
	}
}
