package spans

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"failback/gateway/decision"
	"failback/gateway/tracecontext"
)

// count is how many spans render makes of d.
func count(d *decision.Decision) int {
	n := 1 + len(d.Attempts)
	if _, ok := answered(d); ok {
		n++
	}
	for i := range len(d.Attempts) + 1 {
		if decides(d, i) {
			n++
		}
	}
	return n
}

// render appends the spans of d: the request's, and below it one for each
// attempt, each decision between them, and the answer.
func render(spans []*tracepb.Span, d *decision.Decision) []*tracepb.Span {
	id, err := hex.DecodeString(d.TraceID)
	if err != nil || len(id) != 16 {
		return spans
	}
	t := tree{d: d, trace: id}
	spans = append(spans, t.workflow())
	for i := range d.Attempts {
		if decides(d, i) {
			spans = append(spans, t.failover(i))
		}
		spans = append(spans, t.attempt(&d.Attempts[i]))
	}
	if decides(d, len(d.Attempts)) {
		spans = append(spans, t.failover(len(d.Attempts)))
	}
	if from, ok := answered(d); ok {
		spans = append(spans, t.parser(from))
	}
	return spans
}

type tree struct {
	d     *decision.Decision
	trace []byte
}

// span begins one that lasts from one time after acceptance to another. Without
// an id it gets its own.
func (t *tree) span(name string, id decision.SpanID, from, to time.Duration) *tracepb.Span {
	if id.IsZero() {
		id = tracecontext.NewSpanID()
	}
	from = min(max(from, 0), t.d.Duration)
	to = min(max(to, from), t.d.Duration)
	return &tracepb.Span{
		TraceId: t.trace, SpanId: id[:], ParentSpanId: t.d.Span[:], Name: name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		Flags:             uint32(tracecontext.Sampled) | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK),
		StartTimeUnixNano: t.at(from), EndTimeUnixNano: t.at(to),
	}
}

func (t *tree) at(after time.Duration) uint64 { return uint64(t.d.Time.Add(after).UnixNano()) }

