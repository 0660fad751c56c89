package breaker

import (
	"math"
	"math/bits"
	"time"
)

const (
	samplesKept  = 1000
	samplesKnown = 20 // fewer say nothing
)

// samples keeps the last 1,000 durations and their 99th percentile.
type samples struct {
	ring  []uint32 // microseconds
	next  int      // in ring, once it is full
	fresh int      // added since value was found
	found time.Duration
	value time.Duration
}

func (s *samples) add(d time.Duration) {
	us := uint32(min(max(d.Microseconds(), 0), math.MaxUint32))
	s.fresh++
	if len(s.ring) < samplesKept {
		s.ring = append(s.ring, us)
		return
	}
	s.ring[s.next] = us
	if s.next++; s.next == samplesKept {
		s.next = 0
	}
}

// p99 is found again when a hundredth of the samples is new, or any is and the
// value is older than 100 ms: no request pays for it twice.
func (s *samples) p99(now time.Duration) (time.Duration, bool) {
	n := len(s.ring)
	if n < samplesKnown {
		return 0, false
	}
	if s.fresh >= max(n/100, 1) || s.fresh > 0 && now-s.found >= 100*time.Millisecond {
		s.value = time.Duration(s.nth(n-(99*n+99)/100)) * time.Microsecond
		s.fresh, s.found = 0, now
	}
	return s.value, true
}

// nth returns the sample that i others are not below. i is at most 10.
func (s *samples) nth(i int) uint32 {
	var top [samplesKept/100 + 1]uint32 // descending
	for _, v := range s.ring {
		if v <= top[i] {
			continue
		}
		j := i
		for ; j > 0 && top[j-1] < v; j-- {
			top[j] = top[j-1]
		}
		top[j] = v
	}
	return top[i]
}

// daily is a coarse distribution of the durations of the last 24 h: sixteen
// steps to each doubling, in parts of two hours.
type daily struct {
	parts [dailyParts]*histogram // nil: nothing in it
	sum   *histogram
	index int64
	end   time.Duration
}

const (
	dailyPart  = 2 * time.Hour
	dailyParts = 12
	// dailyUnit is a power of two near 4 ms; durations are counted in it.
	dailyUnit = 22
	dailySubs = 4 // log2 of the steps to a doubling
	dailyMax  = 1<<21 - 1
	dailySize = (21-dailySubs-1)<<dailySubs + 2<<dailySubs
)

type histogram struct {
	n     uint32
	cells [dailySize]uint32
}

func cellOf(d time.Duration) int {
	v := min(uint64(max(d, 0))>>dailyUnit, dailyMax)
	e := max(bits.Len64(v)-dailySubs-1, 0)
	return e<<dailySubs + int(v>>e)
}

// middle is the duration in the middle of a cell.
func middle(cell int) time.Duration {
	e := max(cell>>dailySubs-1, 0)
	v := cell - e<<dailySubs
	return time.Duration(v)<<(e+dailyUnit) + 1<<(e+dailyUnit)/2
}

func (d *daily) advance(now time.Duration) {
	if now < d.end {
		return
	}
	index := int64(now / dailyPart)
	for i := max(d.index+1, index-dailyParts+1); i <= index; i++ {
		old := d.parts[i%dailyParts]
		if old == nil {
			continue
		}
		d.sum.n -= old.n
		for c, n := range old.cells {
			d.sum.cells[c] -= n
		}
		d.parts[i%dailyParts] = nil
	}
	d.index = index
	d.end = time.Duration(index+1) * dailyPart
}

func (d *daily) add(now, v time.Duration) {
	d.advance(now)
	part := d.parts[d.index%dailyParts]
	if part == nil {
		part = new(histogram)
		d.parts[d.index%dailyParts] = part
		if d.sum == nil {
			d.sum = new(histogram)
		}
	}
	c := cellOf(v)
	part.n++
	part.cells[c]++
	d.sum.n++
	d.sum.cells[c]++
}

// quantile returns the value below which the part q lies, to 3 %; false if
// there are too few.
func (d *daily) quantile(now time.Duration, q float64) (time.Duration, bool) {
	d.advance(now)
	if d.sum == nil || d.sum.n < samplesKnown {
		return 0, false
	}
	rank := max(uint32(math.Ceil(q*float64(d.sum.n))), 1)
	for c, n := range d.sum.cells {
		if n >= rank {
			return middle(c), true
		}
		rank -= n
	}
	return 0, false // not reached: the cells add up to n
}
