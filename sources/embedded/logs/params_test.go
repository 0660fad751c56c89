package logs

import (
	"math"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestTimestamp(t *testing.T) {
	for v, want := range map[string]int64{
		"1795996500000000001":            1795996500000000001,
		"1795996500":                     1795996500e9,
		"1795996500.123":                 1795996500123e6,
		"1.5":                            1500e6,
		"-1":                             -1e9,
		"0":                              0,
		"2026-11-30T08:35:00Z":           1796027700e9,
		"2026-11-30T09:35:00+01:00":      1796027700e9,
		"2026-11-30T08:35:00.000000001Z": 1796027700e9 + 1,
	} {
		if got, err := timestamp(v); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", v, got, err, want)
		}
	}
	for _, v := range []string{"now", "2026-11-30", "2026-11-30T08:35:00", "1e400.0", "9999-01-01T00:00:00Z", "NaN.0", "99999999999999999999999999"} {
		if got, err := timestamp(v); err == nil {
			t.Errorf("%s is %d", v, got)
		}
	}
}

func TestDuration(t *testing.T) {
	for v, want := range map[string]time.Duration{
		"1h": time.Hour, "90s": 90 * time.Second, "1d12h": 36 * time.Hour, "500ms": 500 * time.Millisecond,
		"1w": 168 * time.Hour, "1y": 8760 * time.Hour, "0": 0, "0s": 0, "1h30m5s": time.Hour + 30*time.Minute + 5*time.Second,
	} {
		if got, err := duration(v); got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", v, got, err, want)
		}
	}
	for _, v := range []string{"", "1", "h", "1x", "-1h", "1m1h", "1h1h", "1.5h", "1h ", " 1h", "999999y", "99999999999999999999s"} {
		if got, err := duration(v); err == nil {
			t.Errorf("%q is %v", v, got)
		}
	}
}

func TestSpanOfARequest(t *testing.T) {
	now := time.Unix(1_796_000_000, 0)
	for query, want := range map[string][2]int64{
		"":                 {-3600, 0},
		"since=2h":         {-7200, 0},
		"end=1795990000":   {-10000 - 3600, -10000},
		"end=1796010000":   {-3600, 10000}, // since counts from now
		"start=1795990000": {-10000, 0},
		"start=1795990000&since=5m&end=1795995000": {-10000, -5000},
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		start, end, err := span(q, now, defaultSince)
		if err != nil || start != now.UnixNano()+want[0]*1e9 || end != now.UnixNano()+want[1]*1e9 {
			t.Errorf("%q: %d to %d, %v", query, start-now.UnixNano(), end-now.UnixNano(), err)
		}
	}
	for query, want := range map[string]string{
		"since=x": "could not parse 'since' parameter", "start=x": "could not parse 'start' parameter", "end=x": "could not parse 'end' parameter",
	} {
		q, _ := url.ParseQuery(query)
		if _, _, err := span(q, now, defaultSince); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", query, err)
		}
	}
}

func TestStep(t *testing.T) {
	const hour = int64(time.Hour)
	for v, want := range map[string]time.Duration{"": 14 * time.Second, "30": 30 * time.Second, "1m": time.Minute, "0.5": 500 * time.Millisecond} {
		if got, err := step(url.Values{"step": {v}}, 0, hour); got != want || err != nil {
			t.Errorf("%q: %v, %v", v, got, err)
		}
	}
	if got, err := step(url.Values{}, 0, 1); got != time.Second || err != nil {
		t.Errorf("the least step is %v, %v", got, err)
	}
	if _, err := step(url.Values{"step": {"1m"}}, math.MinInt64, math.MaxInt64); err == nil {
		t.Error("five hundred years of minutes are accepted")
	}
	for v, want := range map[string]string{
		"0": "zero or negative query resolution", "-1": "zero or negative query resolution", "x": `cannot parse "x" to a valid duration`,
		"1ms": "exceeded maximum resolution of 11,000 points", "NaN": "overflows", "1e300": "overflows",
	} {
		if _, err := step(url.Values{"step": {v}}, 0, hour); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", v, err)
		}
	}
}
