package e2e

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// Ten thousand requests while an upstream is stepped from 0 to 100 percent.
func TestStepsGiveEachShareToTheSameMembers(t *testing.T) {
	a, b := newStub(t), newStub(t)
	dir := t.TempDir()
	path := configure(t, dir, a, b, "")
	g := start(t, path)

	users := make([]string, 2000)
	for i := range users {
		users[i] = fmt.Sprintf("user-%d", i)
	}
	sent, began := 0, time.Now()
	inside := map[string]int{}
	var restarted *running
	for _, share := range []int{0, 5, 25, 75, 100} {
		if share == 0 {
			// An operator takes it to 0 at once.
			zero := 0
			if _, err := g.client.SetShare(t.Context(), "a", api.Command{Share: &zero}); err != nil {
				t.Fatal(err)
			}
		} else {
			g.step(t, "a", share)
		}
		a.members()
		b.members()
		chatAll(t, g.url, users)
		sent += len(users)
		in, out := a.members(), b.members()
		if len(in)+len(out) != len(users) {
			t.Errorf("at %d%%: %d + %d answered, %d sent", share, len(in), len(out), len(users))
		}
		p, n := float64(share)/100, float64(len(users))
		if z := math.Abs(float64(len(in))-n*p) / math.Max(math.Sqrt(n*p*(1-p)), 1e-9); p > 0 && p < 1 && z > 4 {
			t.Errorf("at %d%%: %d of %d, z %.1f", share, len(in), len(users), z)
		}
		if (p == 0 && len(in) != 0) || (p == 1 && len(out) != 0) {
			t.Errorf("at %d%%: %d in, %d out", share, len(in), len(out))
		}
		for u := range inside {
			if in[u] == 0 {
				t.Errorf("%s was inside a lower share and left at %d%%", u, share)
				break
			}
		}
		inside = in
		if share == 25 {
			restarted = sameMembersElsewhere(t, g, path, users, in, a, b)
		}
	}
	countsAgree(t, g, sent, len(users), began, a, b)
	if restarted == nil {
		t.Error("the restart was never tried")
	}
}

// sameMembersElsewhere asks a second process on a copy of the data directory:
// what a restart would read.
func sameMembersElsewhere(t *testing.T, g *running, path string, users []string, want map[string]int, a, b *stub) *running {
	t.Helper()
	dir := t.TempDir()
	// It writes at every moment, and would be copied half way through one.
	if err := g.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	err := os.CopyFS(filepath.Join(dir, "store"), os.DirFS(filepath.Join(g.dir, "store")))
	if err := errors.Join(err, g.Process.Signal(syscall.SIGCONT)); err != nil {
		t.Fatal(err)
	}
	second := start(t, configure(t, dir, a, b, ""))
	before := a.seen.Load() + b.seen.Load()
	a.members()
	for range 2 { // as it is, and after a restart of the same process
		chatAll(t, second.url, users)
		if got := a.members(); !maps.Equal(got, want) {
			t.Errorf("a second process has %d members, the first %d", len(got), len(want))
		}
		if err := second.term(t); err != nil {
			t.Errorf("it ended with %v", err)
		}
		second = start(t, filepath.Join(dir, "failback.yaml"))
	}
	_ = second.term(t)
	extra := a.seen.Load() + b.seen.Load() - before
	a.seen.Add(-int64(len(want)) * 2)
	b.seen.Add(-(extra - int64(len(want))*2))
	return second
}

// countsAgree: metrics, decision log and operator state tell what the stubs saw;
// at share 0 were atZero of the requests.
func countsAgree(t *testing.T, g *running, sent, atZero int, began time.Time, a, b *stub) {
	t.Helper()
	byA, byB, degraded := a.seen.Load(), b.seen.Load(), int64(atZero)
	if byA+byB != int64(sent) {
		t.Errorf("%d + %d answered, %d sent", byA, byB, sent)
	}
	var text string // a request is counted when its client has the answer, not before
	until(t, "every request is counted", func() bool {
		text = g.scrape(t)
		return sum(text, "ai_model_requests_total", "") >= float64(sent)
	})
	for _, c := range []struct {
		metric, labels string
		want           int64
	}{
		{"ai_model_requests_total", ``, int64(sent)},
		{"ai_model_requests_total", `outcome="completed",provider="a",route="primary"`, byA},
		{"ai_model_requests_total", `outcome="degraded_completed",provider="b",route="fallback"`, byB},
		{"ai_model_attempts_total", `class="ok",provider="a"`, byA},
		{"ai_model_attempts_total", `class="ok",provider="b"`, byB},
		{"ai_model_attempts_total", ``, int64(sent)},
		{"ai_fallback_triggered_total", ``, byB},
		{"ai_fallback_triggered_total", `reason="upstream_degraded"`, degraded},
		{"ai_fallback_triggered_total", `reason="traffic_share"`, byB - degraded},
		{"failback_upstream_own_requests_total", `answered_by="a",provider="a"`, byA},
		{"failback_upstream_own_requests_total", `answered_by="b",provider="a"`, byB},
		{"failback_slo_requests_total", `verdict="good"`, int64(sent)},
		{"failback_slo_requests_total", ``, int64(sent)},
		{"ai_workflow_duration_seconds_count", ``, int64(sent)},
		{"failback_upstream_share_ratio", `provider="a"`, 1},
		{"failback_traffic_steps_total", `by="operator",provider="a"`, 5},
		{"failback_traffic_steps_total", ``, 5},
		{"failback_policy_violations_total", ``, 0},
		{"failback_log_lines_dropped_total", ``, 0},
	} {
		if got := sum(text, c.metric, strings.Split(c.labels, ",")...); got != float64(c.want) {
			t.Errorf("%s{%s} is %g, not %d", c.metric, c.labels, got, c.want)
		}
	}
	counts := map[string]int64{}
	until(t, "the decision log is written", func() bool { return g.state(t).Log.Written >= uint64(sent) })
	for _, d := range whole[api.Decision](t, filepath.Join(g.dir, "decisions.jsonl")) {
		if d.Event == "model_route_selected" {
			counts[fmt.Sprint(d.PrimaryProvider, d.SelectedProvider, d.Route, d.WorkflowStatus, d.Reason, d.FallbackTriggered)]++
		}
	}
	want := map[string]int64{
		fmt.Sprint("a", "a", "primary", "completed", "primary_completed", false):          byA,
		fmt.Sprint("a", "b", "fallback", "degraded_completed", "upstream_degraded", true): degraded,
		fmt.Sprint("a", "b", "fallback", "degraded_completed", "traffic_share", true):     byB - degraded,
	}
	if !maps.Equal(counts, want) {
		t.Errorf("the decision log has %v, not %v", counts, want)
	}
	ds, err := g.client.Decisions(t.Context(), api.Filter{Limit: 1})
	if err != nil || ds.Total != uint64(sent) {
		t.Errorf("the operator API counts %d decisions: %v", ds.Total, err)
	}
	u := g.upstream(t, "a")
	if u.Share != 100 || u.Health != api.Recovering || u.FailbackID == "" || u.StateBy == "" || u.StateBy == "auto" {
		t.Errorf("the state says %+v", u)
	}
	// Numbers are of the last minute: of all of it, if it did not take longer.
	if ratio := float64(byA) / float64(sent); time.Since(began) < 50*time.Second && math.Abs(u.Live.Value-ratio) > 1e-9 {
		t.Errorf("LIVE is %v, %g of the requests were answered by a", u.Live, ratio)
	}
}

