package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// histogramError is how far a quantile may be off, relative.
	histogramError = 0.02
	histogramMin   = time.Millisecond
	histogramMax   = time.Hour
	// buckets is enough for histogramMin to histogramMax; a test checks it.
	buckets = 379
	// mostCount bounds a stored count, so that sums cannot overflow.
	mostCount = 1 << 40
)

// gamma is the ratio of neighbouring bucket bounds: with it, the middle of a
// bucket is within histogramError of everything in it.
const gamma = (1 + histogramError) / (1 - histogramError)

var (
	perLog = 1 / math.Log(gamma)
	middle = func() (m [buckets]time.Duration) {
		for i := range m {
			m[i] = time.Duration(float64(histogramMin) * 2 * math.Pow(gamma, float64(i)) / (1 + gamma))
		}
		return m
	}()
)

// Histogram counts durations in buckets of growing width: a quantile is within
// 2 % of the true one between 1 ms and 1 h, and outside it is the nearer bound.
// The zero value is empty. It is 3 kB, whatever it counted.
type Histogram struct {
	n     uint64
	count [buckets]uint64
}

// Add counts d.
func (h *Histogram) Add(d time.Duration) {
	h.n++
	h.count[bucketOf(d)]++
}

func bucketOf(d time.Duration) int {
	if d <= histogramMin {
		return 0
	}
	if d >= histogramMax {
		return buckets - 1
	}
	i := int(math.Ceil(math.Log(float64(d)/float64(histogramMin)) * perLog))
	return min(i, buckets-1)
}

// Count is the number of durations counted.
func (h *Histogram) Count() uint64 { return h.n }

// Merge adds what o counted.
func (h *Histogram) Merge(o *Histogram) {
	h.n += o.n
	for i, c := range o.count {
		h.count[i] += c
	}
}

// Quantile returns the duration that a part q (0 to 1) of the counted ones does
// not exceed; false without any.
func (h *Histogram) Quantile(q float64) (time.Duration, bool) {
	if h.n == 0 {
		return 0, false
	}
	rank := uint64(math.Ceil(q * float64(h.n)))
	rank = min(max(rank, 1), h.n)
	var sum uint64
	for i, c := range h.count {
		if sum += c; sum >= rank {
			return middle[i], true
		}
	}
	return middle[buckets-1], true
}

// Above is how many of the counted are longer than limit, which is taken with
// the histogram's error. The longest bucket has no upper bound and is always
// above.
func (h *Histogram) Above(limit time.Duration) uint64 {
	var sum uint64
	for i := buckets - 1; i >= 0; i-- {
		if i < buckets-1 && middle[i] <= limit {
			break
		}
		sum += h.count[i]
	}
	return sum
}

// MarshalJSON writes the buckets that are not empty as pairs of index and count.
func (h Histogram) MarshalJSON() ([]byte, error) {
	pairs := [][2]uint64{}
	for i, c := range h.count {
		if c > 0 {
			pairs = append(pairs, [2]uint64{uint64(i), c})
		}
	}
	return json.Marshal(pairs)
}

// UnmarshalJSON refuses what MarshalJSON cannot have written.
func (h *Histogram) UnmarshalJSON(data []byte) error {
	var pairs [][]uint64
	if err := json.Unmarshal(data, &pairs); err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	var read Histogram
	next := uint64(0)
	for _, p := range pairs {
		switch {
		case len(p) != 2:
			return errors.New("histogram: a bucket is not a pair of index and count")
		case p[0] < next || p[0] >= buckets:
			return fmt.Errorf("histogram: bucket %d is out of order or out of range", p[0])
		case p[1] == 0 || p[1] > mostCount:
			return fmt.Errorf("histogram: bucket %d cannot hold %d", p[0], p[1])
		}
		next = p[0] + 1
		read.count[p[0]] = p[1]
		read.n += p[1]
	}
	*h = read
	return nil
}
