package wire

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter bounds every wait an upstream may ask for: a bad value must
// not park it for ever.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter returns how long an answer asks to be left alone, between 0 and
// MaxRetryAfter, and whether it asks at all. It looks at retry-after-ms, which
// the vendors' SDKs prefer, then at Azure's x-ms-retry-after-ms, at
// retry-after, and last at the ends of rate-limit windows; these stand in
// answers of every kind, and mean a wait only in one that was refused for its
// rate. Dates are read against the answer's own Date header, or now without
// one. What cannot be read is passed over; of several values the longest holds.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	if d, ok := asked(h, now); ok {
		return d, true
	}
	return windowEnd(h, now)
}

// clock returns the answer's idea of now.
func clock(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}

// asked looks at the headers that say in so many words how long to wait.
func asked(h http.Header, now time.Time) (time.Duration, bool) {
	now = clock(h, now)
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if d, ok := longest(h.Values(name), func(v string) (time.Duration, bool) { return amount(v, time.Millisecond) }); ok {
			return d, true
		}
	}
	return longest(h.Values("Retry-After"), func(v string) (time.Duration, bool) {
		if d, ok := amount(v, time.Second); ok {
			return d, true
		}
		if d, err := time.ParseDuration(v); err == nil {
			return clamp(d), true
		}
		return until(v, now)
	})
}

// windows are the headers that tell when a rate-limit window ends and what is
// left in it.
var windows = [...]struct{ reset, left string }{
	{"X-Ratelimit-Reset", "X-Ratelimit-Remaining"},
	{"Ratelimit-Reset", "Ratelimit-Remaining"},
	{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Remaining-Requests"},
	{"X-Ratelimit-Reset-Tokens", "X-Ratelimit-Remaining-Tokens"},
	{"Anthropic-Ratelimit-Requests-Reset", "Anthropic-Ratelimit-Requests-Remaining"},
	{"Anthropic-Ratelimit-Tokens-Reset", "Anthropic-Ratelimit-Tokens-Remaining"},
	{"Anthropic-Ratelimit-Input-Tokens-Reset", "Anthropic-Ratelimit-Input-Tokens-Remaining"},
	{"Anthropic-Ratelimit-Output-Tokens-Reset", "Anthropic-Ratelimit-Output-Tokens-Remaining"},
}

// windowEnd returns when the last window that is used up ends. Where none is
// known to be, the earliest end is the guess that costs least.
func windowEnd(h http.Header, now time.Time) (time.Duration, bool) {
	now = clock(h, now)
	var used, first time.Duration
	for _, w := range windows {
		d, ok := longest(h.Values(w.reset), func(v string) (time.Duration, bool) { return window(v, now) })
		if !ok {
			continue
		}
		if strings.TrimSpace(h.Get(w.left)) == "0" {
			used = max(used, d)
		}
		if first == 0 || d < first {
			first = d
		}
	}
	if used > 0 {
		return used, true
	}
	return first, first > 0
}

// window reads the end of a rate-limit window: a Go-like duration (OpenAI), a
// date (Anthropic), seconds, or what is too large for that, a Unix time in
// seconds or milliseconds. Azure sends 0 and -1 for what it does not know.
func window(v string, now time.Time) (time.Duration, bool) {
	const month = 30 * 24 * 3600
	if n, ok := figure(v); ok {
		switch {
		case n > 12*month*1000: // a year in milliseconds, a thousand in seconds
			n = n/1000 - float64(now.Unix())
		case n >= month:
			n -= float64(now.Unix())
		}
		d := scale(n, time.Second)
		return d, d > 0
	}
	if d, err := time.ParseDuration(v); err == nil {
		return clamp(d), d > 0
	}
	d, ok := until(v, now)
	return d, ok && d > 0
}

// longest returns the longest of the values that read can read.
func longest(values []string, read func(string) (time.Duration, bool)) (time.Duration, bool) {
	most, found := time.Duration(0), false
	for _, v := range values {
		if d, ok := read(strings.TrimSpace(v)); ok {
			most, found = max(most, d), true
		}
	}
	return most, found
}

// amount reads a number of units.
func amount(v string, unit time.Duration) (time.Duration, bool) {
	n, ok := figure(v)
	return scale(n, unit), ok
}

// figure reads a decimal number and nothing else that ParseFloat takes for one.
func figure(v string) (float64, bool) {
	if v == "" || strings.Trim(v, "0123456789.+-eE") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil && !math.IsInf(n, 0) {
		return 0, false
	}
	return n, true
}

func scale(n float64, unit time.Duration) time.Duration {
	switch n *= float64(unit); {
	case n <= 0:
		return 0
	case n >= float64(MaxRetryAfter):
		return MaxRetryAfter
	}
	return time.Duration(n)
}

// until reads a date as HTTP has it, or as Anthropic does.
func until(v string, now time.Time) (time.Duration, bool) {
	t, err := http.ParseTime(v)
	if err != nil {
		t, err = time.Parse(time.RFC3339, v)
	}
	if err != nil {
		t, err = time.Parse(time.RFC1123Z, v)
	}
	if err != nil {
		return 0, false
	}
	return clamp(t.Sub(now)), true
}

func clamp(d time.Duration) time.Duration { return min(max(d, 0), MaxRetryAfter) }
