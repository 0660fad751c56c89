package text

import (
	"slices"
	"strconv"
	"strings"

	"failback/gateway/operator/api"
)

// Rule says what policy holds for a task, as it is configured now; nil is a task
// of which nothing is known. It is text from outside.
func Rule(t *api.Task) string {
	if t == nil {
		return "not known: the task is not in the configuration that is in force now"
	}
	s := "fallback: " + t.Fallback
	switch t.Fallback {
	case "any":
		s += " (any candidate may answer instead of the primary)"
	case "same_model":
		s += " (only a candidate of the same model may answer instead of the primary)"
	case "never":
		s += " (nobody but the primary may answer)"
	}
	s += "; on_unavailable: " + t.OnUnavailable
	switch t.OnUnavailable {
	case "fail":
		s += " (without an answer the client gets an error)"
	case "queue":
		s += " (without an answer it waits in the queue, where it has an id)"
	case "human":
		s += " (without an answer it goes to a person)"
	}
	return s
}

// Why says of each step of a decision why it was taken, and why the last one
// was the last: one sentence each, in order. It is what the decision recorded;
// of one that an older version recorded it is derived. It is text from outside.
func Why(d *api.Decision) []string {
	var w []string
	if len(d.Attempts) == 0 {
		w = append(w, nobodyAsked(d))
	} else {
		w = append(w, firstAsked(d))
	}
	for i := range d.Attempts {
		switch {
		case d.Attempts[i].Next != "":
			w = append(w, whyRecorded(d, i))
		case i < len(d.Attempts)-1:
			w = append(w, whyNext(d, i))
		default:
			w = append(w, whyLast(d, i))
		}
	}
	return append(w, outcome(d))
}

// because is a reason with its meaning.
func because(reason string) string {
	if m := Meaning(reason); m != "" {
		return reason + ", " + m
	}
	return reason
}

// passed lists the candidates in [from, to) of d that were skipped.
func passed(d *api.Decision, from, to int) string {
	var ss []string
	for i := max(from, 0); i < min(to, len(d.Candidates)); i++ {
		if c := &d.Candidates[i]; c.Skipped != "" {
			ss = append(ss, nameOf(d, i)+" ("+because(c.Skipped)+")")
		}
	}
	return strings.Join(ss, "; ")
}

func nobodyAsked(d *api.Decision) string {
	switch p := passed(d, 0, len(d.Candidates)); {
	case p != "":
		return "nobody was asked: " + p
	case d.Reason != "":
		return "nobody was asked: " + because(d.Reason)
	}
	return "nobody was asked"
}

func firstAsked(d *api.Decision) string {
	at, name := asked(d, 0)
	// A provider that stands twice is the primary where it stands first.
	primary := d.Attempts[0].Provider == d.PrimaryProvider && at <= nextOf(d, d.PrimaryProvider, len(d.Candidates))
	s := name + " was asked first"
	switch p := passed(d, 0, at); {
	case primary && d.Reason == "overflow":
		return s + ": it is the primary, and " + Meaning("overflow")
	case p != "":
		return s + "; passed by before it: " + p
	case primary:
		return s + ": it is the primary, and it was open"
	}
	return s + ": it was the first in order that was open"
}

// whyRecorded says what followed attempt i and what decided so.
func whyRecorded(d *api.Decision, i int) string {
	a := &d.Attempts[i]
	at, name := asked(d, i)
	s := name + ": " + because(a.Class) + ". "
	wait := ""
	if a.WaitMS != nil && *a.WaitMS > 0 {
		wait = " after a wait of " + Seconds(*a.WaitMS/1000)
	}
	why := ""
	if a.Why != "" {
		why = ": " + Ruled(a.Why)
	}
	to, next := -1, ""
	if i+1 < len(d.Attempts) {
		to, next = asked(d, i+1)
	}
	switch a.Next {
	case "answered":
		return s + "Nothing had to follow"
	case "same_again":
		return s + "It was asked again" + wait + why
	case "switch":
		s += next + " was asked" + wait + why
		if p := passed(d, at+1, to); p != "" {
			s += "; passed by: " + p
		}
		return s
	}
	return s + "Nobody was asked after it" + why
}

// whyNext says why attempt i+1 followed attempt i.
func whyNext(d *api.Decision, i int) string {
	a := &d.Attempts[i]
	at, name := asked(d, i)
	to, next := asked(d, i+1)
	s := name + ": " + because(a.Class) + ". "
	if at == to && a.Provider == d.Attempts[i+1].Provider {
		return s + again(a.Class)
	}
	s += "Another candidate may take that over, and " + next + " was the next in order"
	if p := passed(d, at+1, to); p != "" {
		s += " that was open; passed by: " + p
	}
	return s
}

