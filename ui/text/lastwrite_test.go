package text

import (
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// The last write bears its revision, whoever wrote it and whatever it changed.
func TestLastWriteSaysTheRevision(t *testing.T) {
	now := time.Date(2026, 3, 1, 3, 20, 0, 0, time.UTC)
	at := now.Add(-35 * time.Second)
	for _, tc := range []struct {
		w    *api.Event
		want string
	}{
		{nil, "none"},
		{&api.Event{Event: api.KindStep, Action: "share", Provider: "a", From: "25", To: "5", Reason: "retreat", By: "auto", Revision: 7, Time: at}, "03:19:25Z by auto: a share 25% > 5% rev 7 (retreat)"},
		{&api.Event{Event: api.KindHealth, Provider: "a", From: "recovering", To: "healthy", By: "auto", Revision: 8, Time: at}, "03:19:25Z by auto: a RECOVERING > HEALTHY, rev 8"},
		{&api.Event{Event: api.KindStep, Action: "share", Provider: "a", To: "5", By: "plan:ana", Revision: 9, Time: at}, "03:19:25Z by plan:ana: a share 5% rev 9"},
		{&api.Event{Event: api.KindCommand, Action: "breaker", Provider: "a", Capability: "text", From: "open", To: "close", By: "ana", Result: "ok", Time: at}, "03:19:25Z by ana: a text breaker open > close"},
	} {
		if got := lastWrite(&api.State{LastWrite: tc.w}, now); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
