package sources

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// patience is how often a question that failed is asked again, and when, as
// logcli's variables say it. The zero value asks once.
type patience struct {
	retries  int
	min, max time.Duration // between two tries
}

const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// readPatience reads LOKI_CLIENT_RETRIES, LOKI_CLIENT_MIN_BACKOFF and
// LOKI_CLIENT_MAX_BACKOFF, the latter two in seconds; 0 is as unset.
func readPatience(env Env) (patience, error) {
	p := patience{min: minBackoff, max: maxBackoff}
	var errs []error
	number := func(name string, most int) int {
		v, _ := env(name)
		if v == "" {
			return 0
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > most {
			errs = append(errs, fmt.Errorf("%s=%q: want a number from 0 to %d", name, v, most))
			return 0
		}
		return n
	}
	p.retries = number("LOKI_CLIENT_RETRIES", 10)
	if n := number("LOKI_CLIENT_MIN_BACKOFF", 3600); n > 0 {
		p.min = time.Duration(n) * time.Second
		p.max = max(p.max, p.min)
	}
	if n := number("LOKI_CLIENT_MAX_BACKOFF", 3600); n > 0 {
		p.max = time.Duration(n) * time.Second
		p.min = min(p.min, p.max)
	}
	return p, errors.Join(errs...)
}

// wait is how long to wait after n failures in a row, one or more; chance, from
// 0 to 1, spreads those who failed together.
func (p patience) wait(n int, chance float64) time.Duration {
	d := p.min
	for ; n > 1 && d < p.max; n-- {
		d *= 2
	}
	d = min(d, p.max)
	return d/2 + time.Duration(chance*float64(d/2))
}

// passing reports whether the same question may be answered soon.
func passing(err error) bool {
	e, ok := errors.AsType[*RemoteError](err)
	if !ok {
		return false
	}
	switch e.Kind {
	case RemoteFailed, RemoteTimeout, RemoteUnreachable, RemoteBroken:
		return true
	}
	return false
}
