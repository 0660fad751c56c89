package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// again kills the gateway as a crash would, leaves it down for a while and
// starts it with what it has on disk. What it returns is what was in force
// before.
func (w *ward) again(t *testing.T, down time.Duration) (before api.Upstream) {
	t.Helper()
	before = w.upstream(t, "a")
	w.kill()
	<-time.After(down) // the downtime itself
	w.running = start(t, w.path)
	return before
}

// same checks that a restart changed nothing that must survive it.
func same(t *testing.T, when string, before, after api.Upstream) {
	t.Helper()
	type kept struct {
		health, by, why, failback, stateBy string
		share, retreats                    int
		revision                           uint64
		since, stateSince                  time.Time
		steps                              string
		plan                               string
	}
	of := func(u api.Upstream) kept {
		k := kept{
			health: u.Health, by: u.HealthBy, why: u.StateWhy, failback: u.FailbackID, stateBy: u.StateBy,
			share: u.Share, retreats: u.Retreats, revision: u.Revision, since: u.Since.UTC(), stateSince: u.HealthSince.UTC(),
			steps: fmt.Sprint(u.Steps),
		}
		if u.Plan != nil {
			k.plan = u.Plan.By + " " + u.Plan.At.UTC().String()
		}
		return k
	}
	if was, is := of(before), of(after); was != is {
		t.Errorf("%s: killed with\n%+v, started with\n%+v", when, was, is)
	}
}

// asked sends one request of each user and returns who of them a answered.
func (w *ward) asked(t *testing.T, a *patient, users []string) map[string]bool {
	t.Helper()
	a.members()
	chatAll(t, w.url, users)
	in := map[string]bool{}
	for u := range a.members() {
		if strings.HasPrefix(u, "user-") {
			in[u] = true
		}
	}
	return in
}

// A gateway that is killed at any stage of the way back goes on where it was.
func TestKilledAtEachStage(t *testing.T) {
	t.Parallel()
	a, b := newPatient(t), newPatient(t)
	w := startWard(t, admit(t, a.url, b.url, "", "{share: 25, observe: 3s}", "{share: 25, observe: 20s}"))
	users := make([]string, 300)
	for i := range users {
		users[i] = fmt.Sprintf("user-%d", i)
	}
	traffic := newLoad(t, w.url)
	until(t, "there is traffic to judge by", func() bool { return traffic.sent.Load() > 100 })

	a.mode.Store(broken)
	w.reaches(t, api.Suspect, 100)
	before := w.again(t, 0)
	if u := w.upstream(t, "a"); u.Share != 100 || u.FailbackID != "" || u.Revision != before.Revision {
		t.Errorf("killed while suspect it starts with %+v", u)
	}
	w.reaches(t, api.Suspect, 100)
	w.reaches(t, api.Degraded, 0)
	before = w.again(t, 0)
	same(t, "degraded", before, w.upstream(t, "a"))
	quiet(t, w, a)

	a.mode.Store(well)
	w.probed(t)
	if clients, _ := a.asked(); clients > 0 {
		t.Errorf("%d clients were sent to a degraded upstream after a restart", clients)
	}
	w.take(t, "5")
	w.reaches(t, api.Recovering, 5)
	five := w.asked(t, a, users)
	before = w.again(t, 0)
	same(t, "at 5%", before, w.upstream(t, "a"))
	if now := w.asked(t, a, users); !maps.Equal(now, five) {
		t.Errorf("the 5%% were %d, and are %d after a restart", len(five), len(now))
	}
	w.passes(t, 5)
	w.take(t, "25")
	w.reaches(t, api.Recovering, 25)

	middle(t, w, a, users, five)

	// That 5% passed was known before both restarts.
	a.mode.Store(brokenText)
	u := w.reaches(t, api.Recovering, 5)
	a.mode.Store(well)
	if u.Retreats != 1 {
		t.Errorf("%d retreats", u.Retreats)
	}
	before = w.again(t, 0)
	after := w.upstream(t, "a")
	same(t, "after a retreat", before, after)
	if after.NextStep.BlockedBy == "" {
		t.Error("a retreat whose new window has just begun may go on at once")
	}
	for _, share := range []string{"25", "75", "100"} {
		w.take(t, share, "--override", "--reason", "seen enough")
	}
	w.reaches(t, api.Recovering, 100)
	before = w.again(t, 0)
	same(t, "held at 100%", before, w.upstream(t, "a"))
	w.reaches(t, api.Healthy, 100)
}

