package budget

import (
	"maps"
	"slices"
	"time"
)

// Bounds of a Record: the longest window, and some for clocks that were wrong.
const maxHours = int64(MaxWindow/hourWidth) + 48

var maxFives = int64(fivesFor / fiveWidth)

// Record is the counts of one objective as one gateway writes them down. It has
// no more than some hundred kilobytes as JSON.
type Record struct {
	// Gateway is who counted.
	Gateway   string `json:"gateway"`
	Model     string `json:"model"`
	Objective string `json:"objective"`
	// Who are the spenders that hours name by their place here.
	Who   [][2]string `json:"who,omitempty"`
	Hours []Hour      `json:"hours"` // oldest first
	Fives []Five      `json:"fives"` // oldest first
}

// Key is that of the objective.
func (r Record) Key() Key { return Key{r.Model, r.Objective} }

// Hour is what was counted in one hour of wall time.
type Hour struct {
	At     int64  `json:"t"` // hours since 1970
	Good   uint64 `json:"g,omitempty"`
	Bad    uint64 `json:"b,omitempty"`
	Served int64  `json:"s,omitempty"` // seconds
	// By are pairs of a place in Who and a number of bad requests.
	By [][2]uint64 `json:"w,omitempty"`
}

// Five is what was counted in five minutes of wall time.
type Five struct {
	At   int64  `json:"t"` // five minutes since 1970
	Good uint64 `json:"g,omitempty"`
	Bad  uint64 `json:"b,omitempty"`
}

// Restore takes in what earlier processes of this gateway counted, in the place of what
// an earlier call took in.
func (s *Set) Restore(records []Record, up time.Duration) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.changes++
	s.earlier, s.earlierAt = map[Key]Record{}, up
	for _, r := range records {
		s.earlier[r.Key()] = r
	}
}

// Others takes in what other gateways counted, in the place of what an earlier
// call took in. Each is one more part of every sum.
func (s *Set) Others(records []Record) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.changes++
	s.others = records
}

// Records are what is to be written down of this gateway, its earlier processes
// included: all there is, so that the newest writing is enough.
func (s *Set) Records(gateway string, now Instant) []Record {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.look(now.Up)
	keys := map[Key]bool{}
	for k := range s.counts {
		keys[k] = true
	}
	for k := range s.earlier {
		keys[k] = true
	}
	var records []Record
	for k := range keys {
		r := s.record(k, now)
		if len(r.Hours) == 0 {
			continue
		}
		r.Gateway, r.Model, r.Objective = gateway, k.Model, k.Objective
		records = append(records, r)
	}
	return records
}

func (s *Set) record(k Key, now Instant) Record {
	hours, fives := map[int64]*hour{}, map[int64]*Tally{}
	if r, ok := s.earlier[k]; ok {
		for _, h := range r.Hours {
			to := slotOf(hours, h.At)
			to.Tally.add(Tally{h.Good, h.Bad})
			to.served += time.Duration(h.Served) * time.Second
			for _, by := range h.By {
				to.spend(r.who(by[0]), by[1])
			}
		}
		for _, f := range r.Fives {
			slotOf(fives, f.At).add(Tally{f.Good, f.Bad})
		}
	}
	if c := s.counts[k]; c != nil {
		for n, h := range c.kept.hours {
			slotOf(hours, s.label(n, hourWidth, now)).add(h)
		}
		for n, f := range c.kept.fives {
			slotOf(fives, s.label(n, fiveWidth, now)).add(*f)
		}
	}
	return pack(hours, fives)
}

// pack writes slots down, the newest if there are too many.
func pack(hours map[int64]*hour, fives map[int64]*Tally) Record {
	var r Record
	places := map[Spender]uint64{}
	for _, at := range newest(slices.Sorted(maps.Keys(hours)), maxHours) {
		h := hours[at]
		out := Hour{At: at, Good: h.Good, Bad: h.Bad, Served: int64(h.served.Round(time.Second) / time.Second)}
		for _, by := range slices.SortedFunc(maps.Keys(h.by), compareSpenders) {
			place, known := places[by]
			if !known {
				place = uint64(len(r.Who))
				places[by] = place
				r.Who = append(r.Who, [2]string{by.Provider, by.Reason})
			}
			out.By = append(out.By, [2]uint64{place, h.by[by]})
		}
		r.Hours = append(r.Hours, out)
	}
	for _, at := range newest(slices.Sorted(maps.Keys(fives)), maxFives) {
		r.Fives = append(r.Fives, Five{At: at, Good: fives[at].Good, Bad: fives[at].Bad})
	}
	return r
}

func newest(l []int64, n int64) []int64 { return l[max(0, len(l)-int(n)):] }

// who is a spender that an hour names; a place that there is not is other.
func (r Record) who(place uint64) Spender {
	if place >= uint64(len(r.Who)) {
		return Spender{other, other}
	}
	return Spender{r.Who[place][0], r.Who[place][1]}
}
