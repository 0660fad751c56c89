package e2e

import (
	"slices"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// degrade makes a fall ill until it is degraded, and cures it.
func (w *ward) degrade(t *testing.T, a *patient, traffic *load) {
	t.Helper()
	until(t, "there is traffic to judge by", func() bool { return traffic.sent.Load() > 60 })
	a.mode.Store(broken)
	w.reaches(t, api.Degraded, 0)
	a.mode.Store(well)
}

// plan approves the whole table or takes that back.
func (w *ward) plan(t *testing.T, action string) *api.Result {
	t.Helper()
	u := w.upstream(t, "a")
	r, err := w.client.Plan(t.Context(), "a", api.Command{Action: action, Revision: &u.Revision, Reason: "as agreed"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// An operator approves the table once; every step that passes takes the next
// one, a step that fails goes back by itself, and the approval can be taken back.
func TestPlan(t *testing.T) {
	t.Parallel()
	a, b := newPatient(t), newPatient(t)
	w := startWard(t, admit(t, a.url, b.url, "", "advance: manual", "advance: plan", "{share: 25, observe: 3s}", "{share: 25, observe: 6s}"))
	traffic := newLoad(t, w.url)
	w.degrade(t, a, traffic)
	w.probed(t)
	w.take(t, "5")
	w.passes(t, 5)
	if u := w.upstream(t, "a"); !strings.Contains(u.HealthReason, "approval of the plan") || u.Plan != nil {
		t.Errorf("without an approval: %q, %+v", u.HealthReason, u.Plan)
	}
	if r := w.plan(t, api.ActionPlan); r.Upstream.Plan == nil || r.Upstream.Plan.By != w.state(t).You.Name || !strings.Contains(r.Message, "approved") {
		t.Errorf("approved: %s, %+v", r.Message, r.Upstream.Plan)
	}
	w.reaches(t, api.Recovering, 25)
	before := w.again(t, 0)
	same(t, "with a plan", before, w.upstream(t, "a"))
	if before.Plan == nil {
		t.Error("the plan ended with its first step")
	}

	a.mode.Store(brokenText)
	u := w.reaches(t, api.Recovering, 5)
	a.mode.Store(well)
	if u.Retreats != 1 || u.Plan == nil {
		t.Errorf("after one retreat: %d, plan %+v", u.Retreats, u.Plan)
	}
	w.reaches(t, api.Recovering, 25)
	if r := w.plan(t, api.ActionManual); r.Upstream.Plan != nil {
		t.Errorf("withdrawn: %s, %+v", r.Message, r.Upstream.Plan)
	}
	w.passes(t, 25)
	if u := w.upstream(t, "a"); u.Share != 25 {
		t.Errorf("without a plan it went on to %d%%", u.Share)
	}
	w.plan(t, api.ActionPlan)
	w.reaches(t, api.Recovering, 75)
	w.reaches(t, api.Recovering, 100)
	if u := w.reaches(t, api.Healthy, 100); u.Plan != nil {
		t.Errorf("healthy with a plan: %+v", u.Plan)
	}
	me := w.state(t).You.Name
	got := w.happened(t, "traffic_step")
	want := []string{
		"100>0 degraded auto", "0>5 raised " + me, "5>25 raised plan:" + me, "25>5 retreat auto", "5>25 raised plan:" + me,
		"25>75 raised plan:" + me, "75>100 raised plan:" + me,
	}
	for _, s := range want {
		if !slices.Contains(got, s) {
			t.Errorf("the log has the steps %q, without %q", got, s)
		}
	}
	if n := sum(w.scrape(t), "failback_traffic_steps_total", `provider="a"`, `by="plan"`); n != 3 {
		t.Errorf("%g steps by plan since the restart", n)
	}
}

// Without any operator an upstream comes back, until it has fallen back twice:
// then a person is needed.
func TestAuto(t *testing.T) {
	t.Parallel()
	a, b := newPatient(t), newPatient(t)
	told := newReceiver(t)
	w := startWard(t, admit(t, a.url, b.url, "notify: {webhook: "+told.url+"}\n", "advance: manual", "advance: auto", "{share: 25, observe: 3s}", "{share: 25, observe: 6s}"))
	traffic := newLoad(t, w.url)
	w.degrade(t, a, traffic)
	for retreats := 1; retreats <= 2; retreats++ {
		w.reaches(t, api.Recovering, 25)
		a.mode.Store(brokenText)
		u := w.reaches(t, api.Recovering, 5)
		a.mode.Store(well)
		if u.Retreats != retreats {
			t.Errorf("%d retreats, not %d", u.Retreats, retreats)
		}
	}
	w.passes(t, 5)
	until(t, "a person is asked", func() bool { return strings.Contains(w.upstream(t, "a").HealthReason, "after 2 retreats") })
	for _, kind := range []string{"degraded", "retreat", "waiting"} {
		told.gets(t, kind)
	}
	if u := w.upstream(t, "a"); u.Share != 5 || u.Health != api.Recovering {
		t.Errorf("after two retreats it is %s at %d%%", u.Health, u.Share)
	}
	w.take(t, "25")
	if u := w.reaches(t, api.Recovering, 25); u.Retreats != 2 {
		t.Errorf("%d retreats", u.Retreats)
	}
	for _, s := range w.happened(t, "traffic_step") {
		if strings.Contains(s, " raised ") && !strings.HasSuffix(s, " auto") && !strings.HasPrefix(s, "5>25") {
			t.Errorf("a step by somebody: %s", s)
		}
	}
}

// Nobody is asked for anything while all goes well.
func TestAutoNeedsNobody(t *testing.T) {
	t.Parallel()
	a, b := newPatient(t), newPatient(t)
	told := newReceiver(t)
	w := startWard(t, admit(t, a.url, b.url, "notify: {webhook: "+told.url+"}\n", "advance: manual", "advance: auto"))
	traffic := newLoad(t, w.url)
	w.degrade(t, a, traffic)
	for _, share := range []int{5, 25, 75, 100} {
		w.reaches(t, api.Recovering, share)
	}
	w.reaches(t, api.Healthy, 100)
	traffic.end()
	traffic.none(t, "on the way back by itself")
	for _, s := range w.happened(t, "traffic_step") {
		if !strings.HasSuffix(s, " auto") {
			t.Errorf("a step by somebody: %s", s)
		}
	}
	told.gets(t, "degraded")
	if told.has("waiting") || told.has("retreat") {
		t.Errorf("told: %v", told.kinds())
	}
}