// middle kills the gateway in the middle of the step to 25%, whose window then
// goes on: not from its start, and not by the time in which nobody was served.
func middle(t *testing.T, w *ward, a *patient, users []string, five map[string]bool) {
	t.Helper()
	in := w.asked(t, a, users)
	for u := range five {
		if !in[u] {
			t.Errorf("%s was in the 5%% and is not in the 25%%", u)
		}
	}
	served := func() (float64, int) {
		if e := w.upstream(t, "a").Evidence; e != nil {
			return e.ServedSeconds, e.Requests
		}
		return -1, 0
	}
	until(t, "half of the window is served", func() bool { s, _ := served(); return s >= 14 })
	was, requests := served()
	before := w.again(t, 3*time.Second)
	up := w.state(t).StartedAt
	same(t, "in the middle of 25%", before, w.upstream(t, "a"))
	until(t, "the step is judged again", func() bool { s, _ := served(); return s >= 0 })
	now, left := served()
	since := time.Since(up).Seconds()
	if now < was-10.5 || now > was+since+1.5 {
		t.Errorf("served %.1f s before and %.1f s after, %.1f s after the start", was, now, since)
	}
	if left < requests/5 {
		t.Errorf("%d requests were evidence before, %d after", requests, left)
	}
	if e := w.upstream(t, "a").Evidence; e.Verdict != api.NoData || e.Rows[0].Verdict != api.NoData {
		t.Errorf("half a window and a downtime make %s: %s", e.Verdict, e.Rows[0].Text)
	}
	if again := w.asked(t, a, users); !maps.Equal(again, in) {
		t.Errorf("the 25%% were %d, and are %d after a restart", len(in), len(again))
	}
}

// What an operator put in force for a time outlives the process.
func TestOverridesOutliveAKill(t *testing.T) {
	t.Parallel()
	a, b := newPatient(t), newPatient(t)
	w := startWard(t, admit(t, a.url, b.url, ""))
	for _, args := range [][]string{
		{"breaker", "a:tools", "open", "--for", "1h", "--reason", "tools break"},
		{"breaker", "a:text", "close", "--for", "1h"},
		{"breaker", "b:text", "open", "--for", "1h"},
		{"breaker", "b:text", "auto"},
		{"passthrough", "on", "--order", "b,a", "--for", "1h", "--reason", "drill"},
	} {
		if out, stderr, code := cli(t, w.dir, args...); code != 0 {
			t.Fatalf("%v: exit %d: %s%s", args, code, out, stderr)
		}
	}
	var until []time.Time
	forced := func() string {
		s := w.state(t)
		text := ""
		was := until
		until = nil
		for _, u := range s.Upstreams {
			for _, b := range u.Breakers {
				if b.Forced != "" {
					text += fmt.Sprintln(b.Bucket, b.State, b.Forced, b.ForcedBy)
					until = append(until, b.ForcedUntil)
				}
			}
		}
		if p := s.Passthrough; p != nil {
			text += fmt.Sprintln(p.Order, p.By, p.Why)
			until = append(until, p.Until)
		}
		for i := range min(len(was), len(until)) {
			if d := was[i].Sub(until[i]).Abs(); d > time.Second {
				t.Errorf("after a restart it ends %s earlier or later", d)
			}
		}
		return text
	}
	before := forced()
	w.again(t, 0)
	if after := forced(); after != before || strings.Count(before, "\n") != 3 {
		t.Errorf("before the kill:\n%safter:\n%s", before, after)
	}
	chatAll(t, w.url, []string{"user-1", "user-2", "user-3"})
	if clients, _ := a.asked(); clients > 0 {
		t.Errorf("a passthrough to b sent %d clients to a", clients)
	}
	if out, stderr, code := cli(t, w.dir, "passthrough", "off"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, stderr)
	}
	before = forced()
	w.again(t, 0)
	if after := forced(); after != before || strings.Count(before, "\n") != 2 {
		t.Errorf("before the second kill:\n%safter:\n%s", before, after)
	}
}
