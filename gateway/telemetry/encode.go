package telemetry

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// appendDecision appends l as one line of JSON, byte for byte what
// encoding/json makes of it without HTML escapes, at half of its cost: the
// log must not be what a request costs most.
func appendDecision(b []byte, l *api.Decision) []byte {
	b = append(b, '{')
	b = appendField(b, `"event":`, l.Event)
	b = append(b, `,"time":`...)
	b = appendTime(b, l.Time)
	b = appendField(b, `,"request_id":`, l.RequestID)
	b = appendField(b, `,"trace_id":`, l.TraceID)
	b = appendField(b, `,"conversation":`, l.Conversation)
	b = appendField(b, `,"turn":`, l.Turn)
	b = appendField(b, `,"operation_id":`, l.OperationID)
	b = appendField(b, `,"state_version":`, l.StateVersion)
	b = appendField(b, `,"task_type":`, l.TaskType)
	b = appendField(b, `,"model":`, l.Model)
	b = appendField(b, `,"endpoint":`, l.Endpoint)
	b = append(b, `,"stream":`...)
	b = strconv.AppendBool(b, l.Stream)
	b = appendField(b, `,"primary_provider":`, l.PrimaryProvider)
	b = appendField(b, `,"selected_provider":`, l.SelectedProvider)
	b = appendField(b, `,"selected_model":`, l.SelectedModel)
	b = appendField(b, `,"response_model":`, l.ResponseModel)
	b = append(b, `,"substitute":`...)
	b = strconv.AppendBool(b, l.Substitute)
	b = appendField(b, `,"route":`, l.Route)
	b = append(b, `,"fallback_triggered":`...)
	b = strconv.AppendBool(b, l.FallbackTriggered)
	b = appendField(b, `,"workflow_status":`, l.WorkflowStatus)
	b = appendField(b, `,"reason":`, l.Reason)
	b = appendField(b, `,"failed_provider":`, l.FailedProvider)
	b = append(b, `,"candidates":[`...)
	for i := range l.Candidates {
		c := &l.Candidates[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = appendField(b, `"provider":`, c.Provider)
		b = appendField(b, `,"model":`, c.Model)
		b = append(b, `,"weight":`...)
		b = appendFloat(b, c.Weight)
		b = append(b, `,"share":`...)
		b = strconv.AppendInt(b, int64(c.Share), 10)
		b = appendField(b, `,"skipped":`, c.Skipped)
		if c.SkippedWhy != "" {
			b = appendField(b, `,"skipped_why":`, c.SkippedWhy)
		}
		b = append(b, '}')
	}
	b = append(b, `],"attempts":[`...)
	for i := range l.Attempts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendAttempt(b, &l.Attempts[i])
	}
	b = append(b, `],"first_output_ms":`...)
	b = appendMaybe(b, l.FirstOutputMS)
	b = append(b, `,"duration_ms":`...)
	b = appendFloat(b, l.DurationMS)
	b = append(b, `,"remaining_deadline_ms":`...)
	b = appendFloat(b, l.RemainingDeadlineMS)
	b = append(b, `,"retry_tokens":`...)
	b = appendFloat(b, l.RetryTokens)
	b = append(b, `,"cost_usd":`...)
	b = appendMaybe(b, l.CostUSD)
	b = append(b, `,"http_status":`...)
	b = strconv.AppendInt(b, int64(l.HTTPStatus), 10)
	if l.ClientRetry != 0 {
		b = append(b, `,"client_retry":`...)
		b = strconv.AppendInt(b, int64(l.ClientRetry), 10)
	}
	if l.Sample != 0 {
		b = append(b, `,"sample":`...)
		b = appendFloat(b, l.Sample)
	}
	b = appendField(b, `,"service_version":`, l.ServiceVersion)
	b = appendField(b, `,"instance":`, l.Instance)
	return append(b, '}', '\n')
}

