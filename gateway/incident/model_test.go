package incident

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

var day = time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)

// course drives Observe and Apply as the gateway does.
type course struct {
	*testing.T
	rand    *rand.Rand
	now     time.Time
	s       Situation
	records map[string]Record
	seq     uint64
	made    map[string]int // entries that somebody asked for, by incident
}

func (c *course) do(id string, op Op) {
	c.seq++
	op.Writer, op.Instance, op.Seq, op.At = "w", "gw", c.seq, later(c.now, op.At)
	before := c.records[id]
	was, _ := json.Marshal(before)
	after := before.Apply(op)
	if is, _ := json.Marshal(before); string(is) != string(was) {
		c.Fatalf("%s changed the record that it was applied to", op.Kind)
	}
	if again := after.Apply(op); !reflect.DeepEqual(again, after) {
		c.Fatalf("%s twice is not once", op.Kind)
	}
	c.records[id] = after
	c.holds(before, after, op)
}

// holds are the invariants of every step.
func (c *course) holds(before, after Record, op Op) {
	m := after.Milestones
	order := []time.Time{m.FirstFailure, m.FirstSwitch, after.OpenedAt}
	if !m.FirstFailure.IsZero() && m.FirstFailure.After(after.OpenedAt) || !m.FirstSwitch.IsZero() && m.FirstSwitch.Before(m.FirstFailure) {
		c.Fatalf("out of order: %v", order)
	}
	if !m.Recovered.IsZero() && m.Recovered.Before(after.OpenedAt) || !m.TrafficBack.IsZero() && (m.Recovered.IsZero() || m.TrafficBack.Before(m.Recovered)) {
		c.Fatalf("out of order: %+v", m)
	}
	if (after.State == api.IncidentClosed) != !m.Closed.IsZero() || m.Closed.Before(m.TrafficBack) && !m.Closed.IsZero() {
		c.Fatalf("%s and %+v", after.State, m)
	}
	b := before.Milestones
	set := func(name string, was, is time.Time, may bool) {
		if !was.IsZero() && !was.Equal(is) && !may {
			c.Fatalf("%s: %s was set to %s and is %s", op.Kind, name, was, is)
		}
	}
	set("first failure", b.FirstFailure, m.FirstFailure, false)
	set("first switch", b.FirstSwitch, m.FirstSwitch, false)
	relapse := op.Kind == OpTrouble && m.Recovered.IsZero()
	set("recovered", b.Recovered, m.Recovered, relapse)
	set("traffic back", b.TrafficBack, m.TrafficBack, op.Kind == OpTrouble && m.TrafficBack.IsZero())
	set("closed", b.Closed, m.Closed, op.Kind == OpReopen)
	if before.State == api.IncidentClosed && after.State != api.IncidentClosed && op.Kind != OpReopen {
		c.Fatalf("%s opened a closed incident", op.Kind)
	}
	if before.State == api.IncidentOpen && after.State == api.IncidentClosed && op.Kind != OpClose {
		c.Fatalf("%s closed an incident", op.Kind)
	}
	ill, away := false, len(after.Troubles) == 0
	sole := true // a ratio tells the milestones where there is no other trouble
	for _, t := range after.Troubles {
		sole = sole && t.Cause == api.CauseRatio
	}
	for _, t := range after.Troubles {
		if t.Cause == api.CauseRatio && !sole {
			continue
		}
		ill, away = ill || t.Phase == Ill, away || t.Phase != Back
	}
	if ill && !m.Recovered.IsZero() || away && !m.TrafficBack.IsZero() || !ill && len(after.Troubles) > 0 && m.Recovered.IsZero() {
		c.Fatalf("troubles %+v, milestones %+v", after.Troubles, m)
	}
	if len(after.Entries)+after.Lost < len(before.Entries)+before.Lost {
		c.Fatalf("%s lost an entry", op.Kind)
	}
	if !slices.IsSortedFunc(after.Entries, func(a, b Entry) int { return a.At.Compare(b.At) }) {
		c.Fatal("the timeline is not by time")
	}
	if len(after.Entries) > maxEntries {
		c.Fatalf("%d entries", len(after.Entries))
	}
	if after.Lost > 0 && len(after.Entries) < maxEntries/2 && after.Lost != before.Lost {
		c.Fatalf("lost below the bound: %d kept, %d lost", len(after.Entries), after.Lost)
	}
}

