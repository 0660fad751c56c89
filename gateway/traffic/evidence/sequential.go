package evidence

import "math"

// A window is judged every second for as long as it takes, so an interval made
// for one look would in the end exclude the truth by chance. The tests here
// hold at all looks together: each is a mixture of likelihood ratios against
// the bound. While what it speaks for is false it is a supermartingale that
// starts at 1, and by Ville's inequality it ever reaches 1/a with probability a
// at most (Wald 1945, Robbins 1970). It depends on the counts alone, not on when
// and how often somebody looked. Independence of the requests is assumed; see
// fewestFailures for what is done about events that break several.

// confidence is that of a verdict of one step, over all looks at it.
const confidence = 0.95

var (
	// passAt is the evidence that passes one ratio: every one must pass, so each
	// may take the whole error.
	passAt = math.Log(1 / (1 - confidence))
	// failAt is the evidence that fails one: two ratios are watched (success and
	// first output) and either fails the step, so they share it.
	failAt = math.Log(2 / (1 - confidence))
)

const (
	passAlternatives = 6
	failAlternatives = 8
)

// keptEvidence is the logarithm of the evidence that events come with a
// probability below bound, after k of n. expected is where they are expected,
// if that is below the bound: half of the mixture lies there, the rest on odds
// that are halved again and again.
func keptEvidence(k, n, bound, expected float64) float64 {
	switch {
	case bound >= 1:
		return math.Inf(1)
	case bound <= 0:
		return math.Inf(-1) // nothing is below zero: it can never be told
	}
	var m mixture
	spread := 1.0
	if expected >= 0 && expected < bound {
		m.add(0.5, ratio(k, n, expected, bound))
		spread = 0.5
	}
	odds := bound / (1 - bound)
	for range passAlternatives {
		odds /= 2
		m.add(spread/passAlternatives, ratio(k, n, odds/(1+odds), bound))
	}
	return m.log()
}

// brokenEvidence is the logarithm of the evidence that events come with a
// probability above bound, after k of n: an even mixture of those that exceed
// bound by step, twice, four times, ... as much. A smallest step that suits the
// bound matters: alternatives far above it would never tell a small excess. With
// step 0 it is bound itself.
func brokenEvidence(k, n, bound, step float64) float64 {
	switch {
	case bound >= 1:
		return math.Inf(-1)
	case bound <= 0:
		if k > 0 {
			return math.Inf(1)
		}
		return math.Inf(-1)
	case step <= 0:
		step = bound
	}
	var above [failAlternatives]float64
	used := 0
	for p := bound + step; p < 1 && used < failAlternatives; p += step {
		above[used] = p
		used++
		step = p - bound
	}
	if used == 0 {
		above[0], used = (1+bound)/2, 1
	}
	var m mixture
	for _, p := range above[:used] {
		m.add(1/float64(used), ratio(k, n, p, bound))
	}
	return m.log()
}

// ratio is the logarithm of the likelihood of p to that of bound, after k of n.
func ratio(k, n, p, bound float64) float64 {
	r := 0.0
	if k > 0 {
		r += k * math.Log(p/bound)
	}
	if n > k {
		r += (n - k) * (math.Log1p(-p) - math.Log1p(-bound))
	}
	return r
}

// mixture sums weighted likelihood ratios without leaving logarithms.
type mixture struct {
	terms [1 + failAlternatives]float64
	n     int
}

func (m *mixture) add(weight, logRatio float64) {
	m.terms[m.n] = math.Log(weight) + logRatio
	m.n++
}

func (m *mixture) log() float64 {
	top := math.Inf(-1)
	for _, t := range m.terms[:m.n] {
		top = max(top, t)
	}
	if math.IsInf(top, 0) {
		return top
	}
	sum := 0.0
	for _, t := range m.terms[:m.n] {
		sum += math.Exp(t - top)
	}
	return top + math.Log(sum)
}

// never stands for more requests than anybody waits for.
const never = 1 << 30

// remaining is how many more observations are needed until keptEvidence passes
// after k of n, if of those that come the part coming is bad; never if they would not
// do. expected is what keptEvidence takes it to be, whatever comes.
func remaining(k, n, bound, expected, coming float64) float64 {
	enough := func(m float64) bool { return keptEvidence(k+coming*m, n+m, bound, expected) >= passAt }
	if enough(0) {
		return 0
	}
	high := 1.0
	for !enough(high) {
		if high *= 2; high > never {
			return never
		}
	}
	low := high / 2
	for high-low > 1 {
		if mid := (low + high) / 2; enough(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return math.Ceil(high)
}
