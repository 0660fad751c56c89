package ui

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/ui/text"
)

// TestUndoSaysWhoChangedItSince: where an upstream moved on since a person changed it,
// u names who did what, as far as it is known.
func TestUndoSaysWhoChangedItSince(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after api.Event // what came after ana's change
		by    string    // who wrote the revision in force
		want  string    // after the upstream's name; TIME is the time
	}{
		{"a retreat", api.Event{Event: "traffic_step", Action: "share", From: "25", To: "5", By: "auto", Reason: "retreat", Revision: 7}, "auto", ": auto set 5% at TIME (retreat), rev 7"},
		{"a step of a plan", api.Event{Event: "traffic_step", Action: "share", From: "25", To: "75", By: "plan:ben", Reason: "raised", Revision: 7}, "plan:ben", ": plan:ben set 75% at TIME, rev 7"},
		{"its state alone", api.Event{Event: "health_transition", Action: "state", From: "recovering", To: "healthy", By: "auto", Revision: 7}, "auto", ": auto changed it at TIME, rev 7"},
		{"nobody knows", api.Event{Event: "credential"}, "", " was changed again, by whom is not known, rev 7"},
	} {
		inBubble(t, func(m *model) {
			s := incidentState()
			u := &s.Upstreams[3]
			u.Share, u.Revision, u.RevisedBy, u.StateBy = 5, 7, tc.by, tc.by
			if tc.by != "" {
				u.RevisedAt = time.Now().Add(-time.Minute)
			}
			after := tc.after
			after.Seq, after.Provider, after.Time, after.Result = 9, u.Name, time.Now().Add(-time.Minute), "ok"
			give(m, s, []api.Event{after, {Seq: 8, Event: "traffic_step", Action: "share", Time: time.Now().Add(-5 * time.Minute), Provider: u.Name, From: "5", To: "25", By: "ana", Reason: "raised", Revision: 5, Result: "ok"}}, nil)
		}, func(t *testing.T, m *model, _ *recorder) {
			u := m.live.state.Value().Upstreams[3]
			at := text.Clock(time.Now().Add(-time.Minute), time.Now())
			typed(m, "W")
			want := u.Name + strings.ReplaceAll(tc.want, "TIME", at)
			if got := m.noUndo(); got != want {
				t.Errorf("%s: %q, want %q", tc.name, got, want)
			}
			typed(m, "u")
			if m.dialog != nil || !strings.Contains(m.message.text, "u is off: "+want) {
				t.Errorf("%s: said %q", tc.name, m.message.text)
			}
		})
	}
}
