package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator"
	"failback/gateway/operator/api"
)

// incident is the only one that the gateway of w knows.
func (w *ward) incident() api.Incident {
	w.Helper()
	all := w.gw.Control().Incidents().Incidents
	if len(all) != 1 {
		w.Fatalf("%d incidents: %+v\n%s", len(all), all, w.tell())
	}
	in, err := w.gw.Control().Incident(all[0].ID)
	if err != nil {
		w.Fatal(err)
	}
	return in
}

func (w *ward) changes(id, action string, c api.Command) (*api.IncidentHead, error) {
	res, err := w.gw.Control().ChangeIncident(context.Background(), operator.Actor{Name: "ana", Role: api.RoleOperator}, action, id, c)
	return res.Incident, err
}

// milestonesOf are what is set of m, in words.
func milestonesOf(m api.Milestones) (l []string) {
	for name, at := range map[string]time.Time{
		"failure": m.FirstFailure, "switch": m.FirstSwitch, "recovered": m.Recovered, "back": m.TrafficBack, "closed": m.Closed,
	} {
		if !at.IsZero() {
			l = append(l, name)
		}
	}
	slices.Sort(l)
	return l
}

func has(in api.Incident, kind, text string) bool {
	return slices.ContainsFunc(in.Timeline, func(e api.IncidentEntry) bool { return e.Kind == kind && strings.Contains(e.Text, text) })
}

// One outage from its first failure to its closing: one incident, opened by the
// gateway, with the milestones in their order, a relapse that takes back what no
// longer holds, and questions that are asked before it is closed.
func TestAnOutageIsOneIncident(t *testing.T) {
	inWard(t, illness{rate: 5}, func(w *ward) {
		w.passes(2 * time.Minute)
		if all := w.gw.Control().Incidents().Incidents; len(all) != 0 {
			t.Fatalf("before anything failed: %+v", all)
		}
		ill := time.Now()
		w.degrades("A")
		w.passes(2 * time.Second)
		in := w.incident()
		if in.State != api.IncidentOpen || in.Cause != api.CauseDegraded || in.OpenedBy != "auto" || !slices.Equal(in.Upstreams, []string{"A"}) {
			t.Errorf("%+v", in.IncidentHead)
		}
		m := in.Milestones
		if !slices.Equal(milestonesOf(m), []string{"failure", "switch"}) {
			t.Fatalf("milestones %+v", m)
		}
		if d := m.FirstFailure.Sub(ill); d < 0 || d > 2*time.Second {
			t.Errorf("the first failure is %s after A fell ill", d)
		}
		if m.FirstSwitch.Before(m.FirstFailure) || m.FirstSwitch.Sub(m.FirstFailure) > time.Second || in.OpenedAt.Sub(m.FirstFailure) < time.Second {
			t.Errorf("milestones %+v, opened %s", m, in.OpenedAt)
		}
		if !has(in, api.EntryEvent, "CLOSED > OPEN") || !has(in, api.EntryEvent, "> DEGRADED") || !has(in, api.EntryOpened, "A degraded") {
			t.Errorf("timeline %+v", in.Timeline)
		}
		if st := w.gw.OperatorState(); len(st.Incidents) != 1 || st.Incidents[0].ID != in.ID {
			t.Errorf("in the state: %+v", st.Incidents)
		}
		w.passes(time.Minute)
		w.up["A"].plays(ok)
		w.until("the probes of A pass", 15*time.Minute, passed("A"))
		w.passes(2 * time.Second)
		if got := milestonesOf(w.incident().Milestones); !slices.Equal(got, []string{"failure", "recovered", "switch"}) {
			t.Errorf("once the probes passed: %v", got)
		}
		w.heals("A", 30*time.Minute)
		w.passes(2 * time.Second)
		in = w.incident()
		if got := milestonesOf(in.Milestones); !slices.Equal(got, []string{"back", "failure", "recovered", "switch"}) {
			t.Errorf("at full share: %v", got)
		}

		// A relapse belongs to it.
		w.degrades("A")
		w.passes(2 * time.Second)
		in = w.incident()
		if got := milestonesOf(in.Milestones); !slices.Equal(got, []string{"failure", "switch"}) || !has(in, api.EntryMilestone, "relapse") {
			t.Errorf("after the relapse: %v %+v", got, in.Timeline)
		}
		if in.Milestones.FirstFailure != m.FirstFailure || in.Milestones.FirstSwitch != m.FirstSwitch {
			t.Errorf("%+v became %+v", m, in.Milestones)
		}
		w.up["A"].plays(ok)
		w.until("the probes of A pass", 15*time.Minute, passed("A"))
		w.heals("A", 30*time.Minute)
		w.passes(2 * time.Minute)

		in = w.incident()
		if r := in.Requests; r.Primary == 0 || r.Degraded == 0 || len(r.Kept) == 0 || r.Forbidden != 0 {
			t.Errorf("requests %+v", r)
		}
		if l := in.Layers[0]; l.Name != api.LayerTechnical || l.Primary.Good == 0 || l.Primary.Bad == 0 || l.Degraded.Good == 0 || l.Degraded.Bad != 0 {
			t.Errorf("%+v", l)
		}
		_, err := w.changes(in.ID, operator.ActionIncidentClose, api.Command{})
		if e, is := err.(*api.Error); !is || e.Code != api.CodeBlocked || !strings.Contains(e.Message, "window, sampled, forbidden, users, primary, runbook") {
			t.Fatalf("closed with nothing answered: %v", err)
		}
		for _, q := range in.Closing {
			if q.Text == "" || q.Fact == "" || q.Answer != "" {
				t.Errorf("question %+v", q)
			}
			if _, err := w.changes(in.ID, operator.ActionIncidentAnswer, api.Command{Question: q.ID, Answer: "yes: " + q.ID}); err != nil {
				t.Error(err)
			}
		}
		head, err := w.changes(in.ID, operator.ActionIncidentClose, api.Command{})
		if err != nil || head.State != api.IncidentClosed || head.ClosedBy != "ana" || len(head.Unanswered) != 0 {
			t.Fatalf("%+v %v", head, err)
		}
		w.passes(5 * time.Minute)
		in = w.incident()
		if in.State != api.IncidentClosed || len(milestonesOf(in.Milestones)) != 5 || len(w.gw.OperatorState().Incidents) != 0 {
			t.Errorf("%+v", in.IncidentHead)
		}
		if in.Closing[0].By != "ana" || in.Closing[0].At.IsZero() || in.Closing[0].Fact == "" {
			t.Errorf("%+v", in.Closing[0])
		}
	})
}

