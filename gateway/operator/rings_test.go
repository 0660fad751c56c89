package operator

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

func TestEventsRing(t *testing.T) {
	v := newEvents(time.Now())
	if l, dropped, known := v.since(0, 10); len(l) != 0 || dropped != 0 || !known || v.newest() != v.base {
		t.Errorf("empty: %v %d %v", l, dropped, known)
	}
	for i := range keptEvents + 10 {
		v.add(api.Event{To: fmt.Sprint(i)})
	}
	for _, tc := range []struct {
		name    string
		after   uint64
		limit   int
		first   string
		n       int
		dropped uint64
		known   bool
	}{
		{"all", 0, keptEvents, "10", keptEvents, 10, true},
		{"all, from the number of no event", v.base, keptEvents, "10", keptEvents, 10, true},
		{"limited", 0, 3, "10", 3, 10, true},
		{"some left the ring", v.base + 4, 1, "10", 1, 6, true},
		{"the oldest kept is next", v.base + 10, 1, "10", 1, 0, true},
		{"in the middle", v.base + 2000, 2, "2000", 2, 0, true},
		{"the newest", v.last - 1, 5, fmt.Sprint(keptEvents + 9), 1, 0, true},
		{"nothing new", v.last, 5, "", 0, 0, true},
		{"of an earlier process", 17, 1, "10", 1, 10, false},
		{"of a later clock", v.last + 1, 1, "10", 1, 10, false},
	} {
		l, dropped, known := v.since(tc.after, tc.limit)
		if len(l) != tc.n || dropped != tc.dropped || known != tc.known || tc.n > 0 && l[0].To != tc.first {
			t.Errorf("%s: %d from %.1v, %d dropped, known %v", tc.name, len(l), l, dropped, known)
		}
		for i := 1; i < len(l); i++ {
			if l[i].Seq != l[i-1].Seq+1 {
				t.Fatalf("%s: %d follows %d", tc.name, l[i].Seq, l[i-1].Seq)
			}
		}
	}
	// A process started later numbers above all of this one's.
	if later := newEvents(time.Now()); later.base <= v.base {
		t.Error("numbers of a later process are not above")
	}
}

func TestDecisionsRing(t *testing.T) {
	v := newDecisions()
	now := time.Unix(1_800_000_000, 0)
	total, perMinute := v.counts(now)
	if kept := v.newest(&filter{}, keptDecisions); len(kept) != 0 || total != 0 || perMinute != 0 {
		t.Errorf("empty: %d %d %d", len(kept), total, perMinute)
	}
	for i := range keptDecisions + 100 {
		v.add(&decision.Decision{HTTPStatus: i}, now.Add(-90*time.Second+time.Duration(i)*20*time.Millisecond))
	}
	kept := v.newest(&filter{}, keptDecisions)
	total, perMinute = v.counts(now)
	if len(kept) != keptDecisions || total != keptDecisions+100 || kept[0].HTTPStatus != keptDecisions+99 || kept[keptDecisions-1].HTTPStatus != 100 {
		t.Errorf("%d kept of %d, %d..%d", len(kept), total, kept[0].HTTPStatus, kept[len(kept)-1].HTTPStatus)
	}
	if want := keptDecisions + 100 - 31*50; perMinute != want { // those of the last 60 whole seconds, this one included
		t.Errorf("%d a minute, want %d", perMinute, want)
	}
	if l := v.newest(&filter{}, 65); len(l) != 65 || l[64].HTTPStatus != keptDecisions+99-64 {
		t.Errorf("%d found", len(l))
	}
	if _, perMinute := v.counts(now.Add(time.Hour)); perMinute != 0 {
		t.Errorf("%d a minute after an hour", perMinute)
	}
	found, left, next := v.since(total-5, 3)
	if len(found) != 3 || left != 2 || next != total || found[2].HTTPStatus != keptDecisions+99 {
		t.Errorf("%d found, %d left, next %d", len(found), left, next)
	}
	if found, left, _ := v.since(0, 1<<20); len(found) != keptDecisions || left != 100 {
		t.Errorf("%d found, %d left", len(found), left)
	}
	if found, left, next := v.since(total, 5); len(found) != 0 || left != 0 || next != total {
		t.Errorf("%d found, %d left, next %d", len(found), left, next)
	}
}

// A request's record must not keep the request: its body may be large.
func TestDecisionsKeepNoRequest(t *testing.T) {
	type exchange struct {
		body []byte
		d    decision.Decision
	}
	v := newDecisions()
	gone := make(chan struct{})
	x := &exchange{body: make([]byte, 1<<20)}
	runtime.AddCleanup(x, func(c chan struct{}) { close(c) }, gone)
	v.add(&x.d, time.Now())
	waitFor(t, "the request to be freed", func() bool {
		runtime.GC()
		select {
		case <-gone:
			return true
		default:
			return false
		}
	})
	runtime.KeepAlive(v)
}

