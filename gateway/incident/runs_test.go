package incident

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

func turn(bucket, from, to, detail string) *api.Event {
	return &api.Event{Event: "breaker_transition", Provider: "a", Capability: bucket, From: from, To: to, Detail: detail}
}

// tells returns what adds events of instance to r.
func tells(r *Record, writer, instance string) func(s float64, e *api.Event) {
	var seq uint64 = 1
	return func(s float64, e *api.Event) {
		seq++
		e = new(*e)
		e.Time = at(s)
		*r = r.Apply(Op{Writer: writer, Instance: instance, Seq: seq, At: at(s), By: "auto", Kind: OpEvent, Event: e})
	}
}

func texts(r Record) (l []string) {
	for _, e := range r.Entries {
		if e.Kind == api.EntryEvent {
			l = append(l, What(&e.IncidentEntry))
		}
	}
	return l
}

// A provider that is down for an hour has its buckets tried and tried again: that is
// one entry of each bucket and gateway, with how many failed and when, and nothing
// gives way to it.
func TestTriesAreOneEntry(t *testing.T) {
	r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Title: "t"})
	here, there := tells(&r, "w", "gw"), tells(&r, "v", "gw-2")
	for _, b := range []string{"text", "json"} {
		here(1, turn(b, "closed", "open", "12/20 failed"))
	}
	there(1, turn("text", "closed", "open", "9/20 failed"))
	for i := range 600 {
		s := 10 + 6*float64(i)
		for _, b := range []string{"text", "json"} {
			here(s, turn(b, "open", "half_open", ""))
			here(s+1, turn(b, "half_open", "open", fmt.Sprintf("1/1 probes failed (%d)", i)))
		}
		there(s+2, turn("text", "open", "half_open", ""))
		if i == 300 {
			r = r.Apply(Op{Writer: "n", Seq: 1, At: at(s), Kind: OpNote, By: "ana", Text: "they know"})
		}
		// A restart, and what another gateway writes: records come and go as JSON.
		if i%100 == 0 {
			j, err := json.Marshal(r)
			var read Record
			if err != nil || json.Unmarshal(j, &read) != nil || len(read.Entries) != len(r.Entries) {
				t.Fatal(err)
			}
			r = read
		}
	}
	here(3610, turn("text", "open", "half_open", ""))
	here(3611, turn("text", "half_open", "ramping", "2/2 probes ok"))
	want := []string{
		"a text CLOSED > OPEN  12/20 failed", "a json CLOSED > OPEN  12/20 failed", "a text CLOSED > OPEN  9/20 failed",
		"a text OPEN > HALF > OPEN, 600 tries failed, the last: 1/1 probes failed (599), until 2026-11-30 05:00:10Z",
		"a json OPEN > HALF > OPEN, 600 tries failed, the last: 1/1 probes failed (599), until 2026-11-30 05:00:05Z",
		"a text OPEN > HALF > OPEN, until 2026-11-30 05:00:06Z",
		"a text HALF > RAMP  2/2 probes ok",
	}
	got := texts(r)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || r.Lost != 0 {
		t.Errorf("%d lost,\n%s\nwant\n%s", r.Lost, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, e := range r.Entries {
		if e.Count == 600 && (!e.At.Equal(at(10)) || e.Event.To != "open") {
			t.Errorf("%+v", e)
		}
	}
}

// What else the bucket did, and what became of its upstream, ends a run; what is of
// another bucket, upstream or gateway does not.
func TestWhatEndsARun(t *testing.T) {
	for _, c := range []struct {
		name    string
		between *api.Event
		by      string
		entries int
	}{
		{"nothing", nil, "auto", 1},
		{"another bucket", turn("json", "closed", "open", ""), "auto", 2},
		{"another upstream", &api.Event{Event: "health_transition", Provider: "b", From: "suspect", To: "degraded"}, "auto", 2},
		{"a reload", &api.Event{Event: "config_reload"}, "ben", 2},
		{"it closed", turn("text", "half_open", "closed", ""), "auto", 3},
		{"forced open", turn("text", "half_open", "open", ""), "ben", 3},
		{"its upstream", &api.Event{Event: "health_transition", Provider: "a", From: "suspect", To: "degraded"}, "auto", 3},
		{"its share", &api.Event{Event: "traffic_step", Provider: "a", From: "0", To: "5"}, "ana", 3},
	} {
		r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Title: "t"})
		tell := tells(&r, "w", "gw")
		tell(1, turn("text", "open", "half_open", ""))
		tell(2, turn("text", "half_open", "open", ""))
		if c.between != nil {
			r = r.Apply(Op{Writer: "o", Instance: "gw", Seq: 1, At: at(3), By: c.by, Kind: OpEvent, Event: c.between})
		}
		tell(4, turn("text", "open", "half_open", ""))
		tell(5, turn("text", "half_open", "open", ""))
		if got := texts(r); len(got) != c.entries {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// Told late, out of order or begun in the middle, a run says the same; what is kept
// from before runs were is left, and goes on as one.
func TestARunFromItsParts(t *testing.T) {
	parts := map[float64]*api.Event{
		1: turn("text", "half_open", "open", "first"), 2: turn("text", "open", "half_open", ""), 3: turn("text", "half_open", "open", "last"), 4: turn("text", "open", "half_open", ""),
	}
	var whole []Record
	for _, order := range [][]float64{{1, 2, 3, 4}, {2, 1, 4, 3}, {4, 3, 2, 1}} {
		r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Title: "t"})
		tell := tells(&r, "w", "gw")
		for _, s := range order {
			tell(s, parts[s])
		}
		whole = append(whole, r)
	}
	for i, r := range whole {
		if e := r.Entries[1]; len(r.Entries) != 2 || !e.At.Equal(at(1)) || !e.Last.Equal(at(4)) || e.Count != 2 || !reflect.DeepEqual(e.IncidentEntry, whole[0].Entries[1].IncidentEntry) {
			t.Errorf("%d: %+v", i, r.Entries)
		}
	}
	var old Record
	if err := json.Unmarshal([]byte(`{"id":"x","state":"open","entries":[
		{"at":"2026-11-30T04:00:01Z","kind":"event","by":"auto","text":"a text breaker transition open > half_open","instance":"gw","event":{"event":"breaker_transition","provider":"a","capability":"text","from":"open","to":"half_open"}},
		{"at":"2026-11-30T04:00:02Z","kind":"event","by":"auto","text":"a text breaker transition half_open > open","instance":"gw","event":{"event":"breaker_transition","provider":"a","capability":"text","from":"half_open","to":"open"}}]}`), &old); err != nil {
		t.Fatal(err)
	}
	tell := tells(&old, "w", "gw")
	tell(3, parts[2])
	tell(4, parts[3])
	if got := texts(old); len(got) != 2 || got[1] != "a text OPEN > HALF > OPEN, 2 tries failed, the last: last, until 2026-11-30 04:00:04Z" {
		t.Errorf("%q", got)
	}
}

// While the store takes nothing, tries give way before what tells more.
func TestTriesGiveWayFirst(t *testing.T) {
	b := opened()
	event := func(s int, e *api.Event) {
		b.Do("x", Op{Kind: OpEvent, At: at(float64(s)), By: "auto", Event: e}, false)
	}
	event(1, turn("text", "closed", "open", "why it began"))
	for i := range 2 * maxPending {
		event(2+2*i, turn("text", "open", "half_open", ""))
		event(3+2*i, turn("text", "half_open", "open", ""))
	}
	b.Learn("x", Record{}, 1)
	r, _, _ := b.Get("x")
	if got := texts(r); len(got) != 2 || got[0] != "a text CLOSED > OPEN  why it began" {
		t.Errorf("%q", got)
	}
}
