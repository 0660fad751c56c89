package telemetry

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

func newLive() *Live {
	l := NewLive()
	l.Reset(testTopology())
	return l
}

func value(t *testing.T, what string, got api.Number, want float64) {
	t.Helper()
	if got.State != api.StateValue || math.Abs(got.Value-want) > 1e-9+want*0.021 || got.At.IsZero() {
		t.Errorf("%s: %+v, want the value %v", what, got, want)
	}
}

func state(t *testing.T, what string, got api.Number, want string) {
	t.Helper()
	if got.State != want || got.Value != 0 || got.At.IsZero() {
		t.Errorf("%s: %+v, want %s", what, got, want)
	}
}

// A rate of nothing is 0, a ratio of nothing is idle, and LIVE of an upstream
// that is primary of nothing does not exist.
func TestLiveOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLive().Snapshot(time.Now())
		for _, name := range []string{"a", "b", "unknown"} {
			u := s.Upstream(name)
			value(t, name+" rps", u.RPS, 0)
			value(t, name+" own rps", u.OwnRPS, 0)
			state(t, name+" error ratio", u.ErrorRatio, api.StateIdle)
			state(t, name+" p95", u.FirstOutputP95, api.StateIdle)
		}
		state(t, "a live", s.Upstream("a").Live, api.StateIdle)
		state(t, "b live", s.Upstream("b").Live, api.StateNone)
		value(t, "rps", s.Traffic.RPS, 0)
		value(t, "fallback rps", s.Traffic.FallbackRPS, 0)
		value(t, "client retries", s.Traffic.ClientRetries, 0)
		state(t, "failed ratio", s.Traffic.FailedRatio, api.StateIdle)
		state(t, "fallback ratio", s.Traffic.FallbackRatio, api.StateIdle)
		state(t, "p95", s.Traffic.FirstOutputP95, api.StateIdle)
		value(t, "task", s.Task("summary"), 0)
	})
}

// Four requests a second for two minutes: three answered by a, one by b after a
// had failed, one in ten seconds by nobody.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive()
		for second := range 120 {
			for range 3 {
				pass(250 * time.Millisecond)
				d := answered()
				d.Model = "sonnet"
				l.Decision(d)
			}
			pass(250*time.Millisecond - time.Nanosecond)
			d := fellOver()
			d.ClientRetry = second % 2
			if second%10 == 0 {
				d.Selected, d.Route, d.Status, d.HasFirstOutput = "", decision.RouteNone, decision.Unavailable, false
				d.Attempts[1].Outcome = decision.Outcome{Class: decision.RateLimited, Status: 429}
				d.Task = "refund"
			}
			l.Decision(d)
			pass(time.Nanosecond)
		}
		now := time.Now()
		s := l.Snapshot(now)
		if !s.At.Equal(now) || s.Total != 480 {
			t.Errorf("at %v, total %d", s.At, s.Total)
		}
		a, b := s.Upstream("a"), s.Upstream("b")
		// The running second has just begun: nine seconds are whole.
		value(t, "a rps", a.RPS, 4)
		value(t, "a own rps", a.OwnRPS, 4)
		value(t, "a live", a.Live, 0.75)
		value(t, "a error ratio", a.ErrorRatio, 0.25)
		value(t, "a p95", a.FirstOutputP95, 1)
		value(t, "b rps", b.RPS, 1)
		value(t, "b own rps", b.OwnRPS, 0)
		state(t, "b live", b.Live, api.StateNone)
		value(t, "b p95", b.FirstOutputP95, 0.3)
		if r := b.ErrorRatio.Value; r < 0.06 || r > 0.11 {
			t.Errorf("b error ratio %v: a 429 is an error to an operator", r)
		}
		value(t, "rps", s.Traffic.RPS, 4)
		value(t, "fallback rps", s.Traffic.FallbackRPS, 1)
		value(t, "fallback ratio", s.Traffic.FallbackRatio, 0.25)
		value(t, "p95", s.Traffic.FirstOutputP95, 1.3)
		value(t, "client retries", s.Traffic.ClientRetries, 0.5)
		if r := s.Traffic.FailedRatio.Value; r < 0.02 || r > 0.026 {
			t.Errorf("failed ratio %v", r)
		}
		if s.PerMinute < 236 || s.PerMinute > 240 {
			t.Errorf("%d decisions a minute", s.PerMinute)
		}
		if r := s.Task("refund").Value; r < 0.08 || r > 0.11 {
			t.Errorf("refund %v", r)
		}
		var own []string
		for _, o := range s.Own {
			own = append(own, fmt.Sprintf("%s/%s/%s %.1f", o.Primary, o.Model, o.Task, o.RPS))
		}
		if diff := cmp.Diff([]string{"a/sonnet/refund 0.1", "a/sonnet/summary 3.9"}, own); diff != "" {
			t.Error(diff)
		}

		pass(61 * time.Second)
		s = l.Snapshot(time.Now())
		value(t, "a rps later", s.Upstream("a").RPS, 0)
		state(t, "a live later", s.Upstream("a").Live, api.StateIdle)
		state(t, "a error ratio later", s.Upstream("a").ErrorRatio, api.StateIdle)
		state(t, "p95 later", s.Traffic.FirstOutputP95, api.StateIdle)
		if s.Total != 480 || s.PerMinute != 0 || len(s.Own) != 0 {
			t.Errorf("later: %+v", s)
		}
	})
}

