package traffic

import (
	"strconv"
	"strings"
	"time"

	"failback/gateway/decision"
)

// eventsOf tells what became of cur, the record of name: its step, its
// condition, its plan, in this order.
func eventsOf(name string, cur Record, o outcome, by, why string, now time.Time) []decision.Event {
	next := o.next
	var l []decision.Event
	event := decision.Event{
		Kind: decision.KindTrafficStep, Time: now, Provider: name, By: by, Why: why, Result: "ok", Revision: next.Revision,
	}
	if next.Share != cur.Share {
		e := event
		e.Action, e.From, e.To, e.Reason = "share", strconv.Itoa(cur.Share), strconv.Itoa(next.Share), o.step
		e.Detail = details(failbackDetail(next), o.detail)
		l = append(l, e)
	}
	if next.condition() != cur.condition() || next.Machine != cur.Machine {
		e := event
		e.Kind, e.Action, e.Reason = decision.KindHealthTransition, "state", o.cause
		e.From, e.To = cur.condition().String(), next.condition().String()
		e.Detail = o.detail
		l = append(l, e)
	}
	if !samePlan(cur.Plan, next.Plan) {
		e := event
		e.Action = "plan"
		if next.Plan == nil {
			e.Reason, e.Detail = "ended", "approved by "+cur.Plan.By
		} else {
			e.Reason = "approved"
			e.Detail = failbackDetail(next)
		}
		l = append(l, e)
	}
	return l
}

func failbackDetail(r Record) string {
	if r.FailbackID == "" {
		return ""
	}
	d := "failback " + r.FailbackID
	if n := len(r.Split); n > 0 {
		d += ", " + strconv.Itoa(n) + " conversations split by request"
	}
	return d
}

func details(parts ...string) string {
	var l []string
	for _, p := range parts {
		if p != "" {
			l = append(l, p)
		}
	}
	return strings.Join(l, ": ")
}

// noteOf tells of something that moves no share.
func noteOf(name string, r Record, now time.Time, what, detail string) decision.Event {
	return decision.Event{
		Kind: decision.KindTrafficStep, Time: now, Provider: name, From: strconv.Itoa(r.Share),
		Reason: what, Action: what, By: decision.Auto, Result: "ok", Revision: r.Revision,
		Detail: details(failbackDetail(r), detail),
	}
}

func storageEvent(action, result, detail string) decision.Event {
	return decision.Event{
		Kind: decision.KindTrafficStep, Time: time.Now(), Action: action, Reason: action, Result: result,
		By: decision.Auto, Detail: detail,
	}
}
