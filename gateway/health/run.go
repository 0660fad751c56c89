package health

import "time"

// run is a stretch of time in which something was red, gaps shorter than
// ClearFor included: a flapping signal neither starts a window again nor is
// given time in which it was not seen. Times are of the machine's clock.
type run struct {
	on    bool
	red   bool // at the last step
	since time.Duration
	clear time.Duration // since when it is not red, while on
}

func (r *run) see(now time.Duration, red bool) {
	if r.on && !r.red && now-r.clear >= ClearFor {
		*r = run{}
	}
	switch {
	case red && !r.on:
		*r = run{on: true, red: true, since: now}
	case r.on && !red && r.red:
		r.red, r.clear = false, now
	case red:
		r.red = true
	}
}

// lasted is how long it has been red, 0 if it is not now.
func (r *run) lasted(now time.Duration) time.Duration {
	if !r.red {
		return 0
	}
	return now - r.since
}

// openings are the last times at which the breakers of one upstream opened.
type openings struct {
	known bool
	seen  Openings
	at    [capabilities][MaxOpenings]time.Duration // latest first, valid up to n
	n     [capabilities]int
}

// see takes the counters at now.
func (o *openings) see(now time.Duration, c Openings) {
	if !o.known {
		o.known, o.seen = true, c
		return
	}
	for i := range c {
		if c[i] < o.seen[i] {
			continue // they began again
		}
		for more := min(c[i]-o.seen[i], MaxOpenings); more > 0; more-- {
			copy(o.at[i][1:], o.at[i][:])
			o.at[i][0] = now
			o.n[i] = min(o.n[i]+1, MaxOpenings)
		}
	}
	o.seen = c
}

// forget drops what happened so far.
func (o *openings) forget() { o.n = [capabilities]int{} }

// most is how often the breaker that opened most did so within OpeningsWindow.
func (o *openings) most(now time.Duration) int {
	most := 0
	for i, n := range o.n {
		for n > 0 && now-o.at[i][n-1] > OpeningsWindow {
			n--
		}
		most = max(most, n)
	}
	return most
}
