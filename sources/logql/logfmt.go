package logql

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// logfmtStage is `logfmt`: key=value pairs become labels. Empty values are left
// out unless keepEmpty; what cannot be read is passed over unless strict, which
// makes it an error.
type logfmtStage struct{ strict, keepEmpty bool }

func (s *logfmtStage) String() string {
	out := "| logfmt"
	if s.strict {
		out += " --strict"
	}
	if s.keepEmpty {
		out += " --keep-empty"
	}
	return out
}

func (s *logfmtStage) requires() []string { return nil }

func (s *logfmtStage) bind(p *pipeline) runner { return &logfmtRunner{p: p, stage: s} }

type logfmtRunner struct {
	p     *pipeline
	stage *logfmtStage
	name  []byte
}

func (r *logfmtRunner) run(_ int64, line []byte) ([]byte, bool) {
	p := r.p
	if p.hints.none {
		return line, true
	}
	sc := logfmtScanner{data: line}
	for sc.next() {
		if sc.err != "" {
			if r.stage.strict {
				p.failParse(errLogfmt, sc.err)
				return line, true
			}
			continue
		}
		v := sc.val
		if sc.quoted && bytes.IndexByte(v, '\\') >= 0 {
			at := len(p.arena)
			out, ok := unescape(p.arena, v)
			if !ok {
				if r.stage.strict {
					p.failParse(errLogfmt, fmt.Sprintf("logfmt syntax error at pos %d : invalid quoted value", sc.off))
					return line, true
				}
				continue
			}
			p.arena = out
			v = out[at:len(out):len(out)]
		}
		if len(v) == 0 && !r.stage.keepEmpty {
			continue
		}
		r.name = appendName(r.name[:0], sc.key)
		if len(r.name) == 0 {
			continue
		}
		sym := p.field(p.symbolBytes(r.name))
		if !sym.wanted {
			continue
		}
		more, drop := p.extract(sym, cleanText(v))
		if drop {
			return nil, false
		}
		if !more {
			return line, true
		}
	}
	return line, true
}

// logfmtScanner reads pairs. A pair that cannot be read has err set and ends
// before the next space.
type logfmtScanner struct {
	data   []byte
	off    int
	key    []byte
	val    []byte // of a quoted value: between the quotes, not unescaped
	quoted bool
	err    string
}

func (s *logfmtScanner) fail(at int, why string) bool {
	s.err = fmt.Sprintf("logfmt syntax error at pos %d : %s", at+1, why)
	for s.off = max(at, s.off); s.off < len(s.data) && s.data[s.off] > ' '; s.off++ {
	}
	return true
}

// next goes to the next pair, false at the end.
func (s *logfmtScanner) next() bool {
	data := s.data
	s.key, s.val, s.quoted, s.err = nil, nil, false, ""
	for s.off < len(data) && data[s.off] <= ' ' {
		s.off++
	}
	if s.off == len(data) {
		return false
	}
	start := s.off
	i := start
	for ; i < len(data) && data[i] > ' ' && data[i] != '='; i++ {
		if data[i] == '"' {
			return s.fail(i, `unexpected '"'`)
		}
	}
	if i == start {
		s.off = i + 1
		return s.fail(i, "unexpected '='")
	}
	s.key = data[start:i]
	if !utf8.Valid(s.key) {
		return s.fail(i, "invalid key")
	}
	s.off = i
	if i == len(data) || data[i] != '=' {
		return true
	}
	i++
	if i < len(data) && data[i] == '"' {
		end, _ := stringEnd(data, i+1, false)
		if end < 0 {
			s.off = len(data)
			return s.fail(len(data), "unterminated quoted value")
		}
		s.val, s.quoted = data[i+1:end], true
		s.off = end + 1
		return true
	}
	start = i
	for ; i < len(data) && data[i] > ' '; i++ {
		if data[i] == '=' || data[i] == '"' {
			return s.fail(i, "unexpected "+strconv.QuoteRune(rune(data[i])))
		}
	}
	s.val, s.off = data[start:i], i
	return true
}
