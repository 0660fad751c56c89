package sources

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// When is a moment as somebody wrote it. The zero value names none.
type When struct {
	text     string
	relative bool
	offset   time.Duration // of a relative one, from now
	at       time.Time     // of one that names its zone
	// Of one that does not: date and time of day by the clocks of loc; without a
	// date it is of today.
	loc   *time.Location
	local time.Time // read as UTC
	today bool
	zone  *time.Location // of a time of day that names its zone
}

// Named reports whether there is a moment at all.
func (w When) Named() bool { return w.text != "" }

// ParseWhen reads a moment: now, -1h or now-1h; Unix seconds or nanoseconds; or
// a date, a time of day or both, as 2006-01-02, 15:04 and 2006-01-02 15:04:05. A
// Z or an offset behind that says the zone, else it is by the clocks of loc. An
// empty text names none.
func ParseWhen(s string, loc *time.Location) (When, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return When{}, nil
	}
	w := When{text: s, loc: loc}
	wrong := fmt.Errorf("%q is no time: want 2006-01-02T15:04:05Z, 2006-01-02 15:04, 15:04, Unix seconds or nanoseconds, now or -1h", s)
	if rest, ok := strings.CutPrefix(s, "now"); ok || s[0] == '-' {
		if !ok {
			rest = s
		}
		w.relative = true
		if rest == "" {
			return w, nil
		}
		switch d, err := ParseSpan(rest[1:]); {
		case err != nil || strings.ContainsAny(rest[1:], "+-"):
		case rest[0] == '-':
			w.offset = -d
			return w, nil
		case rest[0] == '+':
			w.offset = d
			return w, nil
		}
		return When{}, fmt.Errorf("%q: want now, -1h, now-1h or now-7d", s)
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		switch digits := len(s); {
		case digits <= 10:
			w.at = time.Unix(n, 0)
			return w, nil
		case digits >= 18:
			w.at = time.Unix(0, n)
			return w, nil
		}
		return When{}, fmt.Errorf("%q is neither Unix seconds nor nanoseconds", s)
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && f < 1e10 {
		seconds, part := math.Modf(f)
		w.at = time.Unix(int64(seconds), int64(part*1e9))
		return w, nil
	}
	// A day and a time of day stand apart by a T or spaces, the zone by nothing or
	// spaces.
	text := strings.Join(strings.Fields(s), " ")
	if len(text) > 10 && (text[10] == 'T' || text[10] == 't') {
		text = text[:10] + " " + text[11:]
	}
	for _, day := range []string{"2006-01-02 ", ""} {
		for _, clock := range []string{"15:04:05", "15:04"} {
			for _, zone := range []string{"Z07:00", " Z07:00", "Z0700", ""} {
				t, err := time.Parse(day+clock+zone, strings.ToUpper(text))
				switch {
				case err != nil:
					continue
				case zone != "" && day != "":
					w.at = t
				case zone != "":
					w.today, w.local, w.zone = true, t, t.Location()
				default:
					w.today, w.local = day == "", t
				}
				return w, nil
			}
		}
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		w.local = t
		return w, nil
	}
	return When{}, wrong
}

// ParseSpan reads a duration: Go's, or with days and weeks.
func ParseSpan(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	d, err := model.ParseDuration(s)
	return time.Duration(d), err
}

// Time is the moment; now is what it is relative to. note, if not empty, says
// how a time without a zone was understood, and odd reports that
// the clocks show it never or twice.
func (w When) Time(now time.Time) (t time.Time, note string, odd bool) {
	switch {
	case w.text == "":
		return time.Time{}, "", false
	case w.relative:
		return now.Add(w.offset), "", false
	case !w.at.IsZero():
		return w.at, "", false
	case w.zone != nil:
		y, m, d := now.In(w.zone).Date()
		h, mi, s := w.local.Clock()
		return time.Date(y, m, d, h, mi, s, w.local.Nanosecond(), w.zone), "", false
	}
	wall := w.local
	if w.today {
		y, m, d := now.In(w.loc).Date()
		h, mi, s := wall.Clock()
		wall = time.Date(y, m, d, h, mi, s, wall.Nanosecond(), time.UTC)
	}
	return localTime(wall, w.loc)
}

// localTime is when the clocks of loc show wall, which is read as UTC.
func localTime(wall time.Time, loc *time.Location) (t time.Time, note string, odd bool) {
	offset := func(at time.Time) time.Duration {
		_, seconds := at.In(loc).Zone()
		return time.Duration(seconds) * time.Second
	}
	before := wall.Add(-offset(wall.Add(-24 * time.Hour))).In(loc)
	after := wall.Add(-offset(wall.Add(24 * time.Hour))).In(loc)
	shows := func(t time.Time) bool {
		_, seconds := t.Zone()
		return t.Add(time.Duration(seconds) * time.Second).Equal(wall)
	}
	text := wall.Format("2006-01-02 15:04")
	switch {
	case shows(before) && shows(after) && !before.Equal(after):
		return before, fmt.Sprintf("%s comes twice, as the clocks are set back: %s and %s; the first is taken, an offset behind it chooses",
			text, zoned(before), zoned(after)), true
	case shows(before):
		return before, zoned(before), false
	case shows(after):
		return after, zoned(after), false
	}
	return before, fmt.Sprintf("%s does not exist, as the clocks are set forward: %s is taken", text, zoned(before)), true
}

// zoned is a time by the clocks of its zone, and in UTC.
func zoned(t time.Time) string {
	return t.Format("2006-01-02 15:04:05 MST (UTC-07:00)") + ", " + t.UTC().Format("2006-01-02 15:04:05Z")
}

// ZoneText names what the clocks of loc show at a time, as in "EDT (UTC-04:00)".
func ZoneText(loc *time.Location, at time.Time) string {
	return at.In(loc).Format("MST (UTC-07:00)")
}