func (c *course) all() (l []Record) {
	for _, id := range sortedKeys(c.records) {
		l = append(l, c.records[id])
	}
	return l
}

// observe writes what Observe finds until it finds nothing.
func (c *course) observe() {
	for range 10 {
		found := Observe(c.now, c.s, c.all())
		if len(found) == 0 {
			return
		}
		for _, f := range found {
			id := f.Incident
			if id == "" {
				if r, ok := Newest(c.all(), c.now); ok {
					c.Fatalf("a second incident while %s goes on: %+v", r.ID, f)
				}
				id = NewID(c.now, fmt.Sprint(len(c.records)))
				c.do(id, Op{Kind: OpOpen, ID: id, Cause: f.Cause, Title: f.Title, By: "auto"})
			}
			op := Op{Kind: OpTrouble, Key: f.Key, Cause: f.Cause, Upstream: f.Upstream, Phase: f.Phase, Shared: f.Shared, Text: f.Text, At: f.Since}
			if f.Phase == Ill {
				op.FirstFailure = c.now.Add(-time.Duration(c.rand.IntN(100)-10) * time.Second)
				op.FirstSwitch = op.FirstFailure.Add(time.Duration(c.rand.IntN(20)-10) * time.Second)
			}
			c.do(id, op)
			if f.Incident == "" {
				break
			}
		}
	}
	c.Fatalf("never at rest: %+v", Observe(c.now, c.s, c.all()))
}

// changes has something happen to the situation.
func (c *course) changes() {
	u := &c.s.Upstreams[c.rand.IntN(len(c.s.Upstreams))]
	switch c.rand.IntN(8) {
	case 0:
		if u.State != api.Degraded {
			*u = Upstream{Name: u.Name, State: api.Degraded, Since: c.now, Why: "probes"}
		}
	case 1:
		if u.State == api.Degraded {
			u.Failed, u.Probed = u.Probed, !u.Probed
		}
	case 2, 3:
		if u.State == api.Degraded && u.Probed {
			*u = Upstream{Name: u.Name, State: api.Recovering, Share: 25}
		} else if u.State == api.Recovering {
			*u = Upstream{Name: u.Name, State: api.Healthy, Share: 100}
		}
	case 4:
		if c.s.Fault == nil && c.rand.IntN(4) == 0 {
			c.s.Fault = &Fault{Since: c.now, Reason: "path", Detail: "two of two"}
		} else {
			c.s.Fault = nil
		}
	case 5:
		c.s.Ratio.Over, c.s.Ratio.Since = !c.s.Ratio.Over && c.rand.IntN(4) == 0, c.now
	}
}

func (c *course) operator() {
	all := c.all()
	if len(all) == 0 {
		return
	}
	r := all[c.rand.IntN(len(all))]
	switch c.rand.IntN(12) {
	case 0:
		c.do(r.ID, Op{Kind: OpClose, By: "ana", Text: "drill"})
	case 1:
		if c.rand.IntN(4) == 0 {
			c.do(r.ID, Op{Kind: OpReopen, By: "ana"})
		}
	case 2:
		c.do(r.ID, Op{Kind: OpTick, By: "ben", Runbook: "x", Step: 1, Done: true})
	case 3:
		c.do(r.ID, Op{Kind: OpAnswer, By: "ben", Question: api.ClosingQuestions[c.rand.IntN(6)], Text: "yes"})
	case 4:
		c.do(r.ID, Op{Kind: OpCount, Counts: Counts{Primary: 1}})
	default:
		c.do(r.ID, Op{Kind: OpNote, By: "ana", Text: "note"})
		c.made[r.ID]++
	}
}

