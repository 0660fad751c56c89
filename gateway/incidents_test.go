package gateway_test

import (
	"context"
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
	inWard(t, illness{brief: true, rate: 5}, func(w *ward) {
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
		if !has(in, api.EntryEvent, "closed > open") || !has(in, api.EntryEvent, "> degraded") || !has(in, api.EntryOpened, "A degraded") {
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