// What just happened shows at once, and a start does not make rates small.
func TestLiveAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive()
		for range 5 {
			l.Decision(answered())
		}
		value(t, "at once", l.Snapshot(time.Now()).Upstream("a").RPS, 5)
		pass(2 * time.Second)
		value(t, "after 2 s", l.Snapshot(time.Now()).Upstream("a").RPS, 2.5)
		value(t, "traffic after 2 s", l.Snapshot(time.Now()).Traffic.RPS, 2.5)
	})
}

// Blame: what a breaker takes for neutral may still be the upstream's to an
// operator; what is the caller's or ours never is.
func TestLiveErrorRatioByClass(t *testing.T) {
	for _, class := range decision.Classes {
		want := api.StateValue
		switch class {
		case decision.Refused, decision.ContextLength, decision.InvalidRequest, decision.ContentFilter,
			decision.CallerDeadline, decision.ClientGone, decision.LocalRefusal, decision.Internal, decision.Unknown:
			want = api.StateIdle
		}
		l := newLive()
		d := answered()
		d.Attempts[0].Outcome.Class = class
		l.Decision(d)
		got := l.Snapshot(time.Now()).Upstream("a").ErrorRatio
		ratio := 1.0
		if class == decision.OK || want == api.StateIdle {
			ratio = 0
		}
		if got.State != want || got.Value != ratio {
			t.Errorf("%s: %+v, want %s %v", class, got, want, ratio)
		}
	}
}

// Overflow is part of LIVE; what the caller spoiled or left is no traffic.
func TestLiveShare(t *testing.T) {
	l := newLive()
	overflow := answered()
	overflow.Reason, overflow.Overflow = decision.Overflow, true
	l.Decision(overflow)
	l.Decision(fellOver())
	left := answered()
	left.Selected, left.Route, left.Status = "", decision.RouteNone, decision.Cancelled
	l.Decision(left)
	value(t, "live", l.Snapshot(time.Now()).Upstream("a").Live, 0.5)
}

func TestLiveReset(t *testing.T) {
	l := newLive()
	l.Decision(fellOver())
	l.Decision(answered())
	small := testTopology()
	small.Upstreams = small.Upstreams[1:2]
	small.Models = []TopologyModel{{Name: "sonnet", Candidates: []TopologyCandidate{{Upstream: "b", Primary: true}}}}
	small.Tasks = nil
	l.Reset(small)
	if tasks := l.Snapshot(time.Now()).Tasks; len(tasks) != 0 {
		t.Errorf("tasks %v", tasks)
	}
	l.Decision(fellOver()) // began before
	s := l.Snapshot(time.Now())
	if _, ok := s.Upstreams["a"]; ok || len(s.Upstreams) != 1 {
		t.Errorf("upstreams %v", s.Upstreams)
	}
	value(t, "b", s.Upstream("b").RPS, 2)
	state(t, "b live", s.Upstream("b").Live, api.StateIdle)
	if len(s.Own) != 0 {
		t.Errorf("own %v", s.Own)
	}
	if s.Total != 3 {
		t.Errorf("total %d", s.Total)
	}
}

func TestLiveConcurrently(t *testing.T) {
	l := newLive()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				l.Decision(fellOver())
			}
		})
	}
	for range 20 {
		l.Snapshot(time.Now())
		l.Reset(testTopology())
	}
	wg.Wait()
	if s := l.Snapshot(time.Now()); s.Total != 2000 {
		t.Errorf("total %d", s.Total)
	}
}

func BenchmarkLiveDecision(b *testing.B) {
	l := newLive()
	d := fellOver()
	b.ReportAllocs()
	for b.Loop() {
		l.Decision(d)
	}
}

func BenchmarkLiveSnapshot(b *testing.B) {
	l := NewLive()
	for i := range 200 {
		d := fellOver()
		for j := range d.Attempts {
			d.Attempts[j].Provider = fmt.Sprint("u", i)
		}
		d.Primary = fmt.Sprint("u", i)
		l.Decision(d)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Snapshot(time.Now())
	}
}
