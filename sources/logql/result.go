package logql

import (
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// Kind is what a Result holds.
type Kind string

// The kinds of results, by their names in Loki's HTTP API.
const (
	KindStreams Kind = "streams" // of a log query
	KindVector  Kind = "vector"  // of an instant metric query
	KindMatrix  Kind = "matrix"  // of a metric query over a range
	KindScalar  Kind = "scalar"  // of an instant query that is a number
)

// Result is an answer. Its JSON form is what Loki's HTTP API has under "data".
type Result struct {
	Kind    Kind
	Streams []Stream // sorted by labels
	Series  []Series // sorted by labels; of a vector or scalar with one point each
	Stats   Stats

	most int64 // bytes of the JSON form; 0: no bound
}

// Stream is lines with the same labels, in the order asked for.
type Stream struct {
	Labels Labels
	Lines  []Line
}

// Line is one line of an answer.
type Line struct {
	TS   int64 // Unix nanoseconds
	Text string
}

// Series is numbers with the same labels, in order of time.
type Series struct {
	Labels Labels
	Points []Point
}

// Point is one number.
type Point struct {
	TS int64   // Unix nanoseconds; the JSON form has milliseconds
	V  float64 // may be NaN or infinite
}

// Stats says what an answer took.
type Stats struct {
	Lines int64 // read from the source, before any filter of the query
	Bytes int64
	Found int64 // lines in the answer
}

// MarshalJSON writes the answer as Loki's HTTP API has it under "data". The
// error is a *QueryError if it becomes larger than Request.MaxBytes.
func (r *Result) MarshalJSON() ([]byte, error) {
	over := func(b []byte) bool { return r.most > 0 && int64(len(b)) > r.most }
	b := append([]byte(`{"resultType":`), strconv.Quote(string(r.Kind))...)
	b = append(b, `,"result":`...)
	switch r.Kind {
	case KindStreams:
		b = append(b, '[')
		for i, s := range r.Streams {
			b = comma(b, i)
			b = appendLabels(append(b, `{"stream":`...), s.Labels)
			b = append(b, `,"values":[`...)
			for j, l := range s.Lines {
				b = append(comma(b, j), `["`...)
				b = strconv.AppendInt(b, l.TS, 10)
				b = append(appendString(append(b, `",`...), l.Text), ']')
				if over(b) {
					return nil, tooLarge(r.most)
				}
			}
			b = append(b, "]}"...)
		}
		b = append(b, ']')
	case KindScalar:
		if len(r.Series) == 1 && len(r.Series[0].Points) == 1 {
			b = appendPoint(b, r.Series[0].Points[0])
		} else {
			b = append(b, "null"...)
		}
	default:
		b = append(b, '[')
		for i, s := range r.Series {
			b = comma(b, i)
			b = appendLabels(append(b, `{"metric":`...), s.Labels)
			if r.Kind == KindVector {
				b = append(b, `,"value":`...)
				for _, p := range s.Points[:1] {
					b = appendPoint(b, p)
				}
				b = append(b, '}')
				continue
			}
			b = append(b, `,"values":[`...)
			for j, p := range s.Points {
				b = appendPoint(comma(b, j), p)
			}
			b = append(b, "]}"...)
			if over(b) {
				return nil, tooLarge(r.most)
			}
		}
		b = append(b, ']')
	}
	b = append(b, `,"stats":{"summary":{"totalBytesProcessed":`...)
	b = strconv.AppendInt(b, r.Stats.Bytes, 10)
	b = append(b, `,"totalLinesProcessed":`...)
	b = strconv.AppendInt(b, r.Stats.Lines, 10)
	b = append(b, `,"totalEntriesReturned":`...)
	b = strconv.AppendInt(b, r.Stats.Found, 10)
	return append(b, "}}}"...), nil
}

var _ json.Marshaler = (*Result)(nil)

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

func appendLabels(b []byte, l Labels) []byte {
	b = append(b, '{')
	for i, lb := range l {
		b = appendString(comma(b, i), lb.Name)
		b = appendString(append(b, ':'), lb.Value)
	}
	return append(b, '}')
}

// appendPoint writes [seconds,"value"].
func appendPoint(b []byte, p Point) []byte {
	ms := p.TS / 1e6
	b = append(b, '[')
	b = strconv.AppendFloat(b, float64(ms)/1000, 'f', -1, 64)
	b = append(b, `,"`...)
	b = append(b, formatValue(p.V)...)
	return append(b, `"]`...)
}

// formatValue writes a number as Prometheus does.
func formatValue(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// appendString writes a JSON string; what is not UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), "\ufffd"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}
