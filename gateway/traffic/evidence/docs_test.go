package evidence

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docs/failback.md states the numbers that are in force.
func TestDocsStateTheNumbers(t *testing.T) {
	doc := read(t, "failback.md")
	want := []string{
		fmt.Sprintf("| confidence of a pass, over the whole step | %s |", percent(confidence)),
		fmt.Sprintf("| confidence of a fail, over the whole step, both ratios together | %s |", percent(confidence)),
		fmt.Sprintf("| failures (or slow answers) below which no ratio fails | %d |", fewestFailures),
		fmt.Sprintf("| a new class counts from | %d requests and %s |", newClassRequests, percent(newClassRatio)),
		fmt.Sprintf("| failed probes in a row that fail a step | %d |", failedProbes),
		fmt.Sprintf("| passed probes that stand in | %d |", standInProbes),
		fmt.Sprintf("| too few requests: longer than | %d × `observe` |", patienceFactor),
		fmt.Sprintf("| a history is enough from | %d requests and %d minutes |", enoughRequests, enoughMinutes),
		fmt.Sprintf("| a history is at most | %d days old |", historyAge/(24*time.Hour)),
		fmt.Sprintf("| error of a first output's quantile | %s |", percent(histogramError)),
		fmt.Sprintf("the last %d h of minutes", historyHours*minutesAnHour/60),
		fmt.Sprintf("success of %v and a p95 of `first_output.ceiling`", defaultSuccess),
		fmt.Sprintf("of which a p95 allows %s", percent(1-Quantile)),
	}
	for _, name := range []string{RowWindow, RowRequests, RowSuccess, RowFirstOutput, RowClasses, RowBreaker, RowProbes} {
		want = append(want, fmt.Sprintf("\n| `%s` | ", name))
	}
	for _, verdict := range []string{Pass, Fail, NoData} {
		want = append(want, fmt.Sprintf("\n| %s | ", verdict))
	}
	for _, source := range []string{FromMinutes, FromSLO, FromDefault} {
		want = append(want, fmt.Sprintf("\n| `%s` | ", source))
	}
	for _, usual := range []float64{0.0005, 0.001, 0.01, 0.05} {
		bound, n := usual+terms.SuccessTolerance, 1.0
		for brokenEvidence(n*(usual+0.03), n, bound, terms.SuccessTolerance) < failAt && n < 1e6 {
			n++
		}
		want = append(want, fmt.Sprintf("\n| %s | %.0f | %.0f |\n", percent(usual), remaining(0, 0, bound, usual, usual), n))
	}
	for _, w := range want {
		if !strings.Contains(doc, w) {
			t.Errorf("docs/failback.md does not say %q", w)
		}
	}
}

// Its defaults are those of the reference, which is written from the code.
func TestDocsStateTheDefaults(t *testing.T) {
	reference := read(t, "configuration.md")
	rows := regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| `([^`]*)` \\|$").FindAllStringSubmatch(read(t, "failback.md"), -1)
	if len(rows) != 9 {
		t.Fatalf("docs/failback.md has %d defaults", len(rows))
	}
	for _, r := range rows {
		line := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(r[1]) + "` \\|[^|]*\\| `" + regexp.QuoteMeta(r[2]) + "` \\|")
		if !line.MatchString(reference) {
			t.Errorf("%s is not %s in docs/configuration.md", r[1], r[2])
		}
	}
}
