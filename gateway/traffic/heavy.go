package traffic

import (
	"slices"
	"sync"
	"time"
)

// A conversation is split by request if it carries more than one in
// heavyParts of the upstream's own traffic of the last ten minutes.
const (
	heavyParts   = 100
	sketchSlots  = 10
	sketchSlot   = time.Minute
	sketchRoom   = 400 // counters of a slot: a count is wrong by at most a 400th of the slot's traffic
	neverStarted = -1
)

// ownTraffic knows which conversations carry much of one upstream's own
// traffic, in bounded memory: one Space-Saving sketch a minute (Metwally,
// Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in
// Data Streams", 2005), the last ten together.
type ownTraffic struct {
	born time.Time

	mu    sync.Mutex // guards everything that follows
	slots [sketchSlots]slot
}

type slot struct {
	minute int64
	total  uint64
	sketch *spaceSaving // nil until something was counted
}

func newOwnTraffic(now time.Time) *ownTraffic {
	o := &ownTraffic{born: now}
	for i := range o.slots {
		o.slots[i].minute = neverStarted
	}
	return o
}

// observe counts one request. An empty conversation belongs to nobody and
// counts for the whole only.
func (o *ownTraffic) observe(conversation string, now time.Time) {
	minute := int64(now.Sub(o.born) / sketchSlot)
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &o.slots[minute%sketchSlots]
	if s.minute != minute {
		s.minute, s.total = minute, 0
		if s.sketch != nil {
			s.sketch.clear()
		}
	}
	s.total++
	if conversation == "" {
		return
	}
	if s.sketch == nil {
		s.sketch = newSpaceSaving(sketchRoom)
	}
	s.sketch.add(conversationKey(conversation))
}

// heavy returns the keys of the conversations that surely carried more than
// their part of the last ten minutes, the running one included.
func (o *ownTraffic) heavy(now time.Time) []Key {
	minute := int64(now.Sub(o.born) / sketchSlot)
	o.mu.Lock()
	defer o.mu.Unlock()
	var total uint64
	counts := make(map[uint64]uint64)
	for i := range o.slots {
		s := &o.slots[i]
		if s.minute == neverStarted || minute-s.minute >= sketchSlots {
			continue
		}
		total += s.total
		if s.sketch == nil {
			continue
		}
		for _, c := range s.sketch.counters {
			counts[c.key] += c.count - c.over
		}
	}
	var keys []Key
	for k, n := range counts {
		if n*heavyParts > total {
			keys = append(keys, Key(k))
		}
	}
	slices.Sort(keys)
	return keys
}

// spaceSaving counts the most frequent keys of a stream. The counters form a
// min-heap by count, so the one to give up is the first.
type spaceSaving struct {
	room     int
	counters []counter
	at       map[uint64]int // key to its place in counters
}

type counter struct {
	key   uint64
	count uint64
	over  uint64 // how much of count may belong to keys given up before
}

func newSpaceSaving(room int) *spaceSaving {
	return &spaceSaving{room: room, at: make(map[uint64]int)}
}

func (s *spaceSaving) clear() {
	s.counters = s.counters[:0]
	clear(s.at)
}

func (s *spaceSaving) add(key uint64) {
	if i, ok := s.at[key]; ok {
		s.counters[i].count++
		s.down(i)
		return
	}
	if len(s.counters) < s.room {
		s.counters = append(s.counters, counter{key: key, count: 1})
		s.at[key] = len(s.counters) - 1
		s.up(len(s.counters) - 1)
		return
	}
	least := &s.counters[0]
	delete(s.at, least.key)
	*least = counter{key: key, count: least.count + 1, over: least.count}
	s.at[key] = 0
	s.down(0)
}

func (s *spaceSaving) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if s.counters[parent].count <= s.counters[i].count {
			return
		}
		s.swap(i, parent)
		i = parent
	}
}

func (s *spaceSaving) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.counters); child++ {
			if s.counters[child].count < s.counters[least].count {
				least = child
			}
		}
		if least == i {
			return
		}
		s.swap(i, least)
		i = least
	}
}

func (s *spaceSaving) swap(i, j int) {
	s.counters[i], s.counters[j] = s.counters[j], s.counters[i]
	s.at[s.counters[i].key], s.at[s.counters[j].key] = i, j
}
