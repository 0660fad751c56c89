package incident

import (
	"fmt"
	"time"

	"failback/gateway/operator/api"
)

// Clock is how times are written for people.
func Clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// What says for people what e is: its kind, except of an event, and its text.
func What(e *api.IncidentEntry) string {
	s := e.Text
	if e.Kind != api.EntryEvent {
		s = e.Kind + ": " + s
	}
	if last := Clock(e.Last); !e.Last.IsZero() && last != Clock(e.At) {
		s += ", until " + last
	}
	return s
}

// Counted says since when the counts of r are.
func Counted(r Record) string {
	since, first := r.CountsSince(), r.Milestones.FirstFailure
	switch at := Clock(since); {
	case first.IsZero():
		return "since it was opened at " + at + ", as no first failure is known"
	case !since.After(first):
		return "since the first failure at " + at
	case since.Before(r.OpenedAt):
		return "since " + at + ", after the first failure"
	default:
		return "since it was opened at " + at + ", after the first failure"
	}
}

// Nothing says that a layer has no outcome: nobody reported one, or of what is
// counted there was none.
func Nothing(layer string) string {
	switch layer {
	case api.LayerTechnical:
		return "no attempt counted"
	case api.LayerWorkflow:
		return "no request counted"
	}
	return "nothing reported"
}

// LeftOut says that n entries of a timeline are not there.
func LeftOut(n int) string {
	if n == 1 {
		return "1 entry had no room and is left out"
	}
	return fmt.Sprintf("%d entries had no room and are left out", n)
}

// counted is n of what has the name one, of more than one with an s.
func counted[N int | int64 | uint64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// wasOrWere is n and the verb that goes with it.
func wasOrWere(n uint64) string {
	if n == 1 {
		return "1 was"
	}
	return fmt.Sprintf("%d were", n)
}

func of(upstream string) string {
	if upstream == "" {
		return ""
	}
	return "of " + upstream
}

func from(upstream string) string {
	if upstream == "" {
		return ""
	}
	return "from " + upstream
}
