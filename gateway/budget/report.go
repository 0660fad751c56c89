package budget

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// The spans that burn rates are of. The part of a five that lies before counts too.
const (
	FastBurn = time.Hour
	SlowBurn = 6 * time.Hour
)

// maxReported is how many spenders a report names; the others are one of them.
const maxReported = 12

// Ratio is a quotient. Value may be +Inf: a target of 1 allows nothing.
type Ratio struct {
	Known bool // false: there was nothing to measure
	Value float64
}

// Spend is a part of what a budget was spent on.
type Spend struct {
	Spender
	Bad uint64
}

// Report is the state of the budget of one objective.
type Report struct {
	Objective
	// Covered is how much of the window was counted: the time in which gateways
	// served, no hour more than once. Windows are of whole hours: what counts of
	// the one in which the window began counts whole.
	Covered time.Duration
	Tally
	// Spent is the part of the budget that is used up: bad ones by those that
	// the target allows of this many requests.
	Spent Ratio
	// Fast and Slow are how many times faster than the target allows it was spent
	// in the last FastBurn and SlowBurn.
	Fast, Slow Ratio
	By         []Spend // the most first; their sum is Bad
}

// Report tells of all objectives, in the order of Configure.
func (s *Set) Report(now Instant) []Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve(now.Up)
	reports := make([]Report, 0, len(s.objectives))
	for _, o := range s.objectives {
		reports = append(reports, s.report(o, now))
	}
	return reports
}

func (s *Set) report(o Objective, now Instant) Report {
	r := Report{Objective: o}
	var fast, slow Tally
	by := map[Spender]uint64{}
	// By hour of wall time: those of one gateway add up, those of several do not.
	served, here := map[int64]time.Duration{}, map[int64]time.Duration{}

	c := s.counts[o.key()]
	for n, h := range c.hours {
		if s.start+now.Up-time.Duration(n+1)*hourWidth >= o.Window {
			continue
		}
		r.add(h.Tally)
		here[s.label(n, hourWidth, now)] += h.served
		for who, bad := range h.by {
			by[who] += bad
		}
	}
	for n, f := range c.fives {
		age := s.start + now.Up - time.Duration(n+1)*fiveWidth
		if age < FastBurn {
			fast.add(*f)
		}
		if age < SlowBurn {
			slow.add(*f)
		}
	}

	wall := sinceEpoch(now.Wall)
	// read adds what is dated by the wall alone. No part of it is younger than
	// least: a date in the future, of a clock that was wrong, does not last.
	read := func(e Record, least time.Duration, served map[int64]time.Duration) {
		for _, h := range e.Hours {
			if max(wall-time.Duration(h.At+1)*hourWidth, least-hourWidth) >= o.Window {
				continue
			}
			r.add(Tally{h.Good, h.Bad})
			served[h.At] = served[h.At] + time.Duration(h.Served)*time.Second
			for _, p := range h.By {
				by[e.who(p[0])] += p[1]
			}
		}
		for _, f := range e.Fives {
			age := wall - time.Duration(f.At+1)*fiveWidth
			if age < -2*fiveWidth {
				continue // see least; how fast it burns now is nothing of the future's
			}
			if age < FastBurn {
				fast.add(Tally{f.Good, f.Bad})
			}
			if age < SlowBurn {
				slow.add(Tally{f.Good, f.Bad})
			}
		}
	}
	if e, ok := s.earlier[o.key()]; ok {
		read(e, now.Up-s.earlierAt, here)
	}
	merge(served, here)
	for _, e := range s.others {
		if e.Key() == o.key() {
			there := map[int64]time.Duration{}
			read(e, math.MinInt64/2, there)
			merge(served, there)
		}
	}
	for _, d := range served {
		r.Covered += min(d, hourWidth)
	}
	r.Covered = min(r.Covered, o.Window)
	r.Spent, r.Fast, r.Slow = rate(r.Tally, o.Target), rate(fast, o.Target), rate(slow, o.Target)
	r.By = most(by)
	return r
}

// merge keeps of each hour the more of both.
func merge(into, from map[int64]time.Duration) {
	for at, d := range from {
		into[at] = max(into[at], d)
	}
}

// rate is how many times more are bad than the target allows.
func rate(t Tally, target float64) Ratio {
	all := float64(t.Good) + float64(t.Bad)
	switch {
	case all == 0:
		return Ratio{}
	case t.Bad == 0:
		return Ratio{Known: true}
	case target >= 1:
		return Ratio{Known: true, Value: math.Inf(1)}
	}
	return Ratio{Known: true, Value: float64(t.Bad) / ((1 - target) * all)}
}

// most sorts spenders, the most first, and sums up those that are too many.
func most(by map[Spender]uint64) []Spend {
	rest := by[Spender{other, other}]
	var l []Spend
	for who, bad := range by {
		if who != (Spender{other, other}) {
			l = append(l, Spend{who, bad})
		}
	}
	compare := func(a, b Spend) int {
		return cmp.Or(cmp.Compare(b.Bad, a.Bad), compareSpenders(a.Spender, b.Spender))
	}
	slices.SortFunc(l, compare)
	for len(l) > maxReported-1 {
		rest += l[len(l)-1].Bad
		l = l[:len(l)-1]
	}
	if rest > 0 {
		l = append(l, Spend{Spender{other, other}, rest})
		slices.SortFunc(l, compare)
	}
	return l
}

func compareSpenders(a, b Spender) int {
	return cmp.Or(strings.Compare(a.Provider, b.Provider), strings.Compare(a.Reason, b.Reason))
}
