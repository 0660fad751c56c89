package wire

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, tc := range []struct {
		headers string // "Name: value" joined by |
		want    time.Duration
		ok      bool
	}{
		{"", 0, false},
		{"Retry-After: 3", 3 * time.Second, true},
		{"Retry-After: 0", 0, true},
		{"Retry-After: 1.5", 1500 * time.Millisecond, true},
		{"Retry-After: -5", 0, true},
		{"Retry-After:  7 ", 7 * time.Second, true},
		{"Retry-After: 30s", 30 * time.Second, true},
		{"Retry-After: 1e9", MaxRetryAfter, true},
		{"Retry-After: 99999999999999999999999999", MaxRetryAfter, true},
		{"Retry-After: 86401", MaxRetryAfter, true},
		{"Retry-After: 1e999", MaxRetryAfter, true},
		{"Retry-After: soon", 0, false},
		{"Retry-After: ", 0, false},
		{"Retry-After: inf", 0, false},
		{"Retry-After: nan", 0, false},
		{"Retry-After: 0x10", 0, false},
		{"Retry-After: 1_0", 0, false},
		{"Retry-After: " + date(90*time.Second), 90 * time.Second, true},
		{"Retry-After: " + date(-time.Hour), 0, true},
		{"Retry-After: " + date(1000*time.Hour), MaxRetryAfter, true},
		{"Retry-After: 2026-03-01T12:01:00Z", time.Minute, true},
		{"Retry-After: Sun, 01 Mar 2026 13:00:30 +0100", 30 * time.Second, true},
		// The answer's clock is an hour slow; so is its date.
		{"Date: " + date(-time.Hour) + "|Retry-After: " + date(20*time.Second-time.Hour), 20 * time.Second, true},
		{"Date: nonsense|Retry-After: " + date(20*time.Second), 20 * time.Second, true},
		{"Retry-After: 3|Retry-After: 5|Retry-After: x", 5 * time.Second, true},
		{"Retry-After-Ms: 250.5|Retry-After: 3", 250500 * time.Microsecond, true},
		{"Retry-After-Ms: x|Retry-After: 3", 3 * time.Second, true},
		{"Retry-After-Ms: -1|Retry-After: 3", 0, true},
		{"X-Ms-Retry-After-Ms: 1200", 1200 * time.Millisecond, true},
		{"X-Ratelimit-Reset: 30", 30 * time.Second, true},
		{"X-Ratelimit-Reset: 1772366445", 45 * time.Second, true},    // Unix time
		{"X-Ratelimit-Reset: 1772366445000", 45 * time.Second, true}, // in milliseconds
		{"X-Ratelimit-Reset: 1772366000", 0, false},                  // over
		{"X-Ratelimit-Reset: 2591999", MaxRetryAfter, true},          // just under 30 days
		{"X-Ratelimit-Reset: -1", 0, false},
		{"X-Ratelimit-Reset-Requests: 0|X-Ratelimit-Reset-Tokens: -1", 0, false},
		{"X-Ratelimit-Reset-Requests: 12ms|X-Ratelimit-Reset-Tokens: 1m30s", 12 * time.Millisecond, true},
		{"X-Ratelimit-Reset-Requests: 12ms|X-Ratelimit-Reset-Tokens: 1m30s|X-Ratelimit-Remaining-Tokens: 0|X-Ratelimit-Remaining-Requests: 99", 90 * time.Second, true},
		{"X-Ratelimit-Reset-Tokens: 1000h", MaxRetryAfter, true},
		{"Anthropic-Ratelimit-Requests-Reset: 2026-03-01T12:00:10Z|Anthropic-Ratelimit-Input-Tokens-Reset: 2026-03-01T12:00:40Z|Anthropic-Ratelimit-Input-Tokens-Remaining: 0", 40 * time.Second, true},
		{"Anthropic-Ratelimit-Requests-Reset: 2026-03-01T12:00:10Z", 10 * time.Second, true},
		{"Retry-After: 9|X-Ratelimit-Reset-Requests: 1s", 9 * time.Second, true},
	} {
		h := http.Header{}
		for line := range strings.SplitSeq(tc.headers, "|") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				h.Add(name, value)
			}
		}
		if got, ok := RetryAfter(h, now); got != tc.want || ok != tc.ok {
			t.Errorf("%s: %s, %t; want %s, %t", tc.headers, got, ok, tc.want, tc.ok)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"3", "-5", "1.5", "1e999", "Sun, 01 Mar 2026 12:00:30 GMT", "2026-03-01T12:00:10Z", "1m30s", "1772366445", "nan", "0x1p4", "9223372036854775807", ""} {
		f.Add(s, s, s, s)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, date, after, ms, reset string) {
		h := http.Header{"Date": {date}, "Retry-After": {after}, "Retry-After-Ms": {ms}, "X-Ratelimit-Reset": {reset}, "X-Ratelimit-Reset-Tokens": {reset}}
		d, ok := RetryAfter(h, now)
		if d < 0 || d > MaxRetryAfter || !ok && d != 0 {
			t.Fatalf("%q: %s, %t", h, d, ok)
		}
		// A plain number of seconds is what it says.
		delete(h, "Retry-After-Ms")
		if n, err := time.ParseDuration(after + "s"); err == nil && strings.Trim(after, "0123456789") == "" {
			if d, ok := RetryAfter(h, now); !ok || d != min(n, MaxRetryAfter) {
				t.Fatalf("%q: %s, %t", h, d, ok)
			}
		}
	})
}
