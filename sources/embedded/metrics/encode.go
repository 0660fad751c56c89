package metrics

import (
	"encoding/json"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// encoder writes Prometheus's JSON. The first error ends it; flush tells.
type encoder struct {
	w   io.Writer
	b   []byte
	err error
}

// part is how many bytes are written at once.
const part = 32 << 10

func (e *encoder) flush() error {
	if e.err == nil && len(e.b) > 0 {
		_, e.err = e.w.Write(e.b)
	}
	e.b = e.b[:0]
	return e.err
}

// full flushes what has become enough for a write.
func (e *encoder) full() {
	if len(e.b) >= part {
		_ = e.flush() // kept in err
	}
}

func (e *encoder) raw(s string)    { e.b = append(e.b, s...) }
func (e *encoder) string(s string) { e.b = appendString(e.b, s); e.full() }

// json writes v as encoding/json does.
func (e *encoder) json(v any) {
	b, err := json.Marshal(v)
	if err != nil && e.err == nil {
		e.err = err
	}
	e.b = append(e.b, b...)
	e.full()
}

// list writes a member with a list, unless it is empty.
func (e *encoder) list(member string, list []string) {
	if len(list) == 0 {
		return
	}
	e.raw(member)
	e.strings(list)
}

func (e *encoder) strings(list []string) {
	e.raw("[")
	for i, s := range list {
		if i > 0 {
			e.raw(",")
		}
		e.string(s)
	}
	e.raw("]")
}

// result writes the data of a query. used is nil or its statistics.
func (e *encoder) result(v parser.Value, used json.RawMessage) {
	e.raw(`{"resultType":`)
	e.string(string(v.Type()))
	e.raw(`,"result":`)
	switch v := v.(type) {
	case promql.Vector:
		e.vector(v)
	case promql.Matrix:
		e.matrix(v)
	case promql.Scalar:
		e.point(v.T, v.V)
	case promql.String:
		e.raw("[")
		e.b = appendTime(e.b, v.T)
		e.raw(",")
		e.string(v.V)
		e.raw("]")
	default:
		e.json(v)
	}
	if used != nil {
		e.raw(`,"stats":`)
		e.raw(string(used))
	}
	e.raw(`}`)
}

func (e *encoder) vector(v promql.Vector) {
	e.raw("[")
	for i, s := range v {
		if i > 0 {
			e.raw(",")
		}
		if s.H != nil { // none is stored here, but the engine knows how
			e.json(s)
			continue
		}
		e.raw(`{"metric":`)
		e.labels(s.Metric)
		e.raw(`,"value":`)
		e.point(s.T, s.F)
		e.raw("}")
		e.full()
	}
	e.raw("]")
}

func (e *encoder) matrix(m promql.Matrix) {
	e.raw("[")
	for i, s := range m {
		if i > 0 {
			e.raw(",")
		}
		if len(s.Histograms) > 0 {
			e.json(s)
			continue
		}
		e.raw(`{"metric":`)
		e.labels(s.Metric)
		if len(s.Floats) > 0 {
			e.raw(`,"values":[`)
			for j, p := range s.Floats {
				if j > 0 {
					e.raw(",")
				}
				e.point(p.T, p.F)
				e.full()
			}
			e.raw("]")
		}
		e.raw("}")
	}
	e.raw("]")
}

// point writes a time and a value; values are strings, since NaN and Inf are
// no numbers in JSON.
func (e *encoder) point(t int64, v float64) {
	e.b = append(e.b, '[')
	e.b = appendTime(e.b, t)
	e.b = append(e.b, ',', '"')
	form := byte('f')
	if abs := max(v, -v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		form = 'e'
	}
	e.b = strconv.AppendFloat(e.b, v, form, -1, 64)
	e.b = append(e.b, '"', ']')
}

func (e *encoder) labels(l labels.Labels) {
	e.raw("{")
	first := true
	l.Range(func(l labels.Label) {
		if !first {
			e.raw(",")
		}
		first = false
		e.string(l.Name)
		e.raw(":")
		e.string(l.Value)
	})
	e.raw("}")
}

func (e *encoder) labelSets(sets []labels.Labels) {
	e.raw("[")
	for i, l := range sets {
		if i > 0 {
			e.raw(",")
		}
		e.labels(l)
	}
	e.raw("]")
}

func (e *encoder) metadata(list []metadata) {
	e.raw("{")
	for i, m := range list {
		if i > 0 {
			e.raw(",")
		}
		e.string(m.name)
		e.raw(`:[{"type":`)
		e.string(m.kind)
		e.raw(`,"unit":`)
		e.string(m.unit)
		e.raw(`,"help":`)
		e.string(m.help)
		e.raw(`}]`)
	}
	e.raw("}")
}

// appendTime appends milliseconds as seconds.
func appendTime(b []byte, ms int64) []byte {
	if ms < 0 {
		b = append(b, '-')
		ms = -ms
	}
	b = strconv.AppendInt(b, ms/1000, 10)
	if f := ms % 1000; f != 0 {
		b = append(b, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
	}
	return b
}

// appendString appends s as JSON.
func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(s) // a string always can be
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
