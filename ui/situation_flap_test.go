package ui

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// flapEvents are those of an upstream that is down: two of its buckets try every
// two seconds, 36 times each, and meanwhile its traffic was taken away.
func flapEvents() []api.Event {
	var es []api.Event
	begin := ago(82 * time.Second)
	add := func(at time.Duration, e api.Event) {
		e.Seq, e.Time, e.By = uint64(len(es)+1), begin.Add(at), "auto"
		es = append(es, e)
	}
	bucket := func(at time.Duration, capability, from, to, reason, detail string) {
		add(at, api.Event{Event: "breaker_transition", Provider: "anthropic-us-east-1", Capability: capability, From: from, To: to, Reason: reason, Detail: detail})
	}
	for _, c := range []string{"text", "stream"} {
		bucket(0, c, "closed", "open", "failure_rate", "12/20 failed (server_error x12)")
	}
	for i := range 36 {
		at := time.Duration(2*i+2) * time.Second
		for _, c := range []string{"text", "stream"} {
			bucket(at, c, "open", "half_open", "cooldown_over", "")
		}
		cause := "500"
		if i == 20 {
			cause = "503"
		}
		for _, c := range []string{"stream", "text"} {
			bucket(at+100*time.Millisecond, c, "half_open", "open", "probe_failed", "1/1 probes failed ("+cause+")")
		}
		if i == 14 {
			add(at+time.Second, api.Event{Event: "health_transition", Provider: "anthropic-us-east-1", From: "suspect", To: "degraded", Detail: "two independent groups red for 30s"})
			add(at+time.Second, api.Event{Event: "traffic_step", Provider: "anthropic-us-east-1", From: "100", To: "0", Action: "share", Reason: "degraded", Revision: 2})
		}
	}
	return es
}

func flapping(m *model) {
	give(m, incidentState(), flapEvents(), decisionsOf("breaker_open"))
	keep(m, incidentNumbers())
}

func init() {
	alike = append(alike, []situation{
		{"flapping", flapping},
		{"flapping-changes", func(m *model) { flapping(m); keys(m, "e") }},
		{"flapping-change", func(m *model) { flapping(m); keys(m, "e", "enter") }},
	}...)
}

// Tries that go on failing leave the rest in view, wherever changes are listed.
func TestFlapsLeaveTheRestInView(t *testing.T) {
	inSituation(t, "flapping", 80, 24, func(t *testing.T, m *model) {
		for _, where := range []string{"overview", "changes"} {
			got := screenOf(m)
			for _, want := range []string{"text still OPEN, 36 failed since 04:11Z", "stream still OPEN, 36 failed since 04:11Z", "SUSPECT > DEGRADED", "share 100% > 0%"} {
				if !strings.Contains(got, want) {
					t.Errorf("%s: no %q:\n%s", where, want, got)
				}
			}
			if strings.Contains(got, "HALF > OPEN") {
				t.Errorf("%s: tries have rows of their own:\n%s", where, got)
			}
			keys(m, "e")
		}
	})
}

// Of many buckets that go on trying the overview shows as many as leave half of
// the panel to others, and counts the rest.
func TestManyFlapsLeaveHalf(t *testing.T) {
	inSituation(t, "flapping", 80, 24, func(t *testing.T, m *model) {
		var es []api.Event
		for _, e := range flapEvents() {
			for i := range 4 {
				if e.Event != "breaker_transition" && i > 0 {
					break
				}
				v := e
				v.Seq = uint64(len(es) + 1)
				if e.Event == "breaker_transition" {
					v.Provider = "up-" + strconv.Itoa(i)
				}
				es = append(es, v)
			}
		}
		m.live = newData()
		give(m, incidentState(), es, nil)
		got := screenOf(m)
		if strings.Count(got, "still OPEN") != 2 || !strings.Contains(got, "+6 more: e") || !strings.Contains(got, "SUSPECT > DEGRADED") || !strings.Contains(got, "share 100% > 0%") {
			t.Error(got)
		}
		keys(m, "e")
		if got := screenOf(m); strings.Count(got, "still OPEN") != 8 {
			t.Error(got)
		}
	})
}

// An opened row of tries says all that it stands for, and stays what it is while
// they go on; the list then follows again.
func TestOpenedFlapsStay(t *testing.T) {
	inSituation(t, "flapping-change", 100, 120, func(t *testing.T, m *model) {
		all := flapEvents()
		opened := screenOf(m)
		for _, want := range []string{"still OPEN", "36 tries", "2000-01-01T04:11:11", "probe_failed", "1/1 probes failed (500)", "1/1 probes failed (503)", "72 changes"} {
			if !strings.Contains(opened, want) {
				t.Errorf("no %q:\n%s", want, opened)
			}
		}
		if n := strings.Count(opened, "HALF > OPEN"); n != 36 {
			t.Errorf("%d of 36 tries are listed", n)
		}
		next := api.Event{Seq: uint64(len(all) + 1), Event: "breaker_transition", Time: time.Now(), By: "auto", Provider: "anthropic-us-east-1", Capability: "text", From: "open", To: "half_open"}
		give(m, incidentState(), []api.Event{next}, nil)
		if got := screenOf(m); !strings.Contains(got, "36 tries, one") || strings.Contains(got, "again HALF") {
			t.Errorf("it changed while it was open:\n%s", got)
		}
		if got := m.rowText(); !strings.Contains(got, "THIS ROW STANDS FOR 72 changes") || strings.Count(got, "HALF > OPEN") != 36 {
			t.Errorf("the copy lacks some:\n%s", got)
		}
		keys(m, "esc", "g")
		if got := screenOf(m); !strings.Contains(got, "text again HALF, 36 tries failed since 04:11:11Z  500") {
			t.Errorf("it does not follow:\n%s", got)
		}
	})
}

