package telemetry

import (
	"math"
	"time"
)

// seconds counts something in each of the last 60 seconds. The running second
// is the last of them, so a figure follows at once.
type seconds struct {
	at    [windowSeconds]int64 // which second a slot holds
	count [windowSeconds]uint32
}

const windowSeconds = 60

// The windows of the live figures, in seconds.
const (
	rateWindow  = 10
	errorWindow = 30
	wholeWindow = windowSeconds
)

func (s *seconds) add(second int64) {
	i := second % windowSeconds
	if s.at[i] != second {
		s.at[i], s.count[i] = second, 0
	}
	s.count[i]++
}

// sum counts the last n seconds up to now, the running one included.
func (s *seconds) sum(now int64, n int64) uint64 {
	var sum uint64
	for i, at := range s.at {
		if at > now-n && at <= now {
			sum += uint64(s.count[i])
		}
	}
	return sum
}

// A spread holds durations by size, each size 4 % above the one before, from a
// millisecond to over a day: a quantile is right to 2 %, and what took longer
// counts as a day.
const (
	spreadLeast = time.Millisecond
	spreadStep  = 1.04
	spreadSizes = 468 // 1.04^467 ms is over a day
)

var spreadLog = math.Log(spreadStep)

func sizeOf(d time.Duration) int {
	if d <= spreadLeast {
		return 0
	}
	size := int(math.Log(float64(d)/float64(spreadLeast))/spreadLog) + 1
	return min(size, spreadSizes-1)
}

// middle is the duration that stands for a size, in seconds.
func middle(size int) float64 {
	return spreadLeast.Seconds() * math.Pow(spreadStep, float64(size)-0.5)
}

// durations holds the spread of the last minute, in slots of five seconds.
type durations struct {
	slots [durationSlots]durationSlot
	n     uint64
	sizes []uint64 // of all slots together, nil until the first
}

const (
	durationSlots   = 12
	durationSeconds = windowSeconds / durationSlots
)

type durationSlot struct {
	at    int64 // which five seconds it holds
	n     uint64
	sizes []uint32 // by size, nil until the first
}

func (d *durations) add(second int64, v time.Duration) {
	at := second / durationSeconds
	d.expire(at)
	s := &d.slots[at%durationSlots]
	if d.sizes == nil {
		d.sizes = make([]uint64, spreadSizes)
	}
	if s.sizes == nil {
		s.sizes = make([]uint32, spreadSizes)
	}
	s.at = at
	size := sizeOf(v)
	s.n++
	s.sizes[size]++
	d.n++
	d.sizes[size]++
}

// expire takes out what is older than a minute.
func (d *durations) expire(at int64) {
	for i := range d.slots {
		s := &d.slots[i]
		if s.n == 0 || s.at > at-durationSlots {
			continue
		}
		for size, c := range s.sizes {
			d.sizes[size] -= uint64(c)
		}
		d.n -= s.n
		s.n = 0
		clear(s.sizes)
	}
}

// quantile returns the q-quantile of the last minute in seconds; false if there
// was nothing.
func (d *durations) quantile(second int64, q float64) (float64, bool) {
	d.expire(second / durationSeconds)
	if d.n == 0 {
		return 0, false
	}
	rank := uint64(math.Ceil(q * float64(d.n)))
	for size, c := range d.sizes {
		if c >= rank {
			return middle(size), true
		}
		rank -= c
	}
	return middle(spreadSizes - 1), true
}
