package sources

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"failback/gateway/operator/api"
)

func configured() []api.Task {
	return []api.Task{
		{Name: "policy_question", Fallback: "any"},
		{Name: "refund", Fallback: "same_model"},
		{Name: "permission_change", Fallback: "never"},
		{Name: "unnamed", Fallback: "same_model"},
		{Name: "other", Fallback: "never"},
	}
}

func named(t *testing.T, all []Canned, name string) Canned {
	t.Helper()
	for _, c := range all {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no query %s", name)
	return Canned{}
}

func TestCannedQueriesAreWhole(t *testing.T) {
	all := CannedQueries(configured(), "")
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
		if c.Title == "" || c.Means == "" || c.None == "" || c.Range <= 0 || c.Means == c.None {
			t.Errorf("%s is not whole: %+v", c.Name, c)
		}
		if _, err := os.Stat("../runbooks/" + c.Runbook + ".md"); c.Runbook != "" && err != nil {
			t.Errorf("%s names a runbook that is not there: %v", c.Name, err)
		}
		q := c.Query(c.Range)
		if !strings.Contains(q, DefaultStreams) || !strings.Contains(q, `| json | __error__=""`) || strings.ContainsAny(q, "\x00\n") {
			t.Errorf("%s: %q", c.Name, q)
		}
		if strings.Contains(q, "count_over_time") != c.Instant {
			t.Errorf("%s: instant %t, but %s", c.Name, c.Instant, q)
		}
		if c.Instant != (c.Limit == 0) {
			t.Errorf("%s: limit %d", c.Name, c.Limit)
		}
		if c.Alarm != (c.Name == "not-allowed") {
			t.Errorf("%s: alarm %t", c.Name, c.Alarm)
		}
	}
	want := []string{"first-switch", "not-allowed", "affected", "failed", "by-reason", "by-task", "first-output", "breakers", "late-results", "incomplete", "human", "operators", "changes"}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
}

func TestCannedAt(t *testing.T) {
	end := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	all := CannedQueries(configured(), `{app="x"}`)
	got := named(t, all, "by-reason").At(end.Add(-90*time.Minute), end)
	want := LogQuery{
		Query:    `sum by (reason) (count_over_time({app="x"} | json | __error__="" | event="model_route_selected" | fallback_triggered="true" [1h30m]))`,
		Unparsed: `sum(count_over_time({app="x"} | json | __error__!="" [1h30m]))`,
		Start:    end.Add(-90 * time.Minute), End: end, Instant: true,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	got = named(t, all, "first-switch").At(end.Add(-time.Hour), end)
	if got.Limit != 1 || !got.Forward || got.Instant || !strings.HasPrefix(got.Unparsed, "sum(count_over_time") {
		t.Errorf("got %+v", got)
	}
	if q := named(t, all, "by-task").Query(0); !strings.Contains(q, "[1s]") {
		t.Errorf("no window: %s", q)
	}
	if q := named(t, all, "by-task").Query(89*time.Second + 700*time.Millisecond); !strings.Contains(q, "[1m30s]") {
		t.Errorf("a window of parts of a second: %s", q)
	}
}

// What may fall back follows from the configuration alone, and what is not in
// it may not.
func TestNotAllowed(t *testing.T) {
	task := func(name, fallback string) api.Task { return api.Task{Name: name, Fallback: fallback} }
	for name, tt := range map[string]struct {
		tasks []api.Task
		want  string
	}{
		"all kinds":        {configured(), ` | fallback_triggered="true" | task_type!~"policy_question|refund|unnamed" or (task_type=~"refund|unnamed" and substitute="true")`},
		"nobody may":       {[]api.Task{task("a", "never")}, ` | fallback_triggered="true"`},
		"no tasks known":   {nil, ` | fallback_triggered="true"`},
		"no model is kept": {[]api.Task{task("b", "any"), task("a", "any")}, ` | fallback_triggered="true" | task_type!~"a|b"`},
		"a kind to come":   {[]api.Task{task("a", "sometimes"), task("b", "any")}, ` | fallback_triggered="true" | task_type!~"b"`},
	} {
		if got := notAllowed(tt.tasks); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tt.want)
		}
	}
}

// A task's name is text in the query, whatever it is, and matches itself alone.
func TestTaskNamesAreText(t *testing.T) {
	inner := regexp.MustCompile(`^ \| fallback_triggered="true" \| task_type!~("(?:[^"\\]|\\.)*")$`)
	for _, name := range append([]string{`a"} or {b="`, "a|b", "a.b", "(", "[5m]", "a\\", "`", "$range", "{{.x}}", window}, hostile...) {
		if strings.Contains(name, "\xff") {
			continue // no configuration holds what is not UTF-8
		}
		q := notAllowed([]api.Task{{Name: name, Fallback: "any"}})
		m := inner.FindStringSubmatch(q)
		if m == nil {
			t.Errorf("%q breaks out of its string: %s", name, q)
			continue
		}
		pattern, err := strconv.Unquote(m[1])
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		re, err := regexp.Compile("^(?:" + pattern + ")$")
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		for _, other := range append([]string{name, name + "x", "x" + name, "ab", "axb"}, hostile...) {
			if re.MatchString(other) != (other == name) {
				t.Errorf("%q matches %q: %t", name, other, re.MatchString(other))
			}
		}
		if got := putWindow(q, time.Hour); got != q {
			t.Errorf("%q takes part in the window: %s", name, got)
		}
		for _, r := range q {
			if r < ' ' || r > '~' {
				t.Errorf("%q is not ASCII in %s", name, q)
				break
			}
		}
	}
	if got := fmt.Sprint(oneOf([]string{"b", "a", "b"})); got != `"a|b"` {
		t.Errorf("got %s", got)
	}
}