func again(class string) string {
	switch class {
	case "connect", "reset":
		return "That is cheap and was its first failure in a while, so it was asked once more"
	case "refused":
		return "So it was sent once more at once, on a new connection"
	case "server_error":
		return "It was its first failure in a while, so it was asked once more after a short wait"
	case "overloaded":
		return "Nobody else was there to take it, so it was asked again after a wait"
	case "rate_limited":
		return "Waiting was better than leaving, so it was asked again after the wait it wanted"
	case "credential", "quota_exhausted":
		return "So its next key was used at once"
	}
	return "So it was asked again"
}

// whyLast says why nothing followed the last attempt.
func whyLast(d *api.Decision, i int) string {
	a := &d.Attempts[i]
	_, name := asked(d, i)
	if a.Class == "ok" {
		return name + ": " + because(a.Class) + ". Nothing had to follow"
	}
	s := name + ": " + because(a.Class) + ". "
	switch a.Class {
	case "invalid_request", "content_filter":
		if d.WorkflowStatus == "rejected" {
			return s + "Another candidate would say the same, so none was asked: the client got this answer as it is"
		}
		return s + "From another than the primary that is no answer to the client, and nobody else was asked"
	case "context_length":
		return s + "Only a candidate marked larger_context could have taken it, and none was open"
	case "client_gone", "caller_deadline":
		return s + "Nobody waits for an answer any more, so none was asked for"
	case "internal", "unknown":
		return s + "What is not understood is not repeated elsewhere: it failed safely"
	}
	switch {
	case d.FirstOutputMS != nil:
		return s + "Output had been given to the client by then, and two models' texts are never joined: the stream ended with an error"
	case d.RemainingDeadlineMS <= 0 || d.Reason == "deadline":
		return s + "No time was left for another"
	}
	tried := Tried(d)
	waiting := "" // could have been asked
	for j := range d.Candidates {
		c := &d.Candidates[j]
		if c.Skipped == "" && !slices.Contains(tried, j) {
			waiting = nameOf(d, j)
			break
		}
	}
	p := passed(d, 0, len(d.Candidates))
	switch {
	case waiting == "" && p != "":
		return s + "No other candidate might take it: " + p
	case waiting == "":
		return s + "There was no other candidate"
	case (a.Class == "credential" || a.Class == "quota_exhausted") && a.Provider == d.PrimaryProvider:
		return s + "A dead key of the primary is not hidden behind another candidate (errors." + a.Class + ": fail), so " + waiting + " was not asked"
	case d.RetryTokens < 1:
		return s + "The retry budget was used up (" + Rate(d.RetryTokens) + " left), so " + waiting + " was not asked"
	}
	return s + "The attempts of one request were used up (retry.attempts, retry.max_switches) or a repetition could have done something twice (side_effects), so " + waiting + " was not asked"
}

// outcome says what the request came to.
func outcome(d *api.Decision) string {
	code := "HTTP " + strconv.Itoa(d.HTTPStatus)
	switch d.WorkflowStatus {
	case "completed":
		return "completed: the primary answered"
	case "degraded_completed":
		by := d.SelectedProvider
		if c := Answered(d); c >= 0 {
			by = nameOf(d, c)
		}
		s := "degraded_completed: " + by + " answered instead of " + d.PrimaryProvider + ", because of " + because(d.Reason)
		if d.Substitute {
			s += "; it is another model"
		}
		return s
	case "unavailable":
		return "unavailable: nobody answered, and the client got " + code + "; the last cause is " + because(d.Reason)
	case "queued":
		return "queued: nobody answered, and it waits for its turn; the last cause is " + because(d.Reason)
	case "human":
		return "human: nobody might answer, and it went to a person; the last cause is " + because(d.Reason)
	case "incomplete":
		return "incomplete: the client got part of an answer; the cause is " + because(d.Reason)
	case "cancelled":
		return "cancelled: the client left or its own time ran out; " + because(d.Reason)
	case "rejected":
		return "rejected: the request was the caller's mistake (" + code + "); " + because(d.Reason)
	case "refused":
		return "refused: this gateway did not take the request (" + code + "); " + because(d.Reason)
	}
	return d.WorkflowStatus + ": " + because(d.Reason)
}
