package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// The whole course of an outage: an upstream is suspected, loses its traffic,
// is probed, comes back step by step on evidence, falls back once, and is
// healthy in the end. Clients see nothing of it.
func TestHealsStepByStep(t *testing.T) {
	t.Parallel()
	a, b := newPatient(t), newPatient(t)
	w := startWard(t, admit(t, a.url, b.url, ""))
	traffic := newLoad(t, w.url)
	until(t, "there is traffic to judge by", func() bool { return traffic.sent.Load() > 100 })
	w.is(t, api.Healthy, 100)

	a.mode.Store(broken)
	w.is(t, api.Suspect, 100)
	u := w.is(t, api.Degraded, 0)
	if u.HealthBy != "auto" || !strings.Contains(u.HealthReason, "two independent groups") || !strings.Contains(u.HealthReason, "server_error") {
		t.Errorf("degraded by %q: %q", u.HealthBy, u.HealthReason)
	}
	traffic.none(t, "in the outage")
	quiet(t, w, a)
	if u := w.upstream(t, "a"); u.NextStep.Share != 5 || u.NextStep.BlockedBy == "" {
		t.Errorf("the way back of one whose probes fail: %+v", u.NextStep)
	}
	refused(t, w, "5", "server_error")

	a.mode.Store(well)
	w.probed(t)
	if clients, _ := a.asked(); clients > 0 {
		t.Errorf("%d clients were sent to a degraded upstream", clients)
	}
	w.take(t, "5")
	w.is(t, api.Recovering, 5)
	until(t, "the step is judged", func() bool { return w.upstream(t, "a").Evidence != nil })
	refused(t, w, "25", "of 3.0s")
	w.passes(t, 5)
	w.take(t, "25")
	w.is(t, api.Recovering, 25)

	a.mode.Store(brokenText)
	w.reaches(t, api.Recovering, 5)
	a.mode.Store(well)
	u = w.is(t, api.Recovering, 5)
	if u.Retreats != 1 || u.StateBy != "auto" {
		t.Errorf("after a retreat: %d, by %q (%s)", u.Retreats, u.StateBy, u.StateWhy)
	}
	w.passes(t, 5)
	w.take(t, "25")
	w.is(t, api.Recovering, 25)
	w.take(t, "75", "--override", "--reason", "seen enough")
	w.is(t, api.Recovering, 75)
	w.passes(t, 75)
	w.take(t, "100")
	w.is(t, api.Recovering, 100)
	u = w.is(t, api.Healthy, 100)
	if u.FailbackID != "" || u.Retreats != 0 || u.Evidence != nil || len(u.Steps) != 0 {
		t.Errorf("healthy with remains of a failback: %+v", u)
	}
	traffic.end()
	traffic.none(t, "on the way back")
	courseIsTold(t, w)
}

// Clients take all that the half-open breakers of a busy upstream let through.
// Probes, that begin only when it is suspect, still tell, and it is degraded
// after suspect_window, not after the five minutes that one group takes.
func TestABusyUpstreamIsDegradedInTime(t *testing.T) {
	t.Parallel()
	a, b := newPatient(t), newPatient(t)
	w := startWard(t, admit(t, a.url, b.url, "", ", probe: {every: 1s}", ""))
	a.mode.Store(broken)
	one, two := newLoad(t, w.url), newLoad(t, w.url)
	w.reaches(t, api.Suspect, 100)
	u := w.reaches(t, api.Degraded, 0)
	if !strings.Contains(u.HealthReason, "two independent groups") {
		t.Error(u.HealthReason)
	}
	one.none(t, "in the outage")
	two.none(t, "in the outage")
}

// quiet checks that a while of probes brings no client.
func quiet(t *testing.T, w *ward, a *patient) {
	t.Helper()
	until(t, "nobody but probes asks a degraded upstream", func() bool {
		return w.upstream(t, "a").InFlight == 0
	})
	a.asked()
	clients, probes := 0, 0
	until(t, "a degraded upstream is probed", func() bool {
		c, p := a.asked()
		clients, probes = clients+c, probes+p
		return probes >= 3
	})
	if clients > 0 {
		t.Errorf("%d clients were sent to a degraded upstream", clients)
	}
}

// refused checks that a step is refused for what it lacks, in words and with
// the exit code of a failure, and that nothing changed.
func refused(t *testing.T, w *ward, share, why string) {
	t.Helper()
	before := w.upstream(t, "a")
	out, stderr, code := cli(t, w.dir, "step", "a", share)
	if code != 1 || !strings.Contains(stderr, why) || !strings.Contains(stderr, "--override") {
		t.Errorf("step a %s: exit %d, no %q: %s%s", share, code, why, out, stderr)
	}
	if after := w.upstream(t, "a"); after.Share != before.Share || after.Revision != before.Revision {
		t.Errorf("a refused step moved it from %d%% to %d%%", before.Share, after.Share)
	}
}

// courseIsTold checks that log, events, metrics and audit tell the course.
func courseIsTold(t *testing.T, w *ward) {
	t.Helper()
	me := w.state(t).You.Name
	health := []string{
		"suspect>degraded two_groups auto", "degraded>recovering operator " + me, "recovering>healthy recovered auto",
	}
	steps := []string{
		"100>0 degraded auto", "0>5 raised " + me, "5>25 raised " + me, "25>5 retreat auto", "5>25 raised " + me,
		"25>75 override " + me, "75>100 raised " + me,
	}
	until(t, "the log has the last transition", func() bool {
		return strings.Contains(strings.Join(w.happened(t, "health_transition"), "\n"), "recovering>healthy")
	})
	moved := slices.DeleteFunc(w.happened(t, "health_transition"), func(s string) bool { return strings.HasPrefix(s, "healthy>suspect") })
	if !slices.Equal(moved, health) {
		t.Errorf("the log has the health transitions %q", moved)
	}
	if got := w.happened(t, "traffic_step"); !slices.Equal(got, steps) {
		t.Errorf("the log has the steps %q", got)
	}
	text := w.scrape(t)
	for _, kind := range []struct{ event, metric string }{
		{"health_transition", "failback_health_transitions_total"}, {"traffic_step", "failback_traffic_steps_total"},
	} {
		logged := w.happened(t, kind.event)
		told := w.events(t, kind.event)
		if n := sum(text, kind.metric, `provider="a"`); n != float64(len(logged)) || len(told) != len(logged) {
			t.Errorf("%s: %g counted, %d told, %d in the log: %q", kind.event, n, len(told), len(logged), logged)
		}
	}
	for by, n := range map[string]float64{"auto": 2, "operator": 5} {
		if got := sum(text, "failback_traffic_steps_total", `provider="a"`, `by="`+by+`"`); got != n {
			t.Errorf("%g steps by %s, not %g", got, by, n)
		}
	}
	audited(t, w, []string{
		"5 refused", "5 ok", "25 refused", "25 ok", "25 ok", "75 ok override: seen enough", "100 ok",
	})
	if got := whole[api.Decision](t, filepath.Join(w.dir, "decisions.jsonl")); len(got) < 100 {
		t.Errorf("the log has %d lines", len(got))
	}
}

// audited checks what commands on a left in the audit.
func audited(t *testing.T, w *ward, want []string) {
	t.Helper()
	trail, err := w.client.Audit(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	slices.Reverse(trail.Entries)
	for _, e := range trail.Entries {
		if e.Target != "a" || e.Phase == api.PhaseAsked {
			continue
		}
		line := fmt.Sprintf("%s %s", e.To, e.Result)
		if e.Override {
			line += " override: " + e.Why
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit has %q, not %q", got, want)
	}
}
