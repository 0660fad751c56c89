package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// when is a moment that was named: by itself, or from now.
type when struct {
	named, relative bool
	at              time.Time
	offset          time.Duration
}

func (w when) time(now time.Time) time.Time {
	if w.relative {
		return now.Add(w.offset)
	}
	return w.at
}

// parseSpan reads a duration: Go's, or with days and weeks.
func parseSpan(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	d, err := model.ParseDuration(s)
	return time.Duration(d), err
}

// parseStep reads a duration, or seconds.
func parseStep(s string) (time.Duration, error) {
	d, err := parseSpan(s)
	if err != nil {
		seconds, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || !(seconds < 1e9) {
			return 0, fmt.Errorf("%q is no duration, as 1m, and no seconds", s)
		}
		d = time.Duration(seconds * float64(time.Second))
	}
	if d < time.Millisecond {
		return 0, fmt.Errorf("%q is less than a millisecond", s)
	}
	return d, nil
}

// parseWhen reads a moment: RFC 3339, Unix seconds or nanoseconds, now, now-1h.
func parseWhen(s string) (when, error) {
	if s == "" {
		return when{}, nil
	}
	if rest, ok := strings.CutPrefix(s, "now"); ok {
		w := when{named: true, relative: true}
		if rest == "" {
			return w, nil
		}
		switch d, err := parseSpan(rest[1:]); {
		case err != nil || strings.ContainsAny(rest[1:], "+-"):
		case rest[0] == '-':
			w.offset = -d
			return w, nil
		case rest[0] == '+':
			w.offset = d
			return w, nil
		}
		return when{}, fmt.Errorf("%q: want now, now-1h or now-7d", s)
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return when{named: true, at: t}, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		switch digits := len(s); {
		case digits <= 10:
			return when{named: true, at: time.Unix(n, 0)}, nil
		case digits >= 18:
			return when{named: true, at: time.Unix(0, n)}, nil
		}
		return when{}, fmt.Errorf("%q is neither Unix seconds nor nanoseconds", s)
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && f < 1e10 {
		seconds, part := math.Modf(f)
		return when{named: true, at: time.Unix(int64(seconds), int64(part*1e9))}, nil
	}
	return when{}, fmt.Errorf("%q is no time: want 2006-01-02T15:04:05Z, Unix seconds or nanoseconds, or now-1h", s)
}
