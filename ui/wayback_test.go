package ui

import (
	"slices"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// However long the reason is why no step is to be taken, the choice of steps stays
// beside it, and it is whole where there is room; where there is none, it ends behind
// a word, and still says the cause.
func TestTheWayBackIsWhole(t *testing.T) {
	const steps = "[ 0% ] 5% 25% 75% 100%"
	reasons := []string{
		"breaker is OPEN, next probe in 18s",
		"the last two probes passed for 1 of 3; text of claude-sonnet-4-5: first_output_timeout",
		"evidence no_data: not enough yet for requests, success, first output, new classes, capacity of others; enough in about 14 min",
	}
	for _, size := range [][2]int{{100, 30}, {120, 40}, {80, 24}, {60, 20}, {80, 13}, {40, 12}} {
		w, h := size[0], size[1]
		for _, why := range reasons {
			inSituation(t, "incident", w, h, func(t *testing.T, m *model) {
				table := func() []string { return strings.SplitAfter(screenOf(m), " BACK TO ")[:1] }
				before := table()
				s := incidentState()
				s.Upstreams[0].NextStep = api.NextStep{Share: 5, BlockedBy: why}
				give(m, s, incidentEvents(), decisionsOf("breaker_open"))
				screen := screenOf(m)
				_, way, _ := strings.Cut(screen, " BACK TO ")
				rows := strings.Split(way, "\n")[:wayMost]
				close := func(s string) string { return strings.Join(strings.Fields(s), "") }
				if (h >= 24 || h >= 20 && why == reasons[0]) && (!strings.Contains(rows[0], steps) || !strings.Contains(close(strings.Join(rows, "")), close("not now: "+why))) {
					t.Errorf("%dx%d: %q\n%s", w, h, why, screen)
				}
				if w >= 80 && !strings.Contains(rows[0], steps) {
					t.Errorf("%dx%d: the steps are gone\n%s", w, h, screen)
				}
				if _, cut, _ := strings.Cut(rows[0], "not now: "); h < 20 && cut != "" {
					begin, marked := strings.CutSuffix(strings.TrimRight(cut, " "), m.gl.cut)
					rest, ok := strings.CutPrefix(why, begin)
					if !ok || begin == "" || marked == (rest == "") || rest != "" && !strings.ContainsAny(rest[:1], " ,;:") {
						t.Errorf("%dx%d: %q of %q", w, h, cut, why)
					}
				} else if h < 20 {
					t.Errorf("%dx%d: no reason\n%s", w, h, screen)
				}
				if w >= 80 && h >= 24 && !slices.Equal(before, table()) {
					t.Errorf("%dx%d: what is above moved\n%s", w, h, screen)
				}
			})
		}
	}
}

func TestCutWords(t *testing.T) {
	for s, want := range map[string]string{
		"breaker is OPEN":                    "breaker is OPEN",
		"breaker is OPEN, next probe in 18s": "breaker is OPEN…",
		"breaker is HALF-OPEN":               "breaker is…",
		"averylongwordwithoutanend":          "averylongwordwit…",
	} {
		if got := cutWords(s, 17, "…"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
