package logs

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"failback/sources/logql"
)

// need is what lines must contain to be in the answer.
type need struct {
	always []text
	plain  []field // if the line has no escapes
}

// field is a field whose value must be in the line, unless the line's stream
// has a label of that name: then the name is that label.
type field struct {
	name string
	text
}

// text is what is looked for in lines. rare is the part of it from its rarest
// letter on: where that is missing, so is the whole, and it is found faster.
type text struct{ whole, rare []byte }

// common are the bytes of decision lines, the more frequent the earlier.
const common = `"e_,:aroits-dnl0cpmu1fvwh2345687b9{}.gkyx[]`

func newText(whole []byte) text {
	at, best := 0, -1
	for i, c := range whole {
		rank := strings.IndexByte(common, c)
		if rank < 0 {
			rank = len(common)
		}
		if rank > best && len(whole)-i >= min(len(whole), 4) {
			at, best = i, rank
		}
	}
	return text{whole, whole[at:]}
}

func (t text) in(line []byte) bool {
	return bytes.Contains(line, t.rare) && (len(t.rare) == len(t.whole) || bytes.Contains(line, t.whole))
}

// brokenBytes are what a parser may read bytes as that are not UTF-8.
const brokenBytes = string(utf8.RuneError) + " "

// needed returns what the lines that sel chooses contain. A field that must
// equal a text has it in the line, unless it is written with escapes.
func needed(sel logql.Selection, indexed []string) need {
	var n need
	for _, c := range sel.Contains {
		n.always = append(n.always, newText(c))
	}
	for _, c := range sel.Where {
		if c.Op == logql.Equal && len(c.Value) > 3 && !slices.Contains(indexed, c.Name) &&
			utf8.ValidString(c.Value) && !strings.ContainsAny(c.Value, brokenBytes) {
			n.plain = append(n.plain, field{c.Name, newText([]byte(c.Value))})
		}
	}
	return n
}

// allows reports whether line, of a stream with labels, may be in the answer.
func (n need) allows(line []byte, labels logql.Labels) bool {
	for _, t := range n.always {
		if !t.in(line) {
			return false
		}
	}
	for _, f := range n.plain {
		if _, own := labels.Lookup(f.name); !own && !f.in(line) && bytes.IndexByte(line, '\\') < 0 {
			return false
		}
	}
	return true
}