func (t *tree) workflow() *tracepb.Span {
	d := t.d
	s := t.span(workflow, d.Span, 0, d.Duration)
	s.Kind, s.ParentSpanId = tracepb.Span_SPAN_KIND_SERVER, nil
	if !d.ParentSpan.IsZero() {
		s.ParentSpanId = d.ParentSpan[:]
		s.Flags |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	provider := d.Selected
	if provider == "" {
		provider = decision.NoProvider
	}
	s.Attributes = []*commonpb.KeyValue{
		text(attrRoute, string(d.Route)), text(attrProvider, provider), text(attrRequestID, d.RequestID),
		truth(attrTriggered, d.Fallback), truth(attrAllowed, allowed(d)),
		text(attrStatus, string(d.Status)), text(attrTask, d.Task), text(attrReason, string(d.Reason)),
	}
	if d.Model != "" {
		s.Attributes = append(s.Attributes, text(attrModel, d.Model))
	}
	if d.OperationID != "" {
		s.Attributes = append(s.Attributes, text(attrOperation, d.OperationID))
	}
	if d.HTTPStatus != 0 {
		s.Attributes = append(s.Attributes, number(attrHTTP, d.HTTPStatus))
	}
	for i := range slices.Backward(d.Attempts) {
		if class := d.Attempts[i].Outcome.Class; class != decision.OK {
			s.Attributes = append(s.Attributes, text(attrClass, string(class)))
			break
		}
	}
	switch d.Status {
	case decision.Unavailable, decision.Incomplete, decision.RefusedByUs, decision.Human:
		s.Status = failed(string(d.Reason))
	}
	return s
}

func (t *tree) attempt(a *decision.Attempt) *tracepb.Span {
	name := fallback
	if a.Primary {
		name = primary
	}
	o := &a.Outcome
	s := t.span(name, a.Span, a.Started, a.Started+o.Duration)
	s.Kind = tracepb.Span_SPAN_KIND_CLIENT
	s.Attributes = []*commonpb.KeyValue{text(attrProvider, a.Provider), text(attrModel, a.Model)}
	if o.Status != 0 {
		s.Attributes = append(s.Attributes, number(attrHTTP, o.Status))
	}
	if o.Class != decision.OK {
		s.Attributes = append(s.Attributes, text(attrClass, string(o.Class)))
		if o.Class != decision.ClientGone {
			s.Status = failed(string(o.Class))
		}
	}
	return s
}

// decides reports whether something was decided before attempt i, or after the
// last one: before the first only where a candidate was passed by.
func decides(d *decision.Decision, i int) bool {
	switch n := len(d.Attempts); {
	case n == 0:
		return len(d.Candidates) > 0
	case i == 0:
		return !d.Attempts[0].Primary || slices.ContainsFunc(d.Candidates, func(c decision.Candidate) bool {
			return c.Blocked && c.SkippedAt <= d.Attempts[0].Started
		})
	case i == n:
		last := &d.Attempts[n-1]
		return last.Next == decision.NextEnd && !last.Outcome.Relayed && last.Outcome.Class != decision.OK
	}
	return true
}

// failover is the decision before attempt i, or after the last one.
func (t *tree) failover(i int) *tracepb.Span {
	d := t.d
	var from time.Duration
	to := d.Duration
	if i > 0 {
		from = d.Attempts[i-1].Started + d.Attempts[i-1].Outcome.Duration
	}
	if i < len(d.Attempts) {
		to = d.Attempts[i].Started
	}
	s := t.span(failover, decision.SpanID{}, from, to)
	s.Attributes = []*commonpb.KeyValue{truth(attrAllowed, allowed(d))}
	if i < len(d.Attempts) {
		s.Attributes = append(s.Attributes, text(attrProvider, d.Attempts[i].Provider))
	}
	switch {
	case i > 0:
		a := &d.Attempts[i-1]
		s.Attributes = append(s.Attributes, text(attrNext, string(a.Next)), text(attrWhy, string(a.Why)))
		if a.Wait > 0 {
			s.Attributes = append(s.Attributes, fraction(attrWait, float64(a.Wait.Microseconds())/1000))
		}
	case len(d.Attempts) == 0:
		s.Attributes = append(s.Attributes, text(attrNext, string(decision.NextEnd)), text(attrWhy, string(d.Reason)))
	default:
		s.Attributes = append(s.Attributes, text(attrNext, string(decision.NextSwitch)), text(attrWhy, string(passedBy(d))))
	}
	for j := range d.Candidates {
		c := &d.Candidates[j]
		if !c.Blocked || i > 0 && c.SkippedAt < from || i < len(d.Attempts) && c.SkippedAt > to {
			continue
		}
		s.Events = append(s.Events, &tracepb.Span_Event{
			Name: blocked, TimeUnixNano: min(max(t.at(c.SkippedAt), s.StartTimeUnixNano), s.EndTimeUnixNano),
			Attributes: []*commonpb.KeyValue{text(attrProvider, c.Provider), text(attrModel, c.Model), text(attrReason, string(c.Skipped))},
		})
	}
	return s
}

// passedBy is why the first candidate was not asked.
func passedBy(d *decision.Decision) decision.Reason {
	for i := range d.Candidates {
		if why := d.Candidates[i].Skipped; why != "" {
			return why
		}
	}
	return d.Reason
}

// answered returns when the first output came of an attempt that gave the
// request its answer, or a part of it; false where there is none.
func answered(d *decision.Decision) (from time.Duration, ok bool) {
	if len(d.Attempts) == 0 {
		return 0, false
	}
	a := &d.Attempts[len(d.Attempts)-1]
	switch o := &a.Outcome; {
	case o.Class != decision.OK && !o.Relayed:
		return 0, false
	case o.HasFirstOutput:
		return a.Started + o.FirstOutput, true
	}
	return d.FirstOutput, d.HasFirstOutput
}

func (t *tree) parser(from time.Duration) *tracepb.Span {
	a := &t.d.Attempts[len(t.d.Attempts)-1]
	s := t.span(parser, decision.SpanID{}, from, a.Started+a.Outcome.Duration)
	s.Attributes = []*commonpb.KeyValue{text(attrProvider, a.Provider), text(attrModel, a.Model)}
	if class := a.Outcome.Class; class != decision.OK {
		s.Attributes = append(s.Attributes, text(attrClass, string(class)))
		if class != decision.ClientGone {
			s.Status = failed(string(class))
		}
	}
	return s
}

// allowed: policy allowed another candidate than the primary.
func allowed(d *decision.Decision) bool {
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if !c.Primary && c.Skipped != decision.NotAllowed {
			return true
		}
	}
	return false
}

func failed(why string) *tracepb.Status {
	return &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: why}
}

// text is an attribute. What clients chose may be no UTF-8, which a collector
// would refuse together with all that comes with it.
func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: strings.ToValidUTF8(value, "\ufffd")}}}
}

func truth(key string, value bool) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: value}}}
}

func number(key string, value int) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(value)}}}
}

func fraction(key string, value float64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: value}}}
}
