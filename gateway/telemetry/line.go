package telemetry

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// Meta is what every line says of its gateway.
type Meta struct {
	Version  string // of the program
	Instance string
}

// The most bytes of text in a line that a client or an upstream chose: one
// request must not fill a disk.
const (
	idRoom     = 128
	codeRoom   = 64
	detailRoom = 256
	eventRoom  = 1024 // of an event, where it is the operators' own text
)

// Line renders a decision as the log and the operator API show it.
func Line(d *decision.Decision, m Meta) api.Decision {
	l := api.Decision{
		Candidates: make([]api.DecisionCandidate, 0, len(d.Candidates)),
		Attempts:   make([]api.DecisionAttempt, 0, len(d.Attempts)),
	}
	render(&l, d, m)
	return l
}

// render makes l the line of d. The memory of l's lists is used again.
func render(l *api.Decision, d *decision.Decision, m Meta) {
	*l = api.Decision{
		Event:               string(decision.KindDecision),
		Time:                d.Time,
		RequestID:           cut(d.RequestID, idRoom),
		TraceID:             cut(d.TraceID, idRoom),
		Conversation:        cut(d.Conversation, idRoom),
		Turn:                cut(d.Turn, idRoom),
		OperationID:         cut(d.OperationID, idRoom),
		StateVersion:        cut(d.StateVersion, idRoom),
		TaskType:            d.Task,
		Model:               d.Model,
		Endpoint:            d.Endpoint,
		Stream:              d.Stream,
		PrimaryProvider:     d.Primary,
		SelectedProvider:    d.Selected,
		SelectedModel:       d.SelectedModel,
		ResponseModel:       cut(d.ResponseModel, idRoom),
		Substitute:          d.Substitute,
		Route:               string(d.Route),
		FallbackTriggered:   d.Fallback,
		WorkflowStatus:      string(d.Status),
		Reason:              string(d.Reason),
		FailedProvider:      d.Failed,
		Candidates:          l.Candidates[:0],
		Attempts:            l.Attempts[:0],
		FirstOutputMS:       msIf(d.FirstOutput, d.HasFirstOutput),
		DurationMS:          ms(d.Duration),
		RemainingDeadlineMS: ms(d.RemainingDeadline),
		RetryTokens:         finite(d.RetryTokens),
		HTTPStatus:          d.HTTPStatus,
		ClientRetry:         d.ClientRetry,
		ServiceVersion:      m.Version,
		Instance:            m.Instance,
	}
	for _, c := range d.Candidates {
		l.Candidates = append(l.Candidates, api.DecisionCandidate{
			Provider: c.Provider, Model: c.Model, Weight: finite(c.Weight), Share: c.Share, Skipped: string(c.Skipped),
			SkippedWhy: cut(c.SkippedWhy, detailRoom),
		})
	}
	for i := range d.Attempts {
		a := &d.Attempts[i]
		o := &a.Outcome
		l.Attempts = append(l.Attempts, api.DecisionAttempt{
			Provider: a.Provider, Region: a.Region, Capability: string(a.Capability),
			Class: string(o.Class), Status: o.Status,
			FirstOutputMS: msIf(o.FirstOutput, o.HasFirstOutput), DurationMS: ms(o.Duration),
			UpstreamRequestID: cut(o.UpstreamRequestID, idRoom),
			Code:              cut(o.Code, codeRoom), Detail: cut(o.Detail, detailRoom),
		})
		if a.Next != "" {
			followed(&l.Attempts[len(l.Attempts)-1], a)
		}
		if d.Sampled {
			l.Attempts[len(l.Attempts)-1].SpanID = a.Span.String()
		}
	}
}

// followed says of l how a began, what came after it and why.
func followed(l *api.DecisionAttempt, a *decision.Attempt) {
	v := &struct { // together: one allocation
		started, remaining, tokens, weight, wait float64
		share                                    int
	}{ms(a.Started), ms(a.Remaining), finite(a.RetryTokens), finite(a.Weight), ms(a.Wait), a.Share}
	l.StartedMS, l.RemainingDeadlineMS, l.RetryTokens, l.Weight, l.Share = &v.started, &v.remaining, &v.tokens, &v.weight, &v.share
	l.Next, l.Why = string(a.Next), string(a.Why)
	if a.Wait > 0 {
		l.WaitMS = &v.wait
	}
}

// EventLine renders an event as the log and the operator API show it. Its Seq
// is left to whoever numbers events.
func EventLine(e decision.Event) api.Event {
	return api.Event{
		Event: string(e.Kind), Time: e.Time, Provider: e.Provider, Region: e.Region,
		Capability: string(e.Capability), Model: e.Model, From: e.From, To: e.To, Reason: e.Reason,
		Detail: cut(e.Detail, eventRoom), By: cut(e.By, idRoom), Why: cut(e.Why, eventRoom), Action: e.Action, Result: e.Result, Revision: e.Revision,
		Required: cut(e.Required, eventRoom), Notified: e.Notified,
	}
}

// ms is d in milliseconds, cut to the microsecond.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func msIf(d time.Duration, known bool) *float64 {
	if !known {
		return nil
	}
	v := ms(d)
	return &v
}

// finite replaces what JSON has no word for by 0.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// cut shortens s to at most room bytes, at the border of a character, and
// marks it.
func cut(s string, room int) string {
	if len(s) <= room {
		return s
	}
	const mark = "…"
	end := room - len(mark)
	for range utf8.UTFMax - 1 {
		if utf8.RuneStart(s[end]) {
			break
		}
		end--
	}
	s = s[:end]
	// A copy, so that a line which is kept does not keep the whole.
	return strings.Clone(s) + mark
}
