package spans

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// pass lets d go by, in a bubble of synctest.
func pass(d time.Duration) { <-time.After(d) }

// busy is a collector without a network that answers 429 to what comes before
// until, and says when that is.
type busy struct {
	a     *answers
	until time.Time
	date  bool // says it as a date, by a clock that is an hour behind
	calls []time.Time
}

func (b *busy) Start(context.Context) error { return nil }
func (b *busy) Stop(context.Context) error  { return nil }

func (b *busy) UploadTraces(context.Context, []*tracepb.ResourceSpans) error {
	b.calls = append(b.calls, time.Now())
	left := time.Until(b.until)
	if left <= 0 {
		b.a.note(&http.Response{StatusCode: 200})
		return nil
	}
	h := http.Header{"Retry-After": {left.String()[:len(left.String())-1]}}
	if b.date {
		here := time.Now().Add(-time.Hour)
		h = http.Header{"Retry-After": {here.Add(left).UTC().Format(http.TimeFormat)}, "Date": {here.UTC().Format(http.TimeFormat)}}
	}
	b.a.note(&http.Response{StatusCode: http.StatusTooManyRequests, Header: h})
	return errors.New("429")
}

// begun is an exporter to a collector that is busy for d from now.
func begun(t *testing.T, d time.Duration) (*Exporter, *busy) {
	a := &answers{}
	b := &busy{a: a, until: time.Now().Add(d)}
	return begin(t.Context(), Options{tryTime: tryTime, retryTime: retryTime, batchEvery: batchEvery, queueRoom: 4}, sender{Client: b, answers: a}), b
}

// A collector that asks to be left alone is, also by the batches after the one
// that it did not take; they wait in the queue, and what does not fit is counted.
func TestRetryAfterHoldsForAll(t *testing.T) {
	for _, date := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e, b := begun(t, 59*time.Second+batchEvery)
			b.date = date
			e.Observe(sampled())
			pass(2 * batchEvery)
			for range 6 {
				e.Observe(sampled())
			}
			pass(time.Minute)
			synctest.Wait()
			if len(b.calls) != 2 || b.calls[1].Before(b.until) {
				t.Errorf("it is called at %v, and was busy until %v", b.calls, b.until)
			}
			if s := e.Stats(); s.Exported != 4*spansOfOne || s.Dropped != 3*spansOfOne {
				t.Errorf("%+v", s)
			}
			if err := e.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A wait that fits is for the batch itself too.
func TestRetryAfterKeepsTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, b := begun(t, 19*time.Second+batchEvery)
		e.Observe(sampled())
		pass(25 * time.Second)
		if s := e.Stats(); len(b.calls) != 2 || s.Exported != spansOfOne || s.Dropped != 0 {
			t.Errorf("called at %v; %+v", b.calls, s)
		}
		_ = e.Stop(t.Context())
	})
}

// At the end it is left alone too: what can be sent in the time is, the rest is
// not waited for.
func TestRetryAfterAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		busy, takes time.Duration
		exported    uint64
	}{
		{2*time.Second + batchEvery, 2 * time.Second, 4 * spansOfOne},
		{9*time.Second + batchEvery, 0, 0},
		{49*time.Second + batchEvery, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			e, b := begun(t, tt.busy)
			e.Observe(sampled())
			pass(batchEvery)
			synctest.Wait()
			for range 3 {
				e.Observe(sampled())
			}
			synctest.Wait()
			began := time.Now()
			err := e.Stop(t.Context())
			if took := time.Since(began); took != tt.takes {
				t.Errorf("busy for %v: it took %v", tt.busy, took)
			}
			if s := e.Stats(); s.Exported != tt.exported || s.Dropped != 4*spansOfOne-tt.exported || (err == nil) != (s.Dropped == 0) {
				t.Errorf("busy for %v: %v, %+v", tt.busy, err, s)
			}
			for _, at := range b.calls[1:] {
				if at.Before(b.until) {
					t.Errorf("busy for %v: it is called %v early", tt.busy, b.until.Sub(at))
				}
			}
		})
	}
}

// overtaken is a collector without a network at whose end somebody still observes:
// one who looked before Stop was called.
type overtaken struct {
	busy
	e *Exporter
}

func (o *overtaken) Stop(context.Context) error {
	o.e.queue <- sampled()
	return nil
}

// What comes when nobody sends any more is counted.
func TestObservedWhileStopBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, b := begun(t, 0)
		e.sender.Client = &overtaken{*b, e}
		err := e.Stop(t.Context())
		if s := e.Stats(); err == nil || s.Dropped != spansOfOne {
			t.Errorf("%v, %+v", err, s)
		}
	})
}

// What a proxy before the collector answers, or one that is overloaded, passes;
// what is wrong with the request does not.
func TestWhatIsTriedAgain(t *testing.T) {
	for code, again := range map[int]bool{
		429: true, 502: true, 503: true, 504: true,
		301: false, 400: false, 401: false, 404: false, 413: false, 500: false,
	} {
		a := &answers{}
		a.note(&http.Response{StatusCode: code})
		if f := a.failure(errors.New("no success")); f.again != again {
			t.Errorf("%d: sent again: %t", code, f.again)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 4, 31, 0, 0, time.UTC)
	for _, tt := range []struct {
		after, date string
		want        time.Duration
	}{
		{"", "", 0}, {"60", "", time.Minute}, {"0", "", 0}, {"-5", "", 0}, {"soon", "", 0}, {"4294967295", "", longestAfter}, {"99999999999999999999", "", 0},
		{"Mon, 30 Nov 2026 04:32:00 GMT", "", time.Minute},
		{"Mon, 30 Nov 2026 05:31:30 GMT", "Mon, 30 Nov 2026 05:31:00 GMT", 30 * time.Second},
		{"Mon, 30 Nov 2026 04:30:00 GMT", "", 0},
		{"Fri, 30 Nov 2029 04:30:00 GMT", "", longestAfter},
	} {
		h := http.Header{"Retry-After": {tt.after}, "Date": {tt.date}}
		if got := retryAfter(h, now); got != tt.want {
			t.Errorf("Retry-After: %s, Date: %s: %v, want %v", tt.after, tt.date, got, tt.want)
		}
	}
	st, err := status.New(codes.ResourceExhausted, "").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if f := grpcFailure(errors.Join(st.Err())); f.after != time.Minute || !f.again || f.text != "it answers ResourceExhausted" {
		t.Errorf("gRPC: %+v", f)
	}
}
