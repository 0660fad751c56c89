package gateway

import (
	"fmt"
	"sync"
	"time"
)

const (
	// alarmEvery is how often one alarm is said while what it is about goes on.
	alarmEvery = 10 * time.Second
	// alarmTexts is how many different ones are remembered.
	alarmTexts = 128
)

// alarms keeps an answer that no rule names from filling a disk: an upstream
// that gives it to every request raises the same alarm as often. Its zero
// value is ready. Safe for concurrent use.
type alarms struct {
	mu sync.Mutex
	// said holds the texts of the last alarmEvery. Guarded by mu.
	said map[string]*repeated
}

type repeated struct {
	at    time.Time
	since int // how often it was raised and not said since
}

// due returns what is to be said of an alarm that is raised now, or false if
// that was said a moment ago.
func (a *alarms) due(detail string) (string, bool) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.said[detail]
	switch {
	case r == nil:
		if a.said == nil || len(a.said) >= alarmTexts {
			a.said = make(map[string]*repeated)
		}
		a.said[detail] = &repeated{at: now}
		return detail, true
	case now.Sub(r.at) < alarmEvery:
		r.since++
		return "", false
	}
	n := r.since
	r.at, r.since = now, 0
	if n == 0 {
		return detail, true
	}
	return fmt.Sprintf("%s (and %d times more since the last such line)", detail, n), true
}
