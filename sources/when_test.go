package sources

import (
	"strings"
	"testing"
	"time"
)

func TestParseWhen(t *testing.T) {
	now := time.Date(2026, 11, 30, 4, 12, 31, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"now": now, "now-1h": now.Add(-time.Hour), "-1h": now.Add(-time.Hour), "now-7d": now.Add(-7 * 24 * time.Hour), "now-1h30m": now.Add(-90 * time.Minute), "now+5m": now.Add(5 * time.Minute),
		"2026-11-30T04:12:31Z": now, "2026-11-30T06:12:31.5+02:00": now.Add(500 * time.Millisecond), "2026-11-30 04:12:31z": now, " 2026-11-30  04:12:31  Z ": now,
		"1796011951": now, "1796011951000000000": now, "1796011951.5": now.Add(500 * time.Millisecond), "0": time.Unix(0, 0),
		"2026-11-30T04:12:31.691766820Z": now.Add(691766820),
	} {
		w, err := ParseWhen(s, time.UTC)
		got, note, odd := w.Time(now)
		if err != nil || !w.Named() || !got.Equal(want) || note != "" || odd {
			t.Errorf("%s: %s %q, %v, want %s", s, got, note, err, want)
		}
	}
	for _, s := range []string{"yesterday", "now-", "now1h", "now--1h", "--1h", "1h", "-5", "-", "12345678901234", "NaN", "Inf", "1e99", "25:00", "2026-02-30", "2026-11-30T", "14:00 EST", "Z"} {
		if w, err := ParseWhen(s, time.UTC); err == nil {
			t.Errorf("%s: %+v", s, w)
		}
	}
	if w, err := ParseWhen("", time.UTC); err != nil || w.Named() {
		t.Errorf("nothing: %+v, %v", w, err)
	}
}

func TestLQL09TimesAreReadInAZoneThatIsSaid(t *testing.T) {
	york, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Skip("requires the time zone database")
	}
	at := func(s string) time.Time {
		t.Helper()
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	now := at("2026-07-04T20:30:00Z") // 16:30 EDT
	for _, c := range []struct {
		text, want string
		notes      []string // all in the note; none: no note
		odd        bool
	}{
		{"2026-03-08 02:30", "2026-03-08T07:30:00Z", []string{"2026-03-08 02:30 does not exist", "03:30:00 EDT (UTC-04:00)", "2026-03-08 07:30:00Z"}, true},
		{"2026-11-01 01:30", "2026-11-01T05:30:00Z", []string{"comes twice", "01:30:00 EDT (UTC-04:00)", "05:30:00Z", "01:30:00 EST (UTC-05:00)", "06:30:00Z", "the first is taken"}, true},
		{"2026-11-01 01:30-05:00", "2026-11-01T06:30:00Z", nil, false},
		{"2026-11-01 00:59", "2026-11-01T04:59:00Z", []string{"EDT"}, false},
		{"2026-11-01 02:00", "2026-11-01T07:00:00Z", []string{"EST"}, false},
		{"2026-03-08 01:59", "2026-03-08T06:59:00Z", []string{"EST"}, false},
		{"2026-03-08 03:00", "2026-03-08T07:00:00Z", []string{"EDT"}, false},
		{"14:00", "2026-07-04T18:00:00Z", []string{"2026-07-04 14:00:00 EDT (UTC-04:00), 2026-07-04 18:00:00Z"}, false},
		{"14:00Z", "2026-07-04T14:00:00Z", nil, false},
		{"14:00+02:00", "2026-07-04T12:00:00Z", nil, false},
		{"2026-01-05", "2026-01-05T05:00:00Z", []string{"EST (UTC-05:00)"}, false},
		{"2026-03-08T02:30", "2026-03-08T07:30:00Z", []string{"does not exist"}, true},
		{"2026-03-08T02:30Z", "2026-03-08T02:30:00Z", nil, false},
		{"-1h", "2026-07-04T19:30:00Z", nil, false},
		{"now", "2026-07-04T20:30:00Z", nil, false},
	} {
		t.Run("LQL-09 "+c.text, func(t *testing.T) {
			w, err := ParseWhen(c.text, york)
			if err != nil {
				t.Fatal(err)
			}
			got, note, odd := w.Time(now)
			if !got.Equal(at(c.want)) || odd != c.odd || (note == "") != (c.notes == nil) {
				t.Errorf("%s, %q, odd %t", got.UTC(), note, odd)
			}
			for _, n := range c.notes {
				if !strings.Contains(note, n) {
					t.Errorf("no %q in %q", n, note)
				}
			}
		})
	}
	// Near midnight the day is that of the zone.
	w, _ := ParseWhen("23:00", york)
	if got, _, _ := w.Time(at("2026-07-05T02:00:00Z")); !got.Equal(at("2026-07-05T03:00:00Z")) {
		t.Errorf("23:00 is %s", got.UTC())
	}
	if z := ZoneText(york, now); z != "EDT (UTC-04:00)" {
		t.Errorf("zone %s", z)
	}
}