// A row of tries is found by what it says and by what it stands for, is held
// under the cursor, stands still while frozen, and is copied as it is said.
func TestFlapsAreRows(t *testing.T) {
	inSituation(t, "flapping-changes", 100, 30, func(t *testing.T, m *model) {
		_, all := m.changeRows()
		if all != 6 {
			t.Errorf("%d rows", all)
		}
		for filter, want := range map[string]int{"still open": 2, "stream still": 1, "(503)": 2, "degraded": 2, "half > open": 2} {
			keys(m, "/")
			for _, c := range filter {
				keys(m, string(c))
			}
			keys(m, "enter")
			if rows, _ := m.changeRows(); len(rows) != want {
				t.Errorf("%q: %d rows, want %d", filter, len(rows), want)
			}
			keys(m, "esc")
		}
		if got, want := m.rowText(), "anthropic-us-east-1 text still OPEN, 36 tries failed since 04:11:11Z  500"; !strings.HasSuffix(got, want) {
			t.Errorf("copied: %s", got)
		}
		keys(m, "j")
		before := m.rowText()
		n := uint64(len(flapEvents()))
		more := []api.Event{
			{Seq: n + 1, Event: "breaker_transition", Time: time.Now(), Provider: "anthropic-us-east-1", Capability: "text", From: "open", To: "half_open"},
			{Seq: n + 2, Event: "breaker_transition", Time: time.Now(), Provider: "anthropic-us-east-1", Capability: "text", From: "half_open", To: "ramping", Reason: "probes_ok"},
		}
		give(m, incidentState(), more, nil)
		if got := m.rowText(); got != before {
			t.Errorf("under the cursor was %s, is %s", before, got)
		}
		keys(m, "g", "f")
		frozen := screenOf(m)
		if !strings.Contains(frozen, "text HALF > RAMP") || !strings.Contains(frozen, "text OPEN > HALF") || !strings.Contains(frozen, "text stayed OPEN, 36 tries") {
			t.Error(frozen)
		}
		give(m, incidentState(), []api.Event{{Seq: n + 3, Event: "breaker_transition", Time: time.Now(), Provider: "anthropic-us-east-1", Capability: "text", From: "ramping", To: "closed"}}, nil)
		rows := func(s string) string {
			return strings.Join(slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return !strings.Contains(l, " auto ") }), "\n")
		}
		if got := screenOf(m); rows(got) != rows(frozen) {
			t.Errorf("frozen, it moved:\n%s\n%s", frozen, got)
		}
	})
}

// On the overview a breaker that tries is told by how that ended.
func TestATryAloneIsNoChange(t *testing.T) {
	inSituation(t, "calm", 120, 40, func(t *testing.T, m *model) {
		e := func(seq uint64, from, to string) api.Event {
			return api.Event{Seq: seq, Event: "breaker_transition", Time: time.Now(), Provider: "vertex-us-central1", Capability: "text", From: from, To: to}
		}
		give(m, incidentState(), []api.Event{e(901, "closed", "open"), e(902, "open", "half_open")}, nil)
		got := screenOf(m)
		if _, changes, _ := strings.Cut(got, "CHANGES AND TRIPS"); !strings.Contains(changes, "CLOSED > OPEN") || strings.Contains(changes, "HALF") {
			t.Errorf("a try has a line of its own:\n%s", got)
		}
	})
}

// What the gateway's ring lost is no try that failed.
func TestFlapsAfterLoss(t *testing.T) {
	inSituation(t, "flapping-changes", 120, 30, func(t *testing.T, m *model) {
		n := uint64(len(flapEvents()))
		var es []api.Event
		for i := range 10 {
			from, to := "open", "half_open"
			if i%2 == 1 {
				from, to = to, from
			}
			es = append(es, api.Event{Seq: n + 1000 + uint64(i), Event: "breaker_transition", Time: time.Now(), Provider: "anthropic-us-east-1", Capability: "text", From: from, To: to, Reason: "probe_failed"})
		}
		now := time.Now()
		m.Update(eventsMsg{Gen: ask(&m.live.events, now), Value: &api.Events{Events: es, Dropped: 999, At: now}})
		got := screenOf(m)
		for _, want := range []string{"text still OPEN, at least 5 tries failed since", "text stayed OPEN, 36 tries failed since", "stream stayed OPEN, 36 tries", "999 changes lost before seen"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q:\n%s", want, got)
			}
		}
	})
}
