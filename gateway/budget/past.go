package budget

import "time"

// past is the sum of a window without the hour that this process is in: what
// does not change with a request. It is summed up anew when it may have changed.
type past struct {
	changes uint64 // of the Set
	hour    int64  // that this process is in
	shift   int64  // of labels
	at      Instant
	lasts   time.Duration // from at on, until something leaves the window

	Tally
	by      map[Spender]uint64
	covered time.Duration // without the wall time's hour that hour is
	// here and there are what this gateway and others served in that hour.
	here, there time.Duration
}

// holds reports whether p is still the sum.
func (p *past) holds(s *Set, now Instant) bool {
	within := func(d time.Duration) bool { return d >= 0 && d < p.lasts }
	return p.changes == s.changes && p.hour == s.slot(now.Up, hourWidth) && p.shift == s.label(0, hourWidth, now) &&
		within(now.Up-p.at.Up) && within(sinceEpoch(now.Wall)-sinceEpoch(p.at.Wall))
}

// sum sums up the past of o.
func (s *Set) sum(o Objective, now Instant) *past {
	p := &past{
		changes: s.changes, hour: s.slot(now.Up, hourWidth), shift: s.label(0, hourWidth, now), at: now,
		lasts: o.Window, by: map[Spender]uint64{},
	}
	within := func(age time.Duration) bool {
		if age < o.Window {
			p.lasts = min(p.lasts, o.Window-age)
		}
		return age < o.Window
	}
	// Served by hour of wall time: what one gateway served adds up, several serve
	// at once.
	here, there := map[int64]time.Duration{}, map[int64]time.Duration{}
	for n, h := range s.counts[o.key()].kept.hours {
		if n == p.hour || !within(s.start+now.Up-time.Duration(n+1)*hourWidth) {
			continue
		}
		p.add(h.Tally)
		here[n+p.shift] += h.served
		for who, bad := range h.by {
			p.by[who] += bad
		}
	}
	s.elsewhere(o.key(), func(e Record, own bool) {
		spent := make([]uint64, len(e.Who))
		for _, h := range e.Hours {
			age := sinceEpoch(now.Wall) - time.Duration(h.At+1)*hourWidth
			if own {
				// A date in the future, of a clock that was wrong, does not last: it
				// was counted before it was restored.
				age = max(age, now.Up-s.earlierAt-hourWidth)
			}
			if !within(age) {
				continue
			}
			p.add(Tally{h.Good, h.Bad})
			if served := time.Duration(h.Served) * time.Second; own {
				here[h.At] += served
			} else {
				there[h.At] = max(there[h.At], served)
			}
			for _, by := range h.By {
				if by[0] < uint64(len(spent)) {
					spent[by[0]] += by[1]
				} else {
					p.by[Spender{other, other}] += by[1]
				}
			}
		}
		for place, bad := range spent {
			if bad > 0 {
				p.by[e.who(uint64(place))] += bad
			}
		}
	})
	current := p.hour + p.shift
	p.here, p.there = here[current], there[current]
	delete(here, current)
	delete(there, current)
	for at, d := range here {
		p.covered += min(max(d, there[at]), hourWidth)
	}
	for at, d := range there {
		if _, both := here[at]; !both {
			p.covered += min(d, hourWidth)
		}
	}
	return p
}
