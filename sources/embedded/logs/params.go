package logs

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"failback/sources/logql"
)

// What a request that does not say gets, and what none gets more of: Loki's
// own defaults.
const (
	defaultSince = time.Hour
	defaultLimit = 100
	maxLimit     = 5000
	maxPoints    = 11000
	// labelsSince is how far back the labels and series of a request go.
	labelsSince = 6 * time.Hour
)

// badParam is what is wrong with a request's parameters.
type badParam struct{ text string }

func (e *badParam) Error() string { return e.text }

func badf(format string, args ...any) error { return &badParam{fmt.Sprintf(format, args...)} }

// span returns the time a request asks for, in ns since 1970.
func span(q url.Values, now time.Time, since time.Duration) (start, end int64, err error) {
	if v := q.Get("since"); v != "" {
		if since, err = duration(v); err != nil {
			return 0, 0, badf("could not parse 'since' parameter: %v", err)
		}
	}
	end = now.UnixNano()
	if v := q.Get("end"); v != "" {
		if end, err = timestamp(v); err != nil {
			return 0, 0, badf("could not parse 'end' parameter: %v", err)
		}
	}
	start = min(end, now.UnixNano()) - int64(since)
	if v := q.Get("start"); v != "" {
		if start, err = timestamp(v); err != nil {
			return 0, 0, badf("could not parse 'start' parameter: %v", err)
		}
	}
	return start, end, nil
}

// timestamp reads a time as Loki does: seconds with a fraction, seconds of up
// to ten digits, nanoseconds, or RFC 3339.
func timestamp(v string) (int64, error) {
	if strings.Contains(v, ".") {
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			s, frac := math.Modf(f)
			if math.IsNaN(f) || math.Abs(f) > math.MaxInt64/1e9 {
				return 0, fmt.Errorf("%q is out of range", v)
			}
			return int64(s)*int64(time.Second) + int64(math.Round(frac*1000))*int64(time.Millisecond), nil
		}
	}
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		if len(v) <= 10 {
			return n * int64(time.Second), nil
		}
		return n, nil
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		return 0, fmt.Errorf("%q is neither nanoseconds, seconds nor RFC 3339", v)
	}
	if t.Year() < 1679 || t.Year() > 2261 {
		return 0, fmt.Errorf("%q is out of range", v)
	}
	return t.UnixNano(), nil
}

// duration reads a duration as Prometheus writes it: 1d12h, 90s, 500ms.
func duration(v string) (time.Duration, error) {
	units := map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
		"d": 24 * time.Hour, "w": 7 * 24 * time.Hour, "y": 365 * 24 * time.Hour,
	}
	if v == "0" {
		return 0, nil
	}
	var sum float64
	last := time.Duration(math.MaxInt64)
	for rest := v; rest != "" || v == ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		letters := len(rest) - digits - len(strings.TrimLeft(rest[digits:], "msh dwy"))
		unit, ok := units[rest[digits:digits+letters]]
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if !ok || err != nil || unit >= last {
			return 0, fmt.Errorf("not a valid duration string: %q", v)
		}
		sum, last, rest = sum+float64(n)*float64(unit), unit, rest[digits+letters:]
	}
	if sum > math.MaxInt64 {
		return 0, fmt.Errorf("duration out of range: %q", v)
	}
	return time.Duration(sum), nil
}

// seconds reads a step or an interval: a number of seconds or a duration.
func seconds(v string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(v, 64); err == nil {
		ns := f * float64(time.Second)
		if math.IsNaN(ns) || math.Abs(ns) > math.MaxInt64/2 {
			return 0, badf("cannot parse %q to a valid duration. It overflows int64", v)
		}
		return time.Duration(ns), nil
	}
	d, err := duration(v)
	if err != nil {
		return 0, badf("cannot parse %q to a valid duration", v)
	}
	return d, nil
}

// step returns the step of a range query.
func step(q url.Values, start, end int64) (time.Duration, error) {
	length := float64(end) - float64(start) // may be more than an int64 holds
	d := logql.DefaultStep(start, end)
	if v := q.Get("step"); v != "" {
		var err error
		if d, err = seconds(v); err != nil {
			return 0, err
		}
	}
	if d <= 0 {
		return 0, badf("zero or negative query resolution step widths are not accepted. Try a positive integer")
	}
	if length/float64(d) > maxPoints {
		return 0, badf("exceeded maximum resolution of 11,000 points per time series. Try increasing the value of the step parameter")
	}
	return d, nil
}

// limit returns how many lines are asked for.
func limit(q url.Values) (int, error) {
	v := q.Get("limit")
	if v == "" {
		return defaultLimit, nil
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		return 0, badf("%v", err)
	}
	if n <= 0 {
		return 0, badf("limit must be a positive value")
	}
	return int(n), nil
}

// forward reports whether the oldest lines are asked for first.
func forward(q url.Values) (bool, error) {
	switch v := q.Get("direction"); strings.ToLower(v) {
	case "", "backward":
		return false, nil
	case "forward":
		return true, nil
	default:
		return false, badf("invalid direction '%s'", v)
	}
}

// sharded refuses to answer a part of a question, which a Loki asks another for.
func sharded(q url.Values) error {
	for _, v := range q["shards"] {
		if v != "" {
			return badf("the parameter shards is not supported here")
		}
	}
	return nil
}
