package decision

import "encoding/hex"

// SpanID names one span of a trace; its zero value is none.
type SpanID [8]byte

// IsZero reports whether s names nothing.
func (s SpanID) IsZero() bool { return s == SpanID{} }

// String returns s in lower-case hexadecimal, "" of none.
func (s SpanID) String() string {
	if s.IsZero() {
		return ""
	}
	return hex.EncodeToString(s[:])
}
