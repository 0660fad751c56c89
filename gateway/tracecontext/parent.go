package tracecontext

import (
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"

	"failback/gateway/decision"
)

// Flags of a trace. Others have no meaning in version 00 and are not passed on.
const (
	Sampled byte = 1 << 0 // its caller may have recorded it
	Random  byte = 1 << 1 // its last 7 bytes are random
)

// Parent is what a request says of the trace that it is part of; its zero value
// is no trace.
type Parent struct {
	TraceID string // 32 lower-case hexadecimal digits
	Span    decision.SpanID
	Flags   byte
	// State is the tracestate, which belongs to the tracing systems it passed.
	State string
}

// Sampled reports whether the caller says that it records the trace.
func (p *Parent) Sampled() bool { return p.Flags&Sampled != 0 }

const (
	header       = "Traceparent"
	stateHeader  = "Tracestate"
	parentLength = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	idAt         = len("00-")
	idEnd        = idAt + 32
	spanAt       = idEnd + 1
	spanEnd      = spanAt + 16
	flagsAt      = spanEnd + 1
)

// Of returns the trace of a request with header h. Without exactly one valid
// traceparent there is none, and its tracestate is not looked at.
func Of(h http.Header) (Parent, bool) {
	values := h[header]
	if len(values) != 1 {
		return Parent{}, false
	}
	p, ok := parse(strings.Trim(values[0], " \t"))
	if !ok {
		return Parent{}, false
	}
	if list := h[stateHeader]; len(list) > 0 {
		p.State = state(list)
	}
	return p, true
}

// parse reads a traceparent: of version 00 exactly, of a later one the four
// fields that every version begins with.
func parse(s string) (p Parent, ok bool) {
	if len(s) < parentLength || s[idAt-1] != '-' || s[idEnd] != '-' || s[spanEnd] != '-' {
		return p, false
	}
	if !isHex(s[:2]) || s[:2] == "ff" || !isHex(s[idAt:idEnd]) || !isHex(s[spanAt:spanEnd]) || !isHex(s[flagsAt:parentLength]) {
		return p, false
	}
	if len(s) > parentLength && (s[:2] == "00" || s[parentLength] != '-') {
		return p, false
	}
	if strings.Trim(s[idAt:idEnd], "0") == "" {
		return p, false
	}
	p.TraceID = s[idAt:idEnd]
	_, _ = hex.Decode(p.Span[:], []byte(s[spanAt:spanEnd])) // checked above
	p.Flags = (nibble(s[flagsAt])<<4 | nibble(s[flagsAt+1])) & (Sampled | Random)
	return p, !p.Span.IsZero()
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func nibble(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}

// Format returns the traceparent, of version 00, that names span of a trace.
func Format(traceID string, span decision.SpanID, flags byte) string {
	const digits = "0123456789abcdef"
	var b [parentLength]byte
	copy(b[:], "00-")
	copy(b[idAt:idEnd], traceID)
	b[idEnd], b[spanEnd] = '-', '-'
	hex.Encode(b[spanAt:spanEnd], span[:])
	b[flagsAt], b[flagsAt+1] = digits[flags>>4], digits[flags&15]
	return string(b[:])
}

// NewTraceID returns an id for a trace that begins here. All of it is random.
func NewTraceID() string {
	var id [16]byte
	for {
		a, b := rand.Uint64(), rand.Uint64()
		for i := range 8 {
			id[i], id[8+i] = byte(a>>(8*i)), byte(b>>(8*i))
		}
		if a|b != 0 {
			return hex.EncodeToString(id[:])
		}
	}
}

// NewSpanID returns an id for a new span.
func NewSpanID() (s decision.SpanID) {
	for s.IsZero() {
		n := rand.Uint64()
		for i := range s {
			s[i] = byte(n >> (8 * i))
		}
	}
	return s
}

// Chosen reports whether a trace that begins here is among the part (0 to 1) of
// all that is recorded. It depends on the id alone, so that everybody who uses
// the same part agrees.
func Chosen(traceID string, part float64) bool {
	switch {
	case part >= 1:
		return true
	case !(part > 0):
		return false
	}
	var low [8]byte
	if n, err := hex.Decode(low[:], []byte(traceID[max(len(traceID)-16, 0):])); err != nil || n != len(low) {
		return false
	}
	var n uint64
	for _, b := range low {
		n = n<<8 | uint64(b)
	}
	// As OpenTelemetry's TraceIDRatioBased.
	return n>>1 < uint64(part*(1<<63))
}
