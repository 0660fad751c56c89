package text_test

import (
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/ui/text"
)

func TestSince(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	bucket := func(capability, state string, since time.Duration) api.Breaker {
		return api.Breaker{Capability: capability, State: state, Since: ago(since)}
	}
	event := func(at time.Duration, capability, from, to string) api.Event {
		return api.Event{Event: api.KindBreaker, Time: ago(at), Provider: "alpha", Capability: capability, From: from, To: to}
	}
	// Newest first. An upstream of another name is not heard.
	flapping := []api.Event{
		event(5*time.Second, "text", "half_open", "open"),
		event(6*time.Second, "text", "open", "half_open"),
		{Event: api.KindBreaker, Time: ago(time.Minute), Provider: "beta", Capability: "text", From: "closed", To: "open"},
		event(10*time.Minute, "text", "closed", "open"),
		event(2*time.Hour, "text", "ramping", "closed"),
		event(3*time.Hour, "text", "closed", "open"),
	}
	for _, tc := range []struct {
		name     string
		breakers []api.Breaker
		changes  []api.Event
		want     string
	}{
		{"all closed: the most recent change of any", []api.Breaker{bucket("stream", "closed", 6*24*time.Hour), bucket("text", "closed", 3*time.Minute)}, flapping, "3m"},
		{"open: since it last was closed, not since the last probe", []api.Breaker{bucket("stream", "closed", time.Minute), bucket("text", "open", 5*time.Second)}, flapping, "10m"},
		{"the longest of those that are not closed", []api.Breaker{bucket("stream", "ramping", 20*time.Minute), bucket("text", "open", 5*time.Second)}, append([]api.Event{}, append(flapping, event(time.Hour, "stream", "closed", "open"))...), "1h"},
		{"nothing is known of before", []api.Breaker{bucket("text", "open", 5*time.Second)}, nil, "5s+"},
		{"the beginning is lost", []api.Breaker{bucket("text", "open", 5*time.Second)}, flapping[:2], "6s+"},
		{"forced closed is closed", []api.Breaker{{Capability: "text", State: "closed", Forced: "closed", Since: ago(time.Minute)}}, flapping, "1m"},
	} {
		since, least := text.Since(&api.Upstream{Name: "alpha", Breakers: tc.breakers}, tc.changes)
		if got := text.For(since, least, now); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if since, least := text.Since(&api.Upstream{}, flapping); !since.IsZero() || least {
		t.Errorf("without a bucket: %v %v", since, least)
	}
}
