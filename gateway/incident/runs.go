package incident

import (
	"fmt"
	"slices"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// The states of a breaker between which it goes while its upstream is down.
const (
	open     = "open"
	halfOpen = "half_open"
)

// try reports whether e, which by did, is a breaker's going from open to half-open or
// back by itself: that is repeated for as long as the upstream is down, every few
// seconds.
func try(e *api.Event, by string) bool {
	return e != nil && e.Event == string(decision.KindBreakerTransition) && decision.ByMachine(by) &&
		(e.From == open && e.To == halfOpen || e.From == halfOpen && e.To == open)
}

// ends reports whether e is a change after which the tries of a bucket of upstream
// tell of something else: one of its own, or what became of the upstream.
func ends(e *api.IncidentEntry, of *api.IncidentEntry) bool {
	if e.Event == nil || e.Event.Provider != of.Event.Provider {
		return false
	}
	switch decision.Kind(e.Event.Event) {
	case decision.KindBreakerTransition:
		return e.Event.Capability == of.Event.Capability && e.Instance == of.Instance
	case decision.KindHealthTransition, decision.KindTrafficStep, decision.KindOperatorCommand:
		return true
	}
	return false
}

// fold takes e into the tries of its bucket that it goes on with, so that they are
// one entry however many they are; false if there are none.
func (r *Record) fold(e api.IncidentEntry) bool {
	if !try(e.Event, e.By) {
		return false
	}
	for i, there := range slices.Backward(r.Entries) {
		if !ends(&there.IncidentEntry, &e) {
			continue
		}
		if !try(there.Event, there.By) {
			return false
		}
		r.Entries = slices.Delete(r.Entries, i, i+1)
		r.add(there.with(e))
		return true
	}
	return false
}

// with is the run that e goes on with, or begins, and e.
func (there Entry) with(e api.IncidentEntry) api.IncidentEntry {
	run := there.IncidentEntry
	if run.Last.IsZero() {
		run.Count, run.Last = failed(run.Event), run.At
	}
	// Of those that failed it has the newest: that one says why.
	if failed(e.Event) > failed(run.Event) || failed(e.Event) == failed(run.Event) && !e.Event.Time.Before(run.Event.Time) {
		run.Event = e.Event
	}
	run.Count += failed(e.Event)
	run.At, run.Last = earlier(run.At, e.At), later(run.Last, e.At)
	run.Text = runText(run.Event, run.Count)
	return run
}

// failed is how many tries e says to have failed.
func failed(e *api.Event) int {
	if e.To == open {
		return 1
	}
	return 0
}

// runText says for people what a run is of which e is the newest.
func runText(e *api.Event, tries int) string {
	s := api.JoinWords(e.Provider, e.Capability, "OPEN > HALF > OPEN")
	if tries == 0 {
		return s
	}
	if tries == 1 {
		s += ", 1 try failed"
	} else {
		s += fmt.Sprintf(", %d tries failed", tries)
	}
	if e.Detail != "" {
		s += ", the last: " + e.Detail
	}
	return s
}
