package ui

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/operator/api"
)

// ring is the gateway's: decisions by their numbers, oldest first.
func ring(from, to int) []api.Decision {
	ds := make([]api.Decision, 0, to-from)
	for i := from; i < to; i++ {
		ds = append(ds, api.Decision{RequestID: "req-" + strconv.Itoa(i), Time: time.Unix(int64(i), 0), TaskType: "task", Candidates: []api.DecisionCandidate{{Provider: "a"}}})
	}
	return ds
}

// answer is the newest n of a ring, newest first.
func answer(ds []api.Decision, n int) []api.Decision {
	ds = slices.Clone(ds[max(len(ds)-n, 0):])
	slices.Reverse(ds)
	return ds
}

func ids(s *seen) string {
	var b strings.Builder
	for n := s.first; n < s.end(); n++ {
		b.WriteString(strings.TrimPrefix(s.at(n).RequestID, "req-") + " ")
	}
	return strings.TrimSpace(b.String())
}

func TestMergeDecisions(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers [][]api.Decision
		want    string
	}{
		{"nothing", [][]api.Decision{nil}, ""},
		{"the same twice", [][]api.Decision{answer(ring(0, 4), 9), answer(ring(0, 4), 9)}, "0 1 2 3"},
		{"goes on", [][]api.Decision{answer(ring(0, 4), 3), answer(ring(0, 6), 3)}, "1 2 3 4 5"},
		{"goes on without overlap", [][]api.Decision{answer(ring(0, 4), 2), answer(ring(0, 6), 2)}, "2 3 4 5"},
		{"a gap", [][]api.Decision{answer(ring(0, 4), 2), answer(ring(0, 9), 2)}, "2 3 7 8"},
		{"a gap filled", [][]api.Decision{answer(ring(0, 4), 2), answer(ring(0, 9), 2), answer(ring(0, 10), 9)}, "1 2 3 4 5 6 7 8 9"},
		{"a gap filled in part", [][]api.Decision{answer(ring(0, 4), 2), answer(ring(0, 9), 2), answer(ring(0, 10), 4)}, "2 3 6 7 8 9"},
		{"older ones come to be known", [][]api.Decision{answer(ring(0, 9), 2), answer(ring(0, 9), 5)}, "4 5 6 7 8"},
		{"a smaller answer", [][]api.Decision{answer(ring(0, 9), 5), answer(ring(0, 9), 1)}, "4 5 6 7 8"},
		{"another gateway", [][]api.Decision{answer(ring(0, 3), 5), answer(ring(100, 102), 5)}, "0 1 2 100 101"},
	} {
		var s seen
		var w words
		for _, a := range c.answers {
			s.merge(a, &w)
		}
		if got := ids(&s); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Whatever answers come, what is held is in order, each once, a copy stays as
// it was, and numbers that two copies share mean the same.
func TestMergeAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var s seen
		var w words
		end := 0
		type copied struct {
			s    seen
			text string
		}
		var copies []copied
		for i := range 60 {
			end += r.IntN(900)
			n := r.IntN(1500)
			s.merge(answer(ring(max(end-n, 0), end), n), &w)
			if r.IntN(6) == 0 {
				copies = append(copies, copied{s, ids(&s)})
			}
			if i%5 != 4 {
				continue // looking through all of them is what takes long
			}
			last := -1
			for n := s.first; n < s.end(); n++ {
				id, _ := strconv.Atoi(strings.TrimPrefix(s.at(n).RequestID, "req-"))
				if id <= last {
					t.Fatalf("%d after %d", id, last)
				}
				last = id
			}
		}
		for _, c := range copies {
			if ids(&c.s) != c.text {
				t.Fatal("a copy changed")
			}
			same := s.same(&c.s)
			for n := max(s.first, c.s.first); n < same; n++ {
				if s.at(n).RequestID != c.s.at(n).RequestID {
					t.Fatalf("number %d is %s and %s", n, s.at(n).RequestID, c.s.at(n).RequestID)
				}
			}
		}
	}
}

func TestSeenIsBounded(t *testing.T) {
	var s seen
	var w words
	for end := 0; end < 3*seenChunk*seenChunks; end += 4000 {
		s.merge(answer(ring(end, end+4000), 4000), &w)
	}
	if n := s.len(); n > seenChunk*seenChunks || n < seenChunk*(seenChunks-1) {
		t.Errorf("%d are held", n)
	}
	if len(w.of) > maxWords {
		t.Errorf("%d words", len(w.of))
	}
}

// The filter finds in everything that is held, not in the last answer alone.
func TestFilterSearchesAllThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin()
		m := testModel(100, 30)
		const n = 20_000
		all := decisionsOf("breaker_open")
		for end := 500; end <= n; end += 500 {
			ds := make([]api.Decision, 500)
			for i := range ds {
				number := end - 1 - i
				ds[i] = all[number%len(all)]
				ds[i].RequestID, ds[i].Time = fmt.Sprintf("req-%05d", number), time.Unix(int64(number), 0)
			}
			give(m, incidentState(), nil, ds)
		}
		keys(m, "d")
		if got := screenOf(m); !strings.Contains(got, "20 000 held of 1 400 000") {
			t.Errorf("it does not say how many are held:\n%s", got)
		}
		// A gateway that began anew has decided fewer than are held of the one before.
		m.live.decisions.Value().Total = n - 1
		if got := screenOf(m); !strings.Contains(got, "20 000 held, ") {
			t.Errorf("more are held than there are:\n%s", got)
		}
		var last []func() any
		for _, k := range []string{"/", "0", "0", "0", "7"} {
			for _, c := range keys(m, k) {
				if c != nil {
					last = append(last, func() any { return c() })
				}
			}
		}
		if len(last) == 0 {
			t.Fatal("nothing is searched beside")
		}
		if got := screenOf(m); !strings.Contains(got, "not searched yet") {
			t.Errorf("it does not say that it still searches:\n%s", got)
		}
		// An answer that comes late does not count.
		for _, f := range last[:len(last)-1] {
			m.Update(f())
		}
		if m.search.left() == 0 {
			t.Error("the answer of an earlier filter was taken")
		}
		m.Update(last[len(last)-1]())
		got := screenOf(m)
		// req-0007x (ten of them), req-00007 and req-10007.
		if !strings.Contains(got, "12 of 20 000, filter: 0007") || strings.Contains(got, "not searched") {
			t.Errorf("%s", got)
		}
		ds := m.decisionRows()
		if ds.len() != 12 || ds.at(0).RequestID != "req-10007" || ds.at(11).RequestID != "req-00007" {
			t.Errorf("%d found, from %s to %s", ds.len(), ds.at(0).RequestID, ds.at(ds.len()-1).RequestID)
		}
		// What comes now is found too.
		fresh := decisionsOf("breaker_open")[:1]
		fresh[0].RequestID = "new-0007"
		give(m, incidentState(), nil, fresh)
		if ds := m.decisionRows(); ds.len() != 13 || ds.at(0).RequestID != "new-0007" {
			t.Errorf("%d found, the newest %s", ds.len(), ds.at(0).RequestID)
		}
	})
}