func BenchmarkDecision(b *testing.B) {
	v := newDecisions()
	d := &decision.Decision{}
	b.ReportAllocs()
	for b.Loop() {
		v.add(d, time.Now())
	}
}

func TestDecisionFilters(t *testing.T) {
	ts := start(t, nil)
	now := time.Now()
	for i, d := range []*decision.Decision{
		{Task: "refund", Status: decision.Human, Primary: "a", Route: decision.RouteNone},
		{Task: "refund", Status: decision.Completed, Primary: "a", Selected: "a"},
		{Task: "policy_question", Status: decision.DegradedCompleted, Primary: "a", Selected: "b"},
		{Task: "unnamed", Status: decision.Unavailable, Primary: "a", Attempts: []decision.Attempt{{Provider: "a"}, {Provider: "c"}}},
	} {
		d.RequestID = fmt.Sprintf("r%d", i)
		d.Time = now.Add(time.Duration(i) * time.Second)
		ts.Decision(d)
	}
	for _, tc := range []struct {
		f    api.Filter
		want string
	}{
		{api.Filter{}, "r3 r2 r1 r0"},
		{api.Filter{Limit: 2}, "r3 r2"},
		{api.Filter{Task: "refund"}, "r1 r0"},
		{api.Filter{Task: "refund", Status: "human"}, "r0"},
		{api.Filter{Provider: "b"}, "r2"},
		{api.Filter{Provider: "c"}, "r3"},
		{api.Filter{Provider: "a", Limit: 3}, "r3 r2 r1"},
		{api.Filter{RequestID: "r2"}, "r2"},
		{api.Filter{Since: now.Add(2 * time.Second)}, "r3 r2"},
		{api.Filter{Task: "nothing"}, ""},
	} {
		got, err := ts.ana(t).Decisions(t.Context(), tc.f)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, d := range got.Decisions {
			ids = append(ids, d.RequestID)
		}
		if s := strings.Join(ids, " "); s != tc.want || got.Total != 4 || got.PerMinute != 4 || got.At.IsZero() {
			t.Errorf("%+v: %s, %d of %d", tc.f, s, got.PerMinute, got.Total)
		}
	}
}