// An incident counts from its first failure: the attempts that led to it are in it, and
// so is what is reported of a request that ended before it was opened.
func TestAnIncidentCountsFromItsFirstFailure(t *testing.T) {
	inWard(t, illness{rate: 5}, func(w *ward) {
		w.passes(5 * time.Minute)
		w.degrades("A")
		w.passes(2 * time.Second)
		in := w.incident()
		first := in.Milestones.FirstFailure
		before := in.OpenedAt.Sub(first)
		if !in.Requests.Since.Equal(first) || before < time.Second || !strings.HasPrefix(in.Requests.Counted, "since the first failure at ") {
			t.Fatalf("%+v, first failure %s before", in.Requests, before)
		}
		n, want := in.Requests.Primary+in.Requests.Degraded+in.Requests.Failed, 5*in.At.Sub(first).Seconds()
		if float64(n) < want-15 || float64(n) > want+15 {
			t.Errorf("%d requests in the %s since the first failure, want about %.0f", n, in.At.Sub(first), want)
		}
		if in.Layers[0].Primary.Bad == 0 {
			t.Errorf("no failed attempt of A led to it: %+v", in.Layers[0])
		}
		for _, q := range in.Closing {
			if q.ID == api.QuestionUsers && !strings.Contains(q.Fact, in.Requests.Counted) {
				t.Errorf("%+v", q)
			}
		}
		id := in.Requests.Kept[0]
		if code, got := w.posts(fmt.Sprintf(`{"request_id":%q,"layer":"semantic","good":false,"by":"judge"}`, id)); code != 200 || got["counted"] != 1.0 {
			t.Errorf("%d %v", code, got)
		}
		for range 2 { // before and after it is written into the record
			now := w.incident()
			if l := now.Layers[2]; l.Degraded.Bad+l.Primary.Bad != 1 || l.Degraded.Good+l.Primary.Good != 0 {
				t.Errorf("of a request that led to it: %+v", l)
			}
			if !now.Requests.Since.Equal(first) || now.Layers[0].Primary.Bad < in.Layers[0].Primary.Bad {
				t.Errorf("%+v %+v", now.Requests, now.Layers[0])
			}
			w.passes(40 * time.Second)
		}
	})
}

