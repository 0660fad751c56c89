package gateway

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// alarmEvery is how often one alarm is said while what it is about goes on.
	alarmEvery = 10 * time.Second
	// alarmTexts is how many different ones are said at once; after that one more
	// comes free every alarmPace.
	alarmTexts = 64
	alarmPace  = time.Second
	// alarmRoom is how long one may be, in bytes.
	alarmRoom = 2 << 10
)

// alarms keeps texts for the operator of the process from filling a disk: an
// upstream that gives an answer which no rule names to every request raises an
// alarm as often, be it the same or another one each time. Its zero value is
// ready. Safe for concurrent use.
type alarms struct {
	mu sync.Mutex // guards everything that follows
	// said holds the texts of the last alarmEvery, and maybe older ones.
	said map[string]*repeated
	// used is how many different texts count as said at once, at the time last.
	used    float64
	last    time.Time
	leftOut int // different ones that were not said since one was
}

type repeated struct {
	at    time.Time
	since int // how often it was raised and not said since
}

// due returns what is to be said, in one line, of an alarm that is raised now;
// or false if that was said a moment ago, or there are too many.
func (a *alarms) due(detail string) (string, bool) {
	now := time.Now()
	detail = oneLine(detail)
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.said[detail]
	if r != nil && now.Sub(r.at) < alarmEvery {
		r.since++
		return "", false
	}
	a.used = max(0, a.used-float64(now.Sub(a.last))/float64(alarmPace))
	a.last = now
	if a.used+1 > alarmTexts {
		a.leftOut++
		return "", false
	}
	a.used++
	if r == nil {
		if a.said == nil || len(a.said) >= alarmTexts {
			a.said = make(map[string]*repeated)
		}
		r = &repeated{}
		a.said[detail] = r
	}
	text := detail
	if r.since > 0 {
		text += fmt.Sprintf(" (and %d times more since the last such line)", r.since)
	}
	if a.leftOut > 0 {
		text += fmt.Sprintf(" (%d other alarms were left out before)", a.leftOut)
	}
	r.at, r.since, a.leftOut = now, 0, 0
	return text, true
}

// oneLine is text in one line of at most alarmRoom bytes.
func oneLine(text string) string {
	text = inOneLine.Replace(text[:min(len(text), 2*alarmRoom)])
	const cut = "…"
	if len(text) > alarmRoom {
		text = strings.ToValidUTF8(text[:alarmRoom-len(cut)], "") + cut
	}
	return text
}

var inOneLine = strings.NewReplacer("\r", "", "\n", "; ", "\t", " ")
