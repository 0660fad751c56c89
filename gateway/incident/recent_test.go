package incident

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

func semantic(id string) Outcome {
	return Outcome{RequestID: id, Layer: api.LayerSemantic, Good: new(true), By: "x"}
}

// The latest requests of a route are remembered, exactly as many, whatever of an id
// came before: an id that went to the other route and came back, and one that came
// twice, are as new as their last request.
func TestTheLatestAreRemembered(t *testing.T) {
	r := NewRecent()
	add := func(id string, degraded bool) { r.Add(id, "", degraded, true, 1) }
	knows := func(id string, route decision.Route) {
		t.Helper()
		if j := r.Judge(semantic(id)); j.Route != route || j.Known != (route != decision.RouteNone) {
			t.Errorf("%s is known with route %s (%v), want %s", id, j.Route, j.Known, route)
		}
	}
	add("wanders", false)
	add("twice", false)
	add("wanders", true)
	add("wanders", false)
	add("twice", false)
	for i := range recentMost - 2 {
		add(strconv.Itoa(i), false)
	}
	for _, id := range []string{"wanders", "twice", "0"} {
		knows(id, decision.RoutePrimary)
	}
	add("one more", false)
	knows("wanders", decision.RouteNone)
	knows("twice", decision.RoutePrimary)
	add("two more", false)
	knows("twice", decision.RouteNone)
	knows("0", decision.RoutePrimary)
	// Those that leave a route make room in it.
	add("0", true)
	add("three more", false)
	knows("0", decision.RouteFallback)
	knows("1", decision.RoutePrimary)
}

// A ring does what a list of its keys does.
func TestRing(t *testing.T) {
	var r ring
	var model []uint64 // newest first
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		key := random.Uint64N(5)
		model = slices.DeleteFunc(model, func(k uint64) bool { return k == key })
		if random.IntN(3) == 0 {
			r.remove(key)
		} else {
			model = slices.Insert(model, 0, key)
			r.add(key, mark{epoch: Epoch(key)})
		}
		var down, up []uint64
		for i, at := 0, r.first; i < len(r.slots); i, at = i+1, r.slots[at].next {
			down, up = append(down, r.slots[at].key), append(up, r.slots[r.slots[at].prev].key)
		}
		if len(up) > 0 { // begins with the oldest
			up = append(up[1:], up[0])
		}
		if !slices.Equal(down, model) || !slices.Equal(up, model) || len(r.at) != len(model) {
			t.Fatalf("after %d: %v, %v and %d, want %v", n, down, up, len(r.at), model)
		}
		for _, k := range model {
			if m := r.get(k); m == nil || m.epoch != Epoch(k) {
				t.Fatalf("after %d: of %d it has %v", n, k, m)
			}
		}
	}
}

// Of a request that nobody remembers each report is new once.
func TestReportsOfUnknownRequests(t *testing.T) {
	r := NewRecent()
	o := semantic("r")
	other := o
	other.Key = "another"
	if r.Unknown(o) || !r.Unknown(o) || r.Unknown(other) || !r.Unknown(o) {
		t.Error("a report is new twice, or another one is not")
	}
	r.Add("r", "", false, true, 1)
	if j := r.Judge(o); !j.Known || j.Repeated {
		t.Errorf("its request came after all: %+v", j)
	}
}
