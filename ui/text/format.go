package text

import (
	"math"
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
)

// Percent writes a ratio. Only a real zero is 0.0% and only a real one 100%.
func Percent(ratio float64) string {
	switch {
	case ratio == 0:
		return "0.0%"
	case ratio == 1:
		return "100%"
	case ratio > 0 && ratio < 0.0005:
		return "<0.1%"
	case ratio > 0.9995 && ratio < 1:
		return ">99.9%"
	}
	return strconv.FormatFloat(ratio*100, 'f', 1, 64) + "%"
}

// Rate writes something a second, without a unit.
func Rate(v float64) string {
	switch {
	case v > 0 && v < 0.05:
		return "<0.1"
	case math.Abs(v) >= 999.95:
		return Count(uint64(math.Round(math.Abs(v))))
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// Seconds writes a duration given in seconds.
func Seconds(v float64) string {
	switch {
	case v > 0 && v < 0.05:
		return "<0.1s"
	case v >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64) + "s"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + "s"
}

// Over writes that a number is over what is written of it: > 60.0s.
func Over(written string) string { return "> " + written }

// Count writes n with its thousands apart: 24 700.
func Count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, c := range []byte(s) {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(' ')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// Counted writes n of what one of is called one: 1 line, 24 700 lines.
func Counted[N int | int64 | uint64](n N, one string) string {
	noun := one
	if n != 1 {
		noun = plural(one)
	}
	return Count(uint64(max(n, 0))) + " " + noun
}

// plural is the form of a noun for any number but one.
func plural(one string) string {
	n := len(one)
	if n > 1 && one[n-1] == 'y' && !strings.ContainsRune("aeiou", rune(one[n-2])) {
		return one[:n-1] + "ies"
	}
	return one + "s"
}

// noAge is what only the span to an absent time reaches, that to the beginning of
// the Unix clock too.
const noAge = 50 * 365 * 24 * time.Hour

// Age writes a span as people say it, in at most six characters or so: 41s,
// 2m10s, 24m, 5h12m, 6d. A negative one is 0s. One of fifty years or more, either
// way, is none: a time that it was taken from is absent, and it is ??.
func Age(d time.Duration) string {
	if d >= noAge || d <= -noAge {
		return "??"
	}
	s := int64(max(d, 0) / time.Second)
	m, h := s/60, s/3600
	switch {
	case s < 60:
		return strconv.FormatInt(s, 10) + "s"
	case s < 600 && s%60 != 0:
		return strconv.FormatInt(m, 10) + "m" + pad2(s%60) + "s"
	case h < 1:
		return strconv.FormatInt(m, 10) + "m"
	case h < 48 && m%60 != 0:
		return strconv.FormatInt(h, 10) + "h" + pad2(m%60) + "m"
	case h < 48:
		return strconv.FormatInt(h, 10) + "h"
	}
	return strconv.FormatInt(h/24, 10) + "d"
}

func pad2(v int64) string {
	if v < 10 {
		return "0" + strconv.FormatInt(v, 10)
	}
	return strconv.FormatInt(v, 10)
}

// Clock writes the time of day of t in UTC, with its date if that is not now's.
func Clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.IsZero() {
		return "never"
	}
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		return t.Format("2006-01-02 15:04:05Z")
	}
	return t.Format("15:04:05Z")
}

// Number writes a number of the operator API with format, or the word for its
// state. A state this program does not know is ??.
func Number(n api.Number, format func(float64) string) string {
	switch {
	case n.State == api.StateIdle, n.State == api.StateValue && math.IsNaN(n.Value):
		return "idle"
	case n.State == api.StateNone:
		return "none"
	case n.State == api.StateValue && !math.IsInf(n.Value, 0):
		return format(n.Value)
	}
	return "??"
}

// NoStreams is said of first output where there were answers and no streams.
const NoStreams = "no streams"

// FirstOutput writes the first output p95 of an upstream.
func FirstOutput(u *api.Upstream) string {
	if u.FirstOutputP95.State == api.StateIdle && u.RPS.State == api.StateValue && u.RPS.Value > 0 {
		return NoStreams
	}
	return Number(u.FirstOutputP95, Seconds)
}

// Live writes the part of its own traffic that an upstream answered: spare if
// it is primary of nothing.
func Live(u *api.Upstream) string {
	if len(u.PrimaryOf) == 0 && u.Live.State != api.StateValue {
		return "spare"
	}
	return Number(u.Live, Percent)
}
