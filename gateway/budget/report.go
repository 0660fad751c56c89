package budget

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"failback/gateway/operator/api"
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
	// within api.FastBurn.Long and api.SlowBurn.Long. The part of a five that lies
	// before counts too.
	Fast, Slow Ratio
	// BurnsFast and BurnsSlow say that it burns so now: over the long time and the
	// short one.
	BurnsFast, BurnsSlow bool
	By                   []Spend // the most first; their sum is Bad
}

// Report tells of all objectives, in the order of Configure.
func (s *Set) Report(now Instant) []Report {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.look(now.Up)
	reports := make([]Report, 0, len(s.objectives))
	for _, o := range s.objectives {
		reports = append(reports, s.report(o, now))
	}
	return reports
}

func (s *Set) report(o Objective, now Instant) Report {
	r := Report{Objective: o}
	c := s.counts[o.key()]
	p := c.past
	if p == nil || !p.holds(s, now) {
		p = s.sum(o, now)
		c.past = p
	}
	by := maps.Clone(p.by)
	r.Tally, r.Covered = p.Tally, p.covered
	here := p.here
	if h := c.kept.hours[p.hour]; h != nil {
		r.add(h.Tally)
		here += h.served
		for who, bad := range h.by {
			by[who] += bad
		}
	}
	r.Covered = min(r.Covered+min(max(here, p.there), hourWidth), o.Window)

	fast, slow := recently{burn: api.FastBurn}, recently{burn: api.SlowBurn}
	s.recent(o.key(), now, func(age time.Duration, t Tally) {
		fast.count(age, t)
		slow.count(age, t)
	})
	r.Spent, r.Fast, r.Slow = rate(r.Tally, o.Target), rate(fast.long, o.Target), rate(slow.long, o.Target)
	r.BurnsFast, r.BurnsSlow = fast.burns(o), slow.burns(o)
	r.By = most(by)
	return r
}

// recently is what was counted within the times of a burn.
type recently struct {
	burn        api.Burn
	long, short Tally
}

func (r *recently) count(age time.Duration, t Tally) {
	if age < r.burn.Long {
		r.long.add(t)
	}
	if age < r.burn.Short {
		r.short.add(t)
	}
}

// burns reports whether the budget of o burns so, as the alert of that name has it.
func (r *recently) burns(o Objective) bool {
	most := min(r.burn.Times(o.Window)*(1-o.Target), api.BurnMostBad)
	over := func(t Tally) bool {
		all := float64(t.Good) + float64(t.Bad)
		return all > 0 && float64(t.Bad)/all > most
	}
	return over(r.long) && over(r.short)
}

// recent visits what was counted lately, with the age of its end.
func (s *Set) recent(k Key, now Instant, count func(age time.Duration, t Tally)) {
	for n, f := range s.counts[k].kept.fives {
		count(s.start+now.Up-time.Duration(n+1)*fiveWidth, *f)
	}
	s.elsewhere(k, func(e Record, _ bool) {
		for _, f := range e.Fives {
			age := sinceEpoch(now.Wall) - time.Duration(f.At+1)*fiveWidth
			if age >= -2*fiveWidth { // what has a date of the future says nothing of now
				count(age, Tally{f.Good, f.Bad})
			}
		}
	})
}

// elsewhere visits the records of an objective; own are those of earlier
// processes of this gateway.
func (s *Set) elsewhere(k Key, visit func(e Record, own bool)) {
	if e, ok := s.earlier[k]; ok {
		visit(e, true)
	}
	for _, e := range s.others {
		if e.Key() == k {
			visit(e, false)
		}
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