func TestARandomCourse(t *testing.T) {
	for seed := range uint64(30) {
		c := &course{T: t, rand: rand.New(rand.NewPCG(seed, 7)), now: day, records: map[string]Record{}, made: map[string]int{}}
		c.s.Instance = "gw"
		for _, name := range []string{"a", "b", "c"} {
			c.s.Upstreams = append(c.s.Upstreams, Upstream{Name: name, State: api.Healthy, Share: 100})
		}
		for range 600 {
			c.now = c.now.Add(time.Duration(c.rand.IntN(300)) * time.Second)
			c.changes()
			c.observe()
			if c.rand.IntN(3) == 0 {
				c.operator()
				c.observe()
			}
		}
		for id, n := range c.made {
			r, notes := c.records[id], 0
			for _, e := range r.Entries {
				if e.Kind == api.EntryNote {
					notes++
				}
			}
			if notes != n && r.Lost == 0 {
				t.Errorf("seed %d: %s has %d notes of %d", seed, id, notes, n)
			}
		}
		if len(c.records) == 0 {
			t.Errorf("seed %d: nothing was opened", seed)
		}
	}
}

// shelf is a store with compare-and-swap, where a write may be done and not said
// to be.
type shelf struct {
	record   Record
	revision uint64
}

func (s *shelf) update(t *testing.T, r Record, based uint64) bool {
	if s.revision != based {
		return false
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	s.record = Record{}
	if err := json.Unmarshal(b, &s.record); err != nil {
		t.Fatal(err)
	}
	s.revision++
	return true
}

// Three gateways write one record at the same time, with writes of which nobody
// knows whether they happened and gateways that die: nothing that was written is
// lost, and nothing is there twice.
func TestGatewaysTakeTurns(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		s := &shelf{}
		books := []*Book{NewBook("w0", "g0"), NewBook("w1", "g1"), NewBook("w2", "g2")}
		written := map[string]bool{} // texts that a write was confirmed of
		waiting := make([][]string, 3)
		for i, b := range books {
			b.Do("x", Op{Kind: OpOpen, ID: "x", At: day, Title: "t", Cause: api.CauseDegraded, By: "auto"}, false)
			waiting[i] = nil
		}
		primary := uint64(0)
		sync := func(i int, confused bool) {
			w, ok := books[i].Work("x")
			if !ok {
				return
			}
			for s.update(t, w.Record, w.Revision) == false {
				books[i].Learn("x", s.record, s.revision)
				if w, ok = books[i].Work("x"); !ok {
					return
				}
			}
			if confused {
				return // written, and not known here
			}
			books[i].Wrote(w, s.revision)
			for _, text := range waiting[i] {
				written[text] = true
			}
			waiting[i] = nil
		}
		for n := range 120 {
			i := rnd.IntN(3)
			now := day.Add(time.Duration(n) * time.Second)
			switch rnd.IntN(6) {
			case 0, 1:
				text := fmt.Sprintf("%d-%d", i, n)
				books[i].Do("x", Op{Kind: OpNote, At: now, Text: text, By: "ana"}, false)
				waiting[i] = append(waiting[i], text)
			case 2:
				books[i].Do("x", Op{Kind: OpCount, At: now, Counts: Counts{Primary: 1}}, false)
				primary++
			case 3:
				sync(i, rnd.IntN(3) == 0)
			case 4:
				books[i].Learn("x", s.record, s.revision)
			case 5:
				phase := []Phase{Ill, Recovered, Back}[rnd.IntN(3)]
				books[i].Do("x", Op{Kind: OpTrouble, At: now, Key: "degraded/a", Upstream: "a", Phase: phase, Shared: true, Text: "a"}, false)
			}
		}
		for i := range books {
			sync(i, false)
		}
		for _, b := range books {
			b.Learn("x", s.record, s.revision)
		}
		seen := map[string]int{}
		for _, e := range s.record.Entries {
			if e.Kind == api.EntryNote {
				seen[e.Text]++
			}
			if e.Kind == api.EntryOpened {
				seen["opened"]++
			}
		}
		for text := range written {
			if seen[text] != 1 {
				t.Errorf("seed %d: %q is there %d times", seed, text, seen[text])
			}
		}
		if seen["opened"] != 1 || s.record.Counts.Primary != primary || len(written) == 0 {
			t.Errorf("seed %d: opened %d times, counted %d of %d", seed, seen["opened"], s.record.Counts.Primary, primary)
		}
		want, _ := json.Marshal(s.record)
		for _, b := range books {
			r, unsynced, _ := b.Get("x")
			if got, _ := json.Marshal(r); string(got) != string(want) || unsynced || len(b.Pending()) > 0 {
				t.Errorf("seed %d: a gateway has another record", seed)
			}
		}
	}
}