func appendAttempt(b []byte, a *api.DecisionAttempt) []byte {
	b = append(b, '{')
	b = appendField(b, `"provider":`, a.Provider)
	b = appendField(b, `,"region":`, a.Region)
	b = appendField(b, `,"capability":`, a.Capability)
	b = appendField(b, `,"class":`, a.Class)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(a.Status), 10)
	b = append(b, `,"first_output_ms":`...)
	b = appendMaybe(b, a.FirstOutputMS)
	b = append(b, `,"duration_ms":`...)
	b = appendFloat(b, a.DurationMS)
	b = appendField(b, `,"upstream_request_id":`, a.UpstreamRequestID)
	if a.Code != "" {
		b = appendField(b, `,"code":`, a.Code)
	}
	if a.Detail != "" {
		b = appendField(b, `,"detail":`, a.Detail)
	}
	b = appendSet(b, `,"started_ms":`, a.StartedMS)
	b = appendSet(b, `,"remaining_deadline_ms":`, a.RemainingDeadlineMS)
	b = appendSet(b, `,"retry_tokens":`, a.RetryTokens)
	if a.Share != nil {
		b = append(b, `,"share":`...)
		b = strconv.AppendInt(b, int64(*a.Share), 10)
	}
	b = appendSet(b, `,"weight":`, a.Weight)
	if a.Next != "" {
		b = appendField(b, `,"next":`, a.Next)
	}
	if a.Why != "" {
		b = appendField(b, `,"why":`, a.Why)
	}
	b = appendSet(b, `,"wait_ms":`, a.WaitMS)
	if a.SpanID != "" {
		b = appendField(b, `,"span_id":`, a.SpanID)
	}
	return append(b, '}')
}

// appendSet appends a field that is left out where it is not set.
func appendSet(b []byte, key string, f *float64) []byte {
	if f == nil {
		return b
	}
	return appendFloat(append(b, key...), *f)
}

// eventLine is an event in the log. It has no number there: Seq belongs to the
// operator API of one process.
type eventLine struct {
	api.Event
	Seq            uint64 `json:"seq,omitempty"`
	ServiceVersion string `json:"service_version"`
	Instance       string `json:"instance"`
}

// appendEvent appends e as one line. Events are rare.
func appendEvent(b []byte, e decision.Event, m Meta) []byte {
	buf := bytes.NewBuffer(b)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(eventLine{Event: EventLine(e), ServiceVersion: m.Version, Instance: m.Instance}); err != nil {
		return b // a time outside of years 0 to 9999, which no clock gives
	}
	all := buf.Bytes()
	return append(all[:len(b):len(b)], api.VisibleJSON(all[len(b):])...)
}

func appendField(b []byte, key, value string) []byte {
	return appendString(append(b, key...), value)
}

const hexDigits = "0123456789abcdef"

// itself says of a byte that a string has it as it is.
var itself = func() (t [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	i := 0
	for i < len(s) && itself[s[i]] {
		i++
	}
	if i < len(s) {
		return appendUnusual(b, s, i)
	}
	return append(append(b, s...), '"')
}

// appendUnusual appends a string, and the quote that ends it, of which the
// bytes before i need no look.
func appendUnusual(b []byte, s string, i int) []byte {
	start := 0
	for i < len(s) {
		c := s[i]
		if itself[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			b = append(b, s[start:i]...)
			b = appendEscaped(b, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(append(b, s[start:i]...), `\ufffd`...)
			start = i + size
		case api.Hidden(r):
			b = api.AppendHidden(append(b, s[start:i]...), r)
			start = i + size
		}
		i += size
	}
	return append(append(b, s[start:]...), '"')
}

func appendEscaped(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

func appendMaybe(b []byte, f *float64) []byte {
	if f == nil {
		return append(b, "null"...)
	}
	return appendFloat(b, *f)
}

// appendFloat writes f as encoding/json does; f is finite.
func appendFloat(b []byte, f float64) []byte {
	// Times are whole microseconds in milliseconds. Up to 15 digits, thousandths
	// are told from each other, so that the shortest number that means f is the
	// one it was made from.
	if n := math.Round(f * 1000); n >= 0 && n < 1e15 && n/1000 == f && !math.Signbit(f) {
		return appendThousandths(b, uint64(n))
	}
	abs := math.Abs(f)
	if abs == 0 || abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	// JSON numbers of other programs have e-9, not e-09.
	if n := len(b); n >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' {
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b
}

// appendThousandths writes n/1000 without zeros at the end.
func appendThousandths(b []byte, n uint64) []byte {
	b = strconv.AppendUint(b, n/1000, 10)
	part := n % 1000
	if part == 0 {
		return b
	}
	b = append(b, '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10))
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}