// sum adds the values of a metric's series that have all of the labels.
func sum(text, name string, labels ...string) float64 {
	total := 0.0
	for line := range strings.Lines(text) {
		var v float64
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if of, _, _ := strings.Cut(series, "{"); of == name && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(series, l) }) {
			if _, err := fmt.Sscan(value, &v); err == nil {
				total += v
			}
		}
	}
	return total
}

// Two operators on stale screens: one wins, the other is told; a lowering
// always works; each command is in the audit, refused ones too.
func TestStaleCommandsAreRefusedAndLoweringNever(t *testing.T) {
	g := start(t, configure(t, t.TempDir(), newStub(t), newStub(t), ""))
	set := func(share int, revision uint64) error {
		_, err := g.client.SetShare(t.Context(), "a", api.Command{Share: &share, Revision: &revision, Reason: "test"})
		return err
	}
	override := func(share int, revision uint64) error {
		_, err := g.client.SetShare(t.Context(), "a", api.Command{Share: &share, Revision: &revision, Reason: "test", Override: true})
		return err
	}
	first := g.upstream(t, "a").Revision
	if err := set(0, first); err != nil {
		t.Fatal(err)
	}
	now := g.upstream(t, "a").Revision
	if err := override(5, now); err != nil {
		t.Fatal(err)
	}
	e, ok := errors.AsType[*api.Error](override(25, now))
	if !ok || e.Code != api.CodeStaleRevision || e.HTTPStatus != http.StatusConflict || e.Upstream == nil || e.Upstream.Share != 5 {
		t.Errorf("a stale raise: %+v", e)
	}
	if err := set(0, first); err != nil {
		t.Errorf("a stale lowering: %v", err)
	}
	if e, ok := errors.AsType[*api.Error](set(75, g.upstream(t, "a").Revision)); !ok {
		t.Errorf("a jump over two steps went through: %v", e)
	}
	if _, err := g.client.SetShare(t.Context(), "nobody", api.Command{Share: new(int)}); err == nil {
		t.Error("an upstream that is not there was taken")
	}
	if err := set(7, g.upstream(t, "a").Revision); err == nil {
		t.Error("7% was taken")
	}
	if _, err := g.client.SetBreaker(t.Context(), "a:text", api.Command{Action: "explode"}); err == nil {
		t.Error("a breaker exploded")
	}
	// Each of them is in the file, in this order, with who, what and result.
	var got []string
	for _, e := range g.audit(t) {
		if e.By == "" || e.Via != "socket" || e.Role != "operator" || e.Time.IsZero() || e.ID == "" {
			t.Errorf("nobody in particular: %+v", e)
		}
		got = append(got, strings.Join([]string{e.Phase, e.Action, e.Target, e.From + ">" + e.To, e.Result}, " "))
	}
	want := []string{
		"done share a 100>0 ok", // a lowering waits for no file
		"asked share a 0>5 ", "done share a 0>5 ok",
		"asked share a 5>25 ", "done share a 5>25 stale",
		"done share a 5>0 ok",
		"asked share a 0>75 ", "done share a 0>75 refused",
		"done share nobody >0 refused",
		"asked share a 0>7 ", "done share a 0>7 refused",
		"refused breaker a:text >explode refused",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit is\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	trail, err := g.client.Audit(t.Context(), 1000)
	if err != nil || len(trail.Entries) != len(want) {
		t.Errorf("the API shows %d entries of %d: %v", len(trail.Entries), len(want), err)
	}
	var told []string
	for _, e := range g.events(t, "operator_command") {
		told = append(told, e.Result)
	}
	if want := []string{"ok", "ok", "stale", "ok", "refused", "refused", "refused", "refused"}; !slices.Equal(told, want) {
		t.Errorf("events %v, not %v", told, want)
	}
}
