package text_test

import (
	"strings"
	"testing"
	"time"

	"failback/sources"
	"failback/ui/text"
)

func TestLogWindow(t *testing.T) {
	for query, want := range map[string]time.Duration{
		`{a="b"}`:                           0,
		`sum(count_over_time({a="b"}[5m]))`: 5 * time.Minute,
		`count_over_time({a="b"} |= "[1s]" [1h30m]) / rate({a="b"} |= ` + "`[2s]`" + ` [ 1d ])`: 90 * time.Minute,
		`rate({a="b"}[1w2d3h])`:   (9*24 + 3) * time.Hour,
		`rate({a="b"}[nonsense])`: 0,
	} {
		if got := text.LogWindow(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

func TestLogShape(t *testing.T) {
	end := time.Unix(1_800_000_000, 0)
	q := func(query string, instant bool, step time.Duration) sources.LogQuery {
		return sources.LogQuery{Query: query, Start: end.Add(-time.Hour), End: end, Instant: instant, Step: step, Limit: 100}
	}
	for _, tc := range []struct {
		q           sources.LogQuery
		shape, note string
	}{
		{q(`sum(count_over_time({a="b"}[1h]))`, true, 0), "one number for all of it", ""},
		{q(`sum(count_over_time({a="b"}[5m]))`, true, 0), "one number, of its last 5m alone", ""},
		{q(`sum(count_over_time({a="b"}[5m]))`, false, 2*time.Minute), "a number every 2m, newest first", ""},
		{q(`sum(count_over_time({a="b"}[1m]))`, false, 2*time.Minute), "a number every 2m, newest first", "a number every 2m looks back 1m: what lies between is in none of them"},
		{q(`{a="b"}`, false, 0), "newest first, limit 100", ""},
	} {
		if got := text.LogShape(tc.q); got != tc.shape {
			t.Errorf("%s: %q, want %q", tc.q.Query, got, tc.shape)
		}
		a := &sources.LogAnswer{Query: tc.q, SearchedBytes: -1, Unparsed: -1, Rows: []sources.LogRow{{}}}
		if got := strings.Join(text.LogNotes(a), "|"); got != tc.note {
			t.Errorf("%s: %q, want %q", tc.q.Query, got, tc.note)
		}
	}
}

// A point of the last, begun step is as new as the question, not newer.
func TestLogPointsEndNow(t *testing.T) {
	end := time.Date(2026, 11, 30, 4, 12, 31, 0, time.UTC)
	a := &sources.LogAnswer{
		Kind: sources.LogMatrix, Query: sources.LogQuery{Start: end.Add(-time.Hour), End: end, Step: 10 * time.Minute},
		Series: []sources.LogSeries{{Points: []sources.LogPoint{{At: end.Add(-2*time.Minute - 31*time.Second), Value: 1}, {At: end.Add(7*time.Minute + 29*time.Second), Value: 2}}}},
	}
	_, rows := text.LogTable(a)
	if rows[0][0] != "2026-11-30T04:12:31.000Z" || rows[0][1] != "2" || rows[1][0] != "2026-11-30T04:10:00.000Z" {
		t.Errorf("%v", rows)
	}
}

func TestLogWayOn(t *testing.T) {
	for _, tc := range []struct{ name, target, want string }{
		{"by-reason", "/var/log/decisions.jsonl", "failback query by-reason --file /var/log/decisions.jsonl"},
		{"", "/var/log/decisions.jsonl", "failback query --logql '...' --file /var/log/decisions.jsonl"},
		{"by-reason", "stdout", "failback query by-reason --file FILE"},
	} {
		if says, got := text.LogWayOn(tc.name, tc.target); got != tc.want || says == "" {
			t.Errorf("%+v: %q", tc, got)
		}
	}
	if _, got := text.LogWayOn("by-reason", ""); got != "" {
		t.Errorf("without a target: %q", got)
	}
}
