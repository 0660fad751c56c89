package demo

import (
	"context"
	"fmt"
	"time"
)

// Script is a story that the primary of the main model lives through.
type Script string

// The scripts.
const (
	Outage Script = "outage" // healthy, failing, partly failing, healthy again
	Quiet  Script = "quiet"  // nothing fails
)

// Scripts lists every script.
var Scripts = []Script{Outage, Quiet}

// stage is a part of a script: what the primary does in it and what is worth
// watching.
type stage struct {
	lasts time.Duration // 0 in the last stage: for good
	fault Fault
	say   func(left time.Duration) string
	// held is said instead where the primary's next step must wait, back and over
	// where it has its traffic; empty: say is.
	held, back, over string
}

// Standing is how far the primary is on its way back.
type Standing int

const (
	Away Standing = iota // less than all of its traffic is the primary's, and more may be
	Held                 // no more may be now: its evidence is not there yet, or its breaker is open
	Back                 // all of it is, and an incident is open
	Over                 // and none is
)

// phase is what a stage says where things stand so.
func (s *stage) phase(left time.Duration, now Standing) string {
	switch {
	case now == Held && s.held != "":
		return s.held
	case now == Back && s.back != "":
		return s.back
	case now == Over && s.over != "":
		return s.over
	}
	return s.say(left)
}

func fixed(s string) func(time.Duration) string {
	return func(time.Duration) string { return s }
}

// practise says how to take the primary's traffic away and give it back by
// hand, in the console's keys.
const practise = "W arms, choose " + East + ", < y lowers, > y raises"

// stages returns the script's parts in order. The last never ends. They follow
// the windows that ConfigYAML shortens: a failing upstream is suspect within
// seconds, and degraded suspectWindow after that.
func (s Script) stages() []stage {
	if s != Outage {
		return []stage{{say: fixed("nothing fails: " + practise)}}
	}
	broken := Fault{Kind: Unavailable}
	return []stage{
		{lasts: 20 * time.Second, say: func(left time.Duration) string {
			return fmt.Sprintf("windows cut to %d s. %s begins to fail in %d s", seconds(suspectWindow), East, seconds(left))
		}},
		{lasts: 10 * time.Second, fault: broken, say: fixed(East + " answers 503: watch BREAKER, FALLBACK, suspect")},
		{lasts: 12 * time.Second, fault: broken, say: fixed(fmt.Sprintf("suspect for %d s, then degraded by itself: SHARE 0%%, others serve", seconds(suspectWindow)))},
		{lasts: 14 * time.Second, fault: Fault{Kind: Hang}, say: fixed(East + " hangs now: only probes meet that, no client")},
		{lasts: 6 * time.Second, fault: Fault{Kind: Unavailable, Ratio: 0.4}, say: fixed(East + " fails 4 of 10: a probe may pass, not all twice")},
		{lasts: 18 * time.Second, say: fixed(East + " is well again: its probes pass, then you decide")},
		{
			say:  fixed("well again: W, choose " + East + ", > y; again when evidence passes"),
			held: "not now: wait for what BACK TO of " + East + " names, then W, > y",
			back: "its share is 100% again: i shows the incident, x there closes it",
			over: "it is over: " + practise,
		},
	}
}

// at returns the stage in force after elapsed, and what is left of it.
func at(stages []stage, elapsed time.Duration) (stage, time.Duration) {
	for _, st := range stages {
		if st.lasts == 0 || elapsed < st.lasts {
			return st, max(st.lasts-elapsed, 0)
		}
		elapsed -= st.lasts
	}
	return stages[len(stages)-1], 0
}

// seconds rounds up, so that a countdown ends at 1 and not at 0.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// run puts each stage's fault in force in its time until ctx ends.
func run(ctx context.Context, stages []stage, set func(Fault)) {
	t := time.NewTimer(0)
	defer t.Stop()
	for _, st := range stages {
		set(st.fault)
		if st.lasts == 0 {
			<-ctx.Done()
			return
		}
		t.Reset(st.lasts)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
