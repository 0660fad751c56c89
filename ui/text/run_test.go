package text_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/ui/text"
)

var six = time.Date(2026, 11, 30, 18, 40, 0, 0, time.UTC)

// log makes events of short words, the oldest first, a second apart, and returns
// them as lists of changes have them. "a text open>half_open" is of a bucket, "!"
// loses one, anything else is another event.
func log(words ...string) []api.Event {
	var es []api.Event
	seq := uint64(0)
	for _, w := range words {
		seq++
		if w == "!" {
			continue
		}
		e := api.Event{Seq: seq, Time: six.Add(time.Duration(seq) * time.Second), Event: w, By: "auto"}
		if f := strings.Fields(w); len(f) > 2 {
			e.Event, e.Provider, e.Capability = api.KindBreaker, f[0], f[1]
			e.From, e.To, _ = strings.Cut(f[2], ">")
			if len(f) > 3 {
				e.By = f[3]
			}
			if e.To == "open" {
				e.Reason, e.Detail = "probe_failed", fmt.Sprintf("1/1 probes failed (%d)", 500+seq)
			}
		}
		es = append(es, e)
	}
	slices.Reverse(es)
	return es
}

func times(n int, words ...string) []string { return slices.Repeat(words, n) }

func TestFold(t *testing.T) {
	const (
		half, fail     = "a text open>half_open", "a text half_open>open"
		halfB, failB   = "b text open>half_open", "b text half_open>open"
		opens, ramps   = "a text closed>open", "a text half_open>ramping"
		closes, relaps = "a text ramping>closed", "a text ramping>open"
	)
	for _, tc := range []struct {
		name  string
		words []string
		want  []string // of each row
	}{
		{"nothing", nil, nil},
		{"one try is told as it was", []string{opens, half, fail}, []string{
			"a text HALF > OPEN  1/1 probes failed (503)", "a text OPEN > HALF", "a text CLOSED > OPEN  1/1 probes failed (501)",
		}},
		{"still open", slices.Concat([]string{opens}, times(36, half, fail)), []string{
			"a text still OPEN, 36 tries failed since 18:40:02Z  573", "a text CLOSED > OPEN  1/1 probes failed (501)",
		}},
		{"it tries now", slices.Concat([]string{opens}, times(2, half, fail), []string{half}), []string{
			"a text again HALF, 2 tries failed since 18:40:02Z  505", "a text CLOSED > OPEN  1/1 probes failed (501)",
		}},
		{"what ends it is told, and the try that did", slices.Concat([]string{opens}, times(3, half, fail), []string{half, ramps, closes}), []string{
			"a text RAMP > CLOSED", "a text HALF > RAMP", "a text OPEN > HALF", "a text stayed OPEN, 3 tries failed since 18:40:02Z  507", "a text CLOSED > OPEN  1/1 probes failed (501)",
		}},
		{"what opens it again begins anew", slices.Concat([]string{opens}, times(2, half, fail), []string{half, ramps, relaps}, times(2, half, fail)), []string{
			"a text still OPEN, 2 tries failed since 18:40:09Z  512", "a text RAMP > OPEN  1/1 probes failed (508)", "a text HALF > RAMP", "a text OPEN > HALF",
			"a text stayed OPEN, 2 tries failed since 18:40:02Z  505", "a text CLOSED > OPEN  1/1 probes failed (501)",
		}},
		{"several at once, and what else happens", slices.Concat([]string{opens, "b text closed>open"}, times(2, half, halfB, fail, failB), []string{"reload"}, []string{half, halfB, fail}), []string{
			"a text still OPEN, 3 tries failed since 18:40:03Z  514", "b text again HALF, 2 tries failed since 18:40:04Z  510", "reload",
			"b text CLOSED > OPEN  1/1 probes failed (502)", "a text CLOSED > OPEN  1/1 probes failed (501)",
		}},
		{"forced by a person", slices.Concat([]string{opens}, times(2, half, fail), []string{"a text half_open>open ana"}, times(2, half, fail)), []string{
			"a text still OPEN, 2 tries failed since 18:40:07Z  510", "a text HALF > OPEN  1/1 probes failed (506)", "a text stayed OPEN, 2 tries failed since 18:40:02Z  505", "a text CLOSED > OPEN  1/1 probes failed (501)",
		}},
		{"its beginning is not kept", times(2, half, fail), []string{"a text still OPEN, at least 2 tries failed since 18:40:01Z  504"}},
		{"some were lost", slices.Concat([]string{opens}, times(2, half, fail), []string{"!", "!"}, times(3, half, fail)), []string{
			"a text still OPEN, at least 3 tries failed since 18:40:08Z  513", "a text stayed OPEN, 2 tries failed since 18:40:02Z  505", "a text CLOSED > OPEN  1/1 probes failed (501)",
		}},
		{"lost amid a try", slices.Concat([]string{opens}, times(2, half, fail), []string{half, "!"}, times(2, half, fail)), []string{
			"a text still OPEN, at least 2 tries failed since 18:40:08Z  511", "a text OPEN > HALF", "a text stayed OPEN, 2 tries failed since 18:40:02Z  505", "a text CLOSED > OPEN  1/1 probes failed (501)",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			es := log(tc.words...)
			var got []string
			stands := 0
			for _, r := range text.Fold(es) {
				got = append(got, strings.TrimSuffix(r.Change(r.Provider, six, false), "  "))
				stands += max(len(r.Folded), 1)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tc.want, "\n  "))
			}
			if stands != len(es) {
				t.Errorf("the rows stand for %d changes of %d", stands, len(es))
			}
		})
	}
}

// Where the gateway began to count anew, nothing is folded across.
func TestFoldAcrossRestart(t *testing.T) {
	older := log(slices.Concat([]string{"a text closed>open"}, times(3, "a text open>half_open", "a text half_open>open"))...)
	newer := log(times(2, "a text open>half_open", "a text half_open>open")...)
	rows := text.Fold(slices.Concat(newer, older))
	if len(rows) != 3 || rows[0].Failed != 2 || !rows[0].Least || !rows[0].Going || rows[1].Failed != 3 || rows[1].Least || rows[1].Going {
		t.Errorf("%+v", rows)
	}
}

func TestCounted(t *testing.T) {
	for n, want := range map[int]string{0: "0 entries", 1: "1 entry", 2: "2 entries", 24700: "24 700 entries"} {
		if got := text.Counted(n, "entry"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := text.Counted(uint64(2), "key") + text.Counted(1, "try"); got != "2 keys1 try" {
		t.Error(got)
	}
}