// posts sends outcomes and returns the status and what became of them.
func (w *ward) posts(body string) (int, map[string]any) {
	w.Helper()
	r := httptest.NewRequest(http.MethodPost, "/failback/v1/outcomes", strings.NewReader(body))
	rec := httptest.NewRecorder()
	w.gw.ServeClient(rec, r)
	var v map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
		w.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
	}
	return rec.Code, v
}

// What clients report is joined with the route of the request, counted once, and
// shown by the incident.
func TestOutcomesAreJoinedWithTheirRequests(t *testing.T) {
	inWard(t, illness{rate: 5}, func(w *ward) {
		w.degrades("A")
		w.passes(40 * time.Second)
		in := w.incident()
		if len(in.Requests.Kept) < 5 {
			t.Fatalf("%+v", in.Requests)
		}
		workflow := in.Layers[1]
		ids := in.Requests.Kept[len(in.Requests.Kept)-3:]
		report := func(id, layer string, good bool, by string) string {
			return fmt.Sprintf(`{"request_id":%q,"layer":%q,"good":%v,"by":%q,"note":"wrong currency"}`, id, layer, good, by)
		}
		counted := func(layer, route, verdict string) float64 {
			return w.gw.Counted("failback_outcomes_total", map[string]string{"layer": layer, "route": route, "verdict": verdict})
		}
		list := "[" + strings.Join([]string{
			report(ids[0], "semantic", false, "judge"),
			report(ids[0], "semantic", true, "judge"), // the first stands
			report(ids[0], "semantic", true, "other"), // without keys all are one
			report(ids[1], "semantic", true, "other"),
			report(ids[1], "task", true, "judge"),
			report(ids[2], "workflow", false, "client"),
			report(ids[2], "workflow", true, "other"),
			report("never-seen", "semantic", true, "judge"),
		}, ",") + "]"
		code, got := w.posts(list)
		if code != 200 || got["counted"] != 4.0 || got["repeated"] != 3.0 || got["unknown"] != 1.0 || fmt.Sprint(got["unknown_ids"]) != "[never-seen]" {
			t.Errorf("%d %v", code, got)
		}
		if code, got := w.posts(list); code != 200 || got["repeated"] != 8.0 || got["counted"] != 0.0 {
			t.Errorf("again: %d %v", code, got)
		}
		for _, c := range []struct {
			layer, route, verdict string
			n                     float64
		}{
			{"semantic", "fallback", "bad", 1}, {"semantic", "fallback", "good", 1}, {"task", "fallback", "good", 1},
			{"workflow", "fallback", "bad", 1}, {"semantic", "none", "good", 1}, {"semantic", "primary", "good", 0},
		} {
			if n := counted(c.layer, c.route, c.verdict); n != c.n {
				t.Errorf("%+v: counted %v", c, n)
			}
		}
		for range 2 { // before and after it is written into the record
			l := w.incident().Layers
			if l[2].Degraded != (api.Tally{Good: 1, Bad: 1}) || l[3].Degraded != (api.Tally{Good: 1}) || l[2].Primary != (api.Tally{}) {
				t.Errorf("layers %+v", l)
			}
			if l[1].Degraded.Bad != workflow.Degraded.Bad+1 {
				t.Errorf("workflow was %+v and is %+v", workflow, l[1])
			}
			w.passes(40 * time.Second)
		}
		if in := w.incident(); !has(in, api.EntryNote, "semantic bad, route fallback, request "+ids[0]+", by judge: wrong currency") {
			t.Errorf("timeline %+v", in.Timeline)
		}
		for _, wrong := range []string{
			"", "[]", "{", `{"request_id":"a"}`, `{"request_id":"a","layer":"technical","good":true,"by":"x"}`,
			`{"request_id":"a","layer":"task","by":"x"}`, `{"request_id":"a","layer":"task","good":true,"by":" "}`,
			`{"request_id":"a","layer":"task","good":true,"by":"x","prompt":"p"}`,
			`[` + report(ids[2], "semantic", true, "new") + `,{}]`,
			report("a", "task", true, strings.Repeat("x", 65)), report("a", "task", true, "x") + "{}", report("a", "task", true, "x") + "}",
			"[" + strings.TrimSuffix(strings.Repeat(report("a", "task", true, "x")+",", 101), ",") + "]",
		} {
			if code, got := w.posts(wrong); code != 400 {
				t.Errorf("%s: %d %v", wrong, code, got)
			}
		}
		if n := counted("semantic", "fallback", "good"); n != 1 {
			t.Errorf("a list with one that is wrong was counted: %v", n)
		}
	})
}