// What an answer would ignore is refused: it would pass for a filtered one.
func TestParametersAreChecked(t *testing.T) {
	ts := start(t, nil)
	for path, says := range map[string]string{
		"decisions?limit=0":              "number from 1 to 4096",
		"decisions?limit=x":              "number from 1 to 4096",
		"decisions?limit=99999999999999": "number from 1 to 4096",
		"decisions?status=ok":            "there are completed, degraded_completed",
		"decisions?tsak=refund":          "known are limit, task",
		"decisions?task=a&task=b":        "given 2 times",
		"decisions?since=yesterday":      "2006-01-02",
		"decisions?a=%zz":                "malformed",
		"events?after=-1":                "sequence number",
		"events?after=x":                 "sequence number",
		"events?decisions=true":          "for streams only",
		"audit?limit=1001":               "number from 1 to 1000",
		"state?x=1":                      "not known",
	} {
		status, body := ts.raw(t, "GET", "/operator/v1/"+path, "", "Authorization", "Bearer "+vicToken)
		if status != 422 || !strings.Contains(body, says) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

func TestEventsAsJSON(t *testing.T) {
	ts := start(t, nil)
	for i := range 3 {
		ts.Event(decision.Event{Kind: decision.KindTrafficStep, To: fmt.Sprint(i)})
	}
	all, err := ts.ana(t).Events(t.Context(), 0)
	if err != nil || len(all.Events) != 3 || all.Dropped != 0 || all.Events[0].To != "0" || all.Events[0].Time.IsZero() {
		t.Fatalf("%+v %v", all, err)
	}
	rest, err := ts.ana(t).Events(t.Context(), all.Events[1].Seq)
	if err != nil || len(rest.Events) != 1 || rest.Events[0] != all.Events[2] {
		t.Errorf("%+v %v", rest, err)
	}
}

func TestSessions(t *testing.T) {
	var s sessions
	now := time.Now()
	s.seen(asked("1"), "ana", "gw", false, now)
	s.seen(asked("1"), "eve", "gw", false, now.Add(time.Second)) // the same id is another's session
	s.seen(asked(""), "nobody", "gw", false, now)
	s.seen(asked("a b"), "nobody", "gw", false, now)
	s.seen(asked(strings.Repeat("x", 65)), "nobody", "gw", false, now)
	s.seen(asked("1"), "ana", "gw", true, now.Add(time.Minute))
	l := s.list("1", "ana", now.Add(time.Minute))
	if len(l) != 2 || l[0].Name != "ana" || !l[0].You || l[1].You || !l[0].Writes.Equal(now.Add(time.Minute)) || !l[0].Since.Equal(now) || !l[1].Writes.IsZero() {
		t.Errorf("%+v", l)
	}
	if l := s.list("1", "ana", now.Add(sessionLife+2*time.Second)); len(l) != 1 || l[0].Name != "ana" {
		t.Errorf("later: %+v", l)
	}
	for i := range 2 * maxSessions {
		s.seen(asked(fmt.Sprint("many", i)), "ana", "gw", false, now.Add(time.Minute))
	}
	if len(s.m) > maxSessions {
		t.Errorf("%d sessions", len(s.m))
	}
	s.seen(asked("fresh"), "ben", "gw", false, now.Add(time.Hour)) // the old ones make room
	if l := s.list("", "", now.Add(time.Hour)); len(l) != 1 {
		t.Errorf("%d sessions after an hour", len(l))
	}
	s.leave(asked("fresh"), "ana") // another's session of the same id
	if l := s.list("", "", now.Add(time.Hour)); len(l) != 1 {
		t.Errorf("%d sessions after another one left", len(l))
	}
	s.leave(asked("fresh"), "ben")
	if l := s.list("", "", now.Add(time.Hour)); len(l) != 0 {
		t.Errorf("%d sessions after the last one left", len(l))
	}
}

// asked is a request in the session id of a console that says, if it does, for
// how long it was idle.
func asked(id string, idle ...string) *http.Request {
	r := &http.Request{Header: http.Header{}}
	r.Header.Set(api.SessionHeader, id)
	for _, v := range idle {
		r.Header.Set(api.IdleHeader, v)
	}
	return r
}

// Who polls is not therefore there: activity is from the last key where a console
// says so, and from the last question where it does not.
func TestActivityOfSessions(t *testing.T) {
	began := time.Now()
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	for _, tc := range []struct {
		name string
		idle []string // of a question every second; empty: it does not say
		want int
	}{
		{"asleep", []string{"0", "1", "2", "3"}, 0},
		{"awake again", []string{"0", "1", "2", "0"}, 3},
		{"overtaken", []string{"0", "0", "9"}, 1},
		{"idle since before this gateway", []string{"60"}, -60},
		{"it does not say", []string{"", "", ""}, 2},
		{"a stream that goes on", []string{"0", "", ""}, 0},
		{"nonsense", []string{"-1", "soon", "1.5", "99999999999999999999"}, 3},
	} {
		var s sessions
		for i, idle := range tc.idle {
			r := asked("1")
			if idle != "" {
				r = asked("1", idle)
			}
			s.seen(r, "ana", "gw", false, at(i))
		}
		last := at(len(tc.idle) - 1)
		l := s.list("", "", last)
		if len(l) != 1 || !l[0].Active.Equal(at(tc.want)) || !l[0].LastSeen.Equal(last) {
			t.Errorf("%s: %+v, want active %v", tc.name, l, at(tc.want))
		}
	}
}

// A console says over the wire when its operator was last there, and leaves.
func TestAConsoleTakesLeave(t *testing.T) {
	ts := start(t, nil)
	c, other := ts.client(t, "tcp", vicToken, "console-1"), ts.client(t, "tcp", anaToken, "console-2")
	listed := func() []api.Session {
		t.Helper()
		st, err := other.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(st.Sessions, func(s api.Session) bool { return s.You })
	}
	c.Active()
	before := time.Now()
	var last time.Time
	for range 3 {
		if _, err := c.State(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := listed()
		if len(l) != 1 || l[0].Name != "vic" || l[0].Active.Before(before.Add(-2*time.Second)) || l[0].Active.After(l[0].LastSeen) {
			t.Fatalf("%+v", l)
		}
		last = l[0].LastSeen
	}
	if !last.After(before) {
		t.Errorf("last seen %v", last)
	}
	n := len(ts.auditLines(t))
	for range 2 { // a second time changes nothing
		if err := c.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l := listed(); len(l) != 0 {
			t.Errorf("after it left: %+v", l)
		}
	}
	if len(ts.auditLines(t)) != n {
		t.Error("taking leave is in the audit")
	}
	if err := ts.client(t, "tcp", vicToken, "").Leave(t.Context()); err != nil {
		t.Errorf("without a session: %v", err)
	}
	if status, _ := ts.raw(t, "DELETE", "/operator/v1/session", ""); status != http.StatusUnauthorized {
		t.Errorf("a stranger: %d", status)
	}
}
