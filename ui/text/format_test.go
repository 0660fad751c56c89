package text

import (
	"math"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

func TestNumbers(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Percent(0), "0.0%"},
		{Percent(0.0001), "<0.1%"},
		{Percent(0.004), "0.4%"},
		{Percent(0.9999), ">99.9%"},
		{Percent(1), "100%"},
		{Rate(0), "0.0"},
		{Rate(0.001), "<0.1"},
		{Rate(408.3), "408.3"},
		{Rate(24700.4), "24 700"},
		{Seconds(0), "0.0s"},
		{Seconds(0.01), "<0.1s"},
		{Seconds(2.94), "2.9s"},
		{Seconds(123.4), "123s"},
		{Count(0), "0"},
		{Count(999), "999"},
		{Count(1234567), "1 234 567"},
		{Age(-time.Second), "0s"},
		{Age(time.Unix(1796000000, 0).Sub(time.Time{})), "??"},
		{Age(time.Time{}.Sub(time.Unix(1796000000, 0))), "??"},
		{Age(time.Unix(1796000000, 0).Sub(time.Unix(0, 0))), "??"},
		{Age(20 * 365 * 24 * time.Hour), "7300d"},
		{For(time.Time{}, true, time.Unix(1796000000, 0)), "??"},
		{Age(41 * time.Second), "41s"},
		{Age(3 * time.Minute), "3m"},
		{Age(2*time.Minute + 10*time.Second), "2m10s"},
		{Age(6*time.Minute + 2*time.Second), "6m02s"},
		{Age(24*time.Minute + 59*time.Second), "24m"},
		{Age(5*time.Hour + 2*time.Minute), "5h02m"},
		{Age(30 * time.Hour), "30h"},
		{Age(6*24*time.Hour + time.Hour), "6d"},
		{Number(api.Number{State: "value", Value: 0}, Percent), "0.0%"},
		{Number(api.Number{State: "idle"}, Percent), "idle"},
		{Number(api.Number{State: "value", Value: math.NaN()}, Percent), "idle"},
		{Number(api.Number{State: "none"}, Percent), "none"},
		{Number(api.Number{State: "value", Value: math.Inf(1)}, Percent), "??"},
		{Number(api.Number{}, Percent), "??"},
		{FirstOutput(&api.Upstream{RPS: api.Number{State: "value", Value: 3}, FirstOutputP95: api.Number{State: "idle"}}), NoStreams},
		{FirstOutput(&api.Upstream{RPS: api.Number{State: "value"}, FirstOutputP95: api.Number{State: "idle"}}), "idle"},
		{FirstOutput(&api.Upstream{RPS: api.Number{State: "idle"}, FirstOutputP95: api.Number{State: "idle"}}), "idle"},
		{Live(&api.Upstream{Live: api.Number{State: "none"}}), "spare"},
		{Live(&api.Upstream{PrimaryOf: []string{"sonnet"}, Live: api.Number{State: "idle"}}), "idle"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestClock(t *testing.T) {
	now := time.Date(2026, 11, 30, 4, 12, 31, 0, time.FixedZone("", 2*3600))
	for _, tt := range []struct {
		t    time.Time
		want string
	}{
		{now, "02:12:31Z"},
		{now.Add(-3 * time.Hour), "2026-11-29 23:12:31Z"},
		{now.Add(-365 * 24 * time.Hour), "2025-11-30 02:12:31Z"},
		{time.Time{}, "never"},
	} {
		if got := Clock(tt.t, now); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestBreaker(t *testing.T) {
	now := time.Date(2026, 11, 30, 4, 12, 31, 0, time.UTC)
	for _, tt := range []struct {
		b           api.Breaker
		long, short string
		severity    int
	}{
		{api.Breaker{State: "closed"}, "CLOSED", "CLOSED", 0},
		{api.Breaker{State: "closed", AdmittedRPS: 12}, "CLOSED max 12.0/s (429)", "CLOSED", 0},
		{api.Breaker{State: "open", NextProbeAt: now.Add(18 * time.Second)}, "OPEN try in 18s", "OPEN 18s", 3},
		{api.Breaker{State: "open", NextProbeAt: now.Add(17100 * time.Millisecond)}, "OPEN try in 18s", "OPEN 18s", 3},
		{api.Breaker{State: "open", NextProbeAt: now.Add(-time.Hour), ProbeDue: true}, "OPEN probe due, no traffic", "OPEN due", 3},
		{api.Breaker{State: "half_open", Probes: 1}, "HALF 0/1 ok", "HALF 0/1", 2},
		{api.Breaker{State: "ramping", RampLimit: 4}, "RAMP 4 at once", "RAMP 4", 1},
		{api.Breaker{State: "open", Mode: "shadow"}, "SHADOW OPEN", "S-OPEN", 1},
		{api.Breaker{State: "closed", Forced: "open", ForcedUntil: now.Add(time.Hour)}, "FORCED OPEN 1h", "F-OPEN", 3},
		{api.Breaker{State: "open", Forced: "closed", ForcedUntil: now.Add(time.Minute)}, "FORCED CLOSED 1m", "F-CLOSED", 0},
		{api.Breaker{State: "melted\x1b"}, `MELTED\x1b`, `MELTED\x1b`, 3},
		{api.Breaker{}, "??", "??", 3},
	} {
		if got := Breaker(&tt.b, now); got != tt.long {
			t.Errorf("%+v: %q, want %q", tt.b, got, tt.long)
		}
		if got := BreakerShort(&tt.b, now); got != tt.short {
			t.Errorf("%+v: short %q, want %q", tt.b, got, tt.short)
		}
		if got := Severity(&tt.b); got != tt.severity {
			t.Errorf("%+v: severity %d, want %d", tt.b, got, tt.severity)
		}
	}
	if w := Worst([]api.Breaker{{State: "closed", Bucket: "a"}, {State: "open", Bucket: "b"}, {State: "open", Bucket: "c"}}); w.Bucket != "b" {
		t.Errorf("worst is %s", w.Bucket)
	}
	if Worst(nil) != nil {
		t.Error("a worst of none")
	}
}