// A fallback ratio over its limit is an incident of its own where nothing is
// degraded, and is over when the ratio is.
func TestARatioOverItsLimitIsAnIncident(t *testing.T) {
	models := "  m: {candidates: [{upstream: A, model: x, capabilities: [text]}, {upstream: B, model: x, weight: 10, capabilities: [text]}]}\n"
	inWard(t, illness{rate: 5, models: models, more: "limit: {fallback_ratio: 0.02}\n"}, func(w *ward) {
		w.passes(3 * time.Minute)
		if n := len(w.gw.OperatorState().Incidents); n != 0 {
			t.Fatalf("%d incidents of a calm gateway", n)
		}
		w.up["A"].plays(w.sick(0.15, 500))
		w.passes(5 * time.Minute)
		in := w.incident()
		if in.Cause != api.CauseRatio || len(in.Upstreams) != 0 || in.Milestones.FirstSwitch.IsZero() || !in.Milestones.Recovered.IsZero() {
			t.Errorf("%+v", in.IncidentHead)
		}
		w.up["A"].plays(ok)
		w.passes(6 * time.Minute)
		if in = w.incident(); in.Milestones.Recovered.IsZero() || in.Milestones.TrafficBack.IsZero() || in.State != api.IncidentOpen {
			t.Errorf("%+v", in.IncidentHead)
		}
	})
}

// vanishes has the upstream out of reach, for those who are connected too.
func (a *actor) vanishes() {
	a.closes()
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.conns {
		_ = c.Close()
	}
}

// While no upstream can be reached that is one incident, of the whole gateway: it is
// about no upstream, nobody is degraded for it, and the first answer ends it.
func TestASharedFaultIsAnIncident(t *testing.T) {
	inWard(t, illness{brief: true, rate: 5}, func(w *ward) {
		w.passes(time.Minute)
		began := time.Now()
		w.up["A"].vanishes()
		w.up["B"].vanishes()
		w.until("the fault is found", time.Minute, func(s api.State) bool { return s.SharedFault != nil })
		w.passes(2 * time.Second)
		in := w.incident()
		if in.Cause != api.CauseSharedFault || in.OpenedBy != "auto" || len(in.Upstreams) != 0 || !strings.Contains(in.Title, "shared fault") {
			t.Errorf("%+v", in.IncidentHead)
		}
		if d := in.Milestones.FirstFailure.Sub(began); d < 0 || d > 2*time.Second {
			t.Errorf("the first failure is %s after the path was cut", d)
		}
		if !slices.Equal(milestonesOf(in.Milestones), []string{"failure", "switch"}) || !has(in, api.EntryEvent, "shared fault") {
			t.Errorf("%+v, timeline %+v", in.Milestones, in.Timeline)
		}
		// Longer than it takes to degrade: it is still the one, and about nobody.
		w.passes(8 * time.Minute)
		if in = w.incident(); len(in.Upstreams) != 0 || !in.Milestones.Recovered.IsZero() || in.Requests.Failed == 0 || in.Requests.Primary != 0 {
			t.Errorf("%+v %+v", in.IncidentHead, in.Requests)
		}
		w.listens("B")
		w.until("the first answer ends it", 5*time.Minute, func(s api.State) bool { return s.SharedFault == nil })
		w.passes(2 * time.Second)
		in = w.incident()
		if !slices.Equal(milestonesOf(in.Milestones), []string{"back", "failure", "recovered", "switch"}) || in.State != api.IncidentOpen {
			t.Errorf("once it was over: %+v", in.IncidentHead)
		}
		if !has(in, api.EntryMilestone, "the shared fault is over") {
			t.Errorf("timeline %+v", in.Timeline)
		}
		// What is left of it is A's own, and joins.
		w.until("A is degraded", 15*time.Minute, func(s api.State) bool { return of(s, "A").Health == api.Degraded })
		w.passes(2 * time.Second)
		in = w.incident()
		if !slices.Equal(in.Upstreams, []string{"A"}) || !has(in, api.EntryMilestone, "relapse: A is degraded") || !in.Milestones.TrafficBack.IsZero() {
			t.Errorf("A alone: %+v, timeline %+v", in.IncidentHead, in.Timeline)
		}
		w.listens("A")
	})
}
