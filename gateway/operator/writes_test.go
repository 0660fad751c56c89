package operator

import (
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// The last write is the newest revision whoever wrote it, told as it was, or the last
// command where that is newer.
func TestLastWriteIsTheNewestOfAll(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 3, 1, 3, 19, s, 0, time.UTC) }
	up := func(name string, revision uint64, by string, s int) api.Upstream {
		return api.Upstream{Name: name, Share: 5, Revision: revision, RevisedBy: by, RevisedAt: at(s)}
	}
	root := &api.Event{Event: api.KindCommand, Action: actionShare, Provider: "a", To: "25", By: "root", Revision: 5, Time: at(20)}
	breaker := &api.Event{Event: api.KindCommand, Action: actionBreaker, Provider: "a", Capability: "text", By: "root", Time: at(20)}
	v := newEvents(at(0))
	v.add(api.Event{Event: api.KindStep, Action: actionShare, Provider: "a", From: "25", To: "5", Reason: "retreat", By: "auto", Revision: 7, Time: at(25)})
	v.add(api.Event{Event: api.KindHealth, Provider: "a", From: "recovering", To: "degraded", By: "auto", Revision: 7, Time: at(25)})
	for _, tc := range []struct {
		name     string
		command  *api.Event
		us       []api.Upstream
		by       string // empty: there is none
		revision uint64
		reason   string
		sec      int
	}{
		{name: "nothing but starts", us: []api.Upstream{up("a", 1, "auto", 1), up("b", 1, "auto", 1)}},
		{name: "degraded before anybody did anything", us: []api.Upstream{up("b", 2, "auto", 9)}, by: "auto", revision: 2, sec: 9},
		{name: "a retreat after a command", command: root, us: []api.Upstream{up("a", 7, "auto", 25)}, by: "auto", revision: 7, reason: "retreat", sec: 25},
		{name: "the command's own revision", command: root, us: []api.Upstream{up("a", 5, "root", 19)}, by: "root", revision: 5, sec: 20},
		{name: "its own though its clock is ahead", command: root, us: []api.Upstream{up("a", 5, "root", 21)}, by: "root", revision: 5, sec: 20},
		{name: "of one upstream the revision tells", command: root, us: []api.Upstream{up("a", 6, "auto", 18)}, by: "auto", revision: 6, sec: 18},
		{name: "an older one of another upstream", command: root, us: []api.Upstream{up("b", 9, "auto", 19)}, by: "root", revision: 5, sec: 20},
		{name: "a newer one of another upstream", command: root, us: []api.Upstream{up("a", 5, "root", 19), up("b", 9, "plan:ana", 21)}, by: "plan:ana", revision: 9, sec: 21},
		{name: "the newest of several", command: root, us: []api.Upstream{up("b", 9, "ben", 40), up("a", 7, "auto", 25)}, by: "ben", revision: 9, sec: 40},
		{name: "a breaker's command has no revision", command: breaker, us: []api.Upstream{up("a", 7, "auto", 19)}, by: "root", sec: 20},
		{name: "a record that does not say who", command: root, us: []api.Upstream{up("a", 7, "", 25)}, by: "root", revision: 5, sec: 20},
	} {
		w := lastWrite(tc.command, tc.us, v.revision)
		if tc.by == "" {
			if w != nil {
				t.Errorf("%s: %+v", tc.name, w)
			}
			continue
		}
		if w == nil || w.By != tc.by || w.Revision != tc.revision || w.Reason != tc.reason || !w.Time.Equal(at(tc.sec)) {
			t.Errorf("%s: %+v", tc.name, w)
		}
	}
	if root.Time != at(20) || root.By != "root" {
		t.Errorf("the command was changed: %+v", root)
	}
}

// The state and a refusal of what was based on an older revision say the same.
func TestTheMachineIsTheLastToWrite(t *testing.T) {
	ts := start(t, nil)
	if _, err := ts.ana(t).SetShare(t.Context(), "a", api.Command{Share: new(5)}); err != nil {
		t.Fatal(err)
	}
	ts.control.mu.Lock()
	ts.control.revision, ts.control.share, ts.control.revisedBy, ts.control.revisedAt = 9, 0, decision.Auto, time.Now()
	ts.control.mu.Unlock()
	ts.Event(decision.Event{Kind: decision.KindTrafficStep, Action: "share", Provider: "a", From: "5", To: "0", Reason: "retreat", By: decision.Auto, Revision: 9, Result: "ok"})
	st, err := ts.ana(t).State(t.Context())
	if err != nil || st.LastWrite == nil || st.LastWrite.By != decision.Auto || st.LastWrite.Revision != 9 || st.LastWrite.From != "5" {
		t.Errorf("%+v %v", st.LastWrite, err)
	}
	_, err = ts.ana(t).SetShare(t.Context(), "a", api.Command{Share: new(75), Revision: new(uint64(8))})
	e := apiError(t, err, 409, api.CodeStaleRevision)
	if e.LastWrite == nil || e.LastWrite.By != decision.Auto || e.LastWrite.Revision != 9 {
		t.Errorf("%+v", e.LastWrite)
	}
}
