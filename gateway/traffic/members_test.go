package traffic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// conversations are names as clients give them: counters, mail addresses,
// random ids, hashes. A share must hold for each kind.
func conversations(kind string, n int) []string {
	r := rand.New(rand.NewPCG(4, 11))
	l := make([]string, n)
	for i := range l {
		switch kind {
		case "counter":
			l[i] = strconv.Itoa(i)
		case "mail":
			l[i] = fmt.Sprintf("user%06d@example.com", i)
		case "random":
			l[i] = fmt.Sprintf("%016x", r.Uint64())
		case "long":
			l[i] = fmt.Sprintf("%0512d", i)
		}
	}
	return l
}

var shares = []int{0, 5, 25, 75, Full}

var kinds = []string{"counter", "mail", "random", "long"}

func memberAt(share int, upstream, id string) *member {
	return &member{State: State{Upstream: upstream, Share: share, FailbackID: id}}
}

// Whoever is in a share is in every larger one.
func TestMembershipGrows(t *testing.T) {
	for _, kind := range kinds {
		for _, c := range conversations(kind, 10_000) {
			in := false
			for _, share := range shares {
				now := memberAt(share, "anthropic-us-east-1", "2026-11-30T04").admits(c, "r")
				if in && !now {
					t.Fatalf("%s %q is in a smaller share and not in %d%%", kind, c, share)
				}
				in = now
			}
			if !in {
				t.Fatalf("%s %q is not in 100%%", kind, c)
			}
		}
	}
}

// The part inside is binomial: within five standard deviations of the share.
func TestMembershipIsTheShare(t *testing.T) {
	const n = 20_000
	for _, kind := range kinds {
		cs := conversations(kind, n)
		for _, share := range shares {
			for _, id := range []string{"2026-11-30T04", "2026-11-30T05"} {
				inside := 0
				for _, c := range cs {
					if memberAt(share, "vertex", id).admits(c, "r") {
						inside++
					}
				}
				p := float64(share) / 100
				bound := 5 * math.Sqrt(n*p*(1-p))
				if off := math.Abs(float64(inside) - n*p); off > bound {
					t.Errorf("%s: %d of %d inside %d%%, off by %.0f, bound %.0f", kind, inside, n, share, off, bound)
				}
			}
		}
	}
}

// Two upstreams that come back, and two failbacks of one upstream, do not share
// their members: those in both are the product of the parts.
func TestMembershipIsIndependent(t *testing.T) {
	const n = 20_000
	others := []struct{ upstream, id string }{
		{"b", "2026-11-30T04"},  // the next letter
		{"aa", "2026-11-30T04"}, // one more
		{"anthropic-us-west-2", "2026-11-30T04"},
		{"a", "2026-11-30T05"}, // the next failback
	}
	for _, kind := range kinds {
		cs := conversations(kind, n)
		for _, share := range []int{5, 25, 75} {
			for _, other := range others {
				one, two := memberAt(share, "a", "2026-11-30T04"), memberAt(share, other.upstream, other.id)
				both := 0
				for _, c := range cs {
					if one.admits(c, "r") && two.admits(c, "r") {
						both++
					}
				}
				p := float64(share) / 100 * float64(share) / 100
				bound := 5 * math.Sqrt(n*p*(1-p))
				if off := math.Abs(float64(both) - n*p); off > bound {
					t.Errorf("%s: %d of %d in %d%% of both a and %v, off by %.0f, bound %.0f", kind, both, n, share, other, off, bound)
				}
			}
		}
	}
}

// The parts of what is hashed cannot run into each other.
func TestPlaceKeepsItsPartsApart(t *testing.T) {
	places := map[uint64]string{}
	for _, p := range []struct {
		upstream, id string
		kind         byte
		who          string
	}{
		{"ab", "c", byConversation, "d"},
		{"a", "bc", byConversation, "d"},
		{"a", "b", byConversation, "cd"},
		{"a", "b", byRequest, "cd"},
		{"a", "b", byRequest, ""},
	} {
		at := place(p.upstream, p.id, p.kind, p.who)
		if other, ok := places[at]; ok {
			t.Errorf("%v and %s share a place", p, other)
		}
		places[at] = fmt.Sprint(p)
	}
}

// What is stored and what other processes compute hangs on these values: a
// program with others would move every conversation in the middle of a failback.
func TestPlacesDoNotChange(t *testing.T) {
	for _, tt := range []struct {
		name      string
		got, want uint64
	}{
		{"conversation", place("anthropic-us-east-1", "2026-11-30T04", byConversation, "c-1"), 0xc57adcd66d516988},
		{"request", place("anthropic-us-east-1", "2026-11-30T04", byRequest, "c-1"), 0x3145cbd61fe08e1a},
		{"key", conversationKey("c-1"), 0x955f16c3e9c32eb7},
		{"empty key", conversationKey(""), 0xefd01f60ba992926},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, tt.got, tt.want)
		}
	}
}

// A conversation that is split, and requests without one, are placed one by one.
func TestMembershipByRequest(t *testing.T) {
	const n = 20_000
	split := memberAt(25, "a", "2026-11-30T04")
	split.heavy = map[Key]struct{}{Key(conversationKey("batch")): {}}
	count := func(m *member, conversation string) int {
		inside := 0
		for i := range n {
			if m.admits(conversation, fmt.Sprintf("req-%d", i)) {
				inside++
			}
		}
		return inside
	}
	bound := 5 * math.Sqrt(n*0.25*0.75)
	for _, conversation := range []string{"batch", ""} {
		if got := count(split, conversation); math.Abs(float64(got)-n*0.25) > bound {
			t.Errorf("conversation %q: %d of %d requests inside 25%%", conversation, got, n)
		}
	}
	for i := range 50 {
		c := fmt.Sprintf("c-%d", i)
		if got := count(split, c); got != 0 && got != n {
			t.Errorf("conversation %q is not split and has %d of %d requests inside", c, got, n)
		}
	}
}
