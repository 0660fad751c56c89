package breaker

import (
	"fmt"
	"time"
)

const (
	weightAttempts = 100              // remembered at most
	weightAge      = 60 * time.Second // forgotten then
	weightKnown    = 20               // fewer say nothing
	weightFailed   = 5                // failures needed to open
)

// model is what a bucket knows of one of its upstream's models.
type model struct {
	name   string
	recent memory
	output samples // first output of streams
	whole  samples // whole unary answers
}

// memory holds how the last attempts ended: at most 100 and at most 60 s old.
type memory struct {
	ring   [weightAttempts]int64 // time ended ×2, +1 if it failed
	oldest int
	n      int
	failed int
}

func (m *memory) clear() { m.oldest, m.n, m.failed = 0, 0, 0 }

func (m *memory) drop() {
	m.failed -= int(m.ring[m.oldest] & 1)
	m.n--
	if m.oldest++; m.oldest == len(m.ring) {
		m.oldest = 0
	}
}

func (m *memory) add(now time.Duration, failed bool) {
	if m.n == len(m.ring) {
		m.drop()
	}
	i := m.oldest + m.n
	if i >= len(m.ring) {
		i -= len(m.ring)
	}
	m.ring[i] = int64(now) << 1
	if failed {
		m.ring[i]++
		m.failed++
	}
	m.n++
}

// ratio is the part of the attempts that ended well, 1 while there are too few.
func (m *memory) ratio(now time.Duration) float64 {
	for m.n > 0 && now-time.Duration(m.ring[m.oldest]>>1) > weightAge {
		m.drop()
	}
	if m.n < weightKnown {
		return 1
	}
	return float64(m.n-m.failed) / float64(m.n)
}

// outweighed says whether the attempts are bad enough to leave for a candidate
// of weight next, and how they were.
func (m *memory) outweighed(now time.Duration, configured, next float64) (string, bool) {
	r := m.ratio(now)
	if m.n < weightKnown || m.failed < weightFailed || r >= 0.9 || configured*r >= next {
		return "", false
	}
	return fmt.Sprintf("%d/%d failed, weight %.3g of %.3g is below the next candidate's %.3g",
		m.failed, m.n, configured*r, configured, next), true
}
