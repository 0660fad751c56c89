package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	historyVersion = 1
	// historyHours are kept, each of minutesAnHour healthy minutes: 24 h. An
	// outage adds none and so does not wear the baseline out.
	historyHours  = 24
	minutesAnHour = 60
	// historyAge is how long ago a minute may lie and still say what is usual:
	// as long as an upstream's state is kept.
	historyAge = 7 * 24 * time.Hour
)

// Minute is what happened in 60 seconds of one upstream, before it is known
// whether they count.
type Minute struct {
	began   time.Time // zero: none has begun
	spoiled bool
	tally   tally
}

// History keeps what is usual for one upstream: its last 24 h of minutes
// throughout which it was healthy. Minutes are summed by the hour as they end,
// so it forgets by the hour: 23 to 24 of them are kept. The minute under way is
// not stored. It is about 85 kB, whatever it counted. The zero value is empty.
// It is not safe for concurrent use; Collector is.
type History struct {
	minute Minute
	hours  [historyHours]hour
	at     int // the hour that is filled
}

type hour struct {
	minutes int
	end     time.Time // wall time, of its last minute
	tally   tally
}

// Add counts a request in the minute that now is in. healthy says whether the
// upstream was; one no spoils the minute. Minutes are told apart by the
// monotonic clock.
func (h *History) Add(s Sample, healthy bool, now time.Time) {
	h.Tick(healthy, now)
	h.minute.tally.add(s)
}

// Tick says how the upstream is while no request comes. A minute nobody ticked
// or added to does not exist, so downtime adds none.
func (h *History) Tick(healthy bool, now time.Time) {
	if h.minute.began.IsZero() {
		h.minute.began = now
	} else if now.Sub(h.minute.began) >= time.Minute {
		h.close(now)
		h.minute.began, h.minute.spoiled = now, false
		h.minute.tally = tally{}
	}
	if !healthy {
		h.minute.spoiled = true
	}
}

func (h *History) close(now time.Time) {
	if h.minute.spoiled {
		return
	}
	if h.hours[h.at].minutes == minutesAnHour {
		h.at = (h.at + 1) % historyHours
		h.hours[h.at] = hour{}
	}
	to := &h.hours[h.at]
	to.minutes++
	to.end = now.Round(0)
	to.tally.merge(&h.minute.tally)
}

// sum adds up the hours that are young enough.
func (h *History) sum(now time.Time) (minutes int, t tally) {
	for i := range h.hours {
		if u := &h.hours[i]; u.minutes > 0 && now.Sub(u.end) <= historyAge {
			minutes += u.minutes
			t.merge(&u.tally)
		}
	}
	return minutes, t
}

type historyJSON struct {
	Version int        `json:"version"`
	Hours   []hourJSON `json:"hours"` // oldest first
}

type hourJSON struct {
	Minutes int       `json:"minutes"`
	End     time.Time `json:"end"`
	Counts  tallyJSON `json:"counts"`
}

// MarshalJSON writes the hours with their version, without the minute under way.
func (h *History) MarshalJSON() ([]byte, error) {
	j := historyJSON{Version: historyVersion, Hours: []hourJSON{}}
	for i := range h.hours {
		if u := &h.hours[(h.at+1+i)%historyHours]; u.minutes > 0 {
			j.Hours = append(j.Hours, hourJSON{Minutes: u.minutes, End: u.end, Counts: u.tally.stored()})
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON refuses another version and whatever MarshalJSON cannot have
// written. Then h is as it was.
func (h *History) UnmarshalJSON(data []byte) error {
	var j historyJSON
	if err := strict(data, &j); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if j.Version != historyVersion {
		return fmt.Errorf("history: version %d is not %d", j.Version, historyVersion)
	}
	if len(j.Hours) > historyHours {
		return fmt.Errorf("history: %d hours are more than %d", len(j.Hours), historyHours)
	}
	var read History
	for i, u := range j.Hours {
		if u.Minutes < 1 || u.Minutes > minutesAnHour || (u.Minutes < minutesAnHour && i < len(j.Hours)-1) {
			return fmt.Errorf("history: an hour of %d minutes cannot be", u.Minutes)
		}
		if u.End.IsZero() {
			return errors.New("history: an hour does not say when it was")
		}
		t, err := u.Counts.tally()
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		read.hours[i] = hour{minutes: u.Minutes, end: u.End, tally: t}
		read.at = i
	}
	*h = read
	return nil
}
