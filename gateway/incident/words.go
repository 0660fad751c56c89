package incident

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"failback/gateway/decision"
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

// textOf says for people what e is.
func textOf(e *api.Event) string {
	var b strings.Builder
	say := func(words ...string) {
		for _, w := range words {
			if w == "" {
				continue
			}
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(w)
		}
	}
	say(e.Provider, e.Capability)
	value := func(s string) string { return s }
	switch decision.Kind(e.Event) {
	case decision.KindBreakerTransition, decision.KindHealthTransition:
		value = state
	case decision.KindTrafficStep:
		if e.Action == "" || e.Action == shareAction {
			say(shareAction)
			value = percent
			break
		}
		say("failback", e.Action)
	default:
		if e.Action == shareAction {
			value = percent
		}
		say(cmp.Or(e.Action, words(e.Event)))
	}
	if e.From != "" && e.To != "" {
		say(value(e.From), ">", value(e.To))
	} else {
		say(value(cmp.Or(e.To, e.From)))
	}
	if e.Result != "" && e.Result != api.ResultOK {
		say(e.Result)
	}
	// The id of a failback is for machines, and stays in the event.
	detail, reason := failbackID.ReplaceAllString(e.Detail, ""), e.Reason
	if reason == "raised" || reason == "lowered" {
		reason = "" // its numbers say so
	}
	if why := cmp.Or(detail, e.Why, e.Required, reason); why != "" {
		b.WriteString(": " + why)
	}
	if detail != "" && e.Why != "" && e.Why != detail {
		b.WriteString(" (" + e.Why + ")")
	}
	return b.String()
}

// shareAction is the action of what moves a share.
const shareAction = "share"

// state is a state of a breaker or of an upstream, as the screens write it.
func state(s string) string {
	if s == halfOpen {
		return "HALF"
	}
	return strings.ToUpper(s)
}

func percent(s string) string {
	if s == "" {
		return ""
	}
	return s + "%"
}

// failbackID is what the detail of a step begins with: the id of its failback.
var failbackID = regexp.MustCompile(`^failback \d{4}-\d\d-\d\dT\d\d(\.\d+)?(, |: |$)`)

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

func words(s string) string { return strings.ReplaceAll(s, "_", " ") }
