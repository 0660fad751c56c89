package logs

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// maxValue is how long a value may be to be indexed, in bytes.
const maxValue = 128

// maxDepth is how deep objects and lists may lie in one another. What lies
// deeper is stored, but its fields are not indexed.
const maxDepth = 64

// noTime says that a line does not tell its time.
const noTime = math.MinInt64

// value is what the index may say of a field of a line: its text, "" where the
// line does not have it, or nothing at all.
type value struct {
	text  []byte
	known bool
}

// scanner reads from lines what the index needs. It says of a field only what
// every JSON parser agrees on: of a line that is not entirely JSON, a key that
// occurs twice, or an object that flattens to a name of the same letters, it
// says nothing.
type scanner struct {
	fields  map[string]int
	letters []string // of the fields: their names without signs
	vals    []value  // of the last line, by field
	found   []bool
	whole   bool // the last line was one JSON object
}

func newScanner(fields []string) *scanner {
	sc := &scanner{fields: make(map[string]int, len(fields)), vals: make([]value, len(fields)), found: make([]bool, len(fields))}
	for i, f := range fields {
		sc.fields[f] = i
		sc.letters = append(sc.letters, lettersOf(f))
	}
	return sc
}

// line reads a line: its values into sc.vals, where they stay until the next
// call and point into line, and its time in ns since 1970, or noTime.
func (sc *scanner) line(line []byte) int64 {
	for i := range sc.vals {
		sc.vals[i], sc.found[i] = value{known: true}, false
	}
	ts, ok := sc.object(line)
	sc.whole = ok
	if !ok {
		for i := range sc.vals {
			sc.vals[i] = value{}
		}
	}
	return ts
}

// object reads line as one object. It returns its time also if it breaks off
// somewhere after it.
func (sc *scanner) object(line []byte) (ts int64, ok bool) {
	ts = noTime
	i := space(line, 0)
	if i == len(line) || line[i] != '{' {
		return ts, false
	}
	i = space(line, i+1)
	if i < len(line) && line[i] == '}' {
		return ts, space(line, i+1) == len(line)
	}
	timed := false
	for {
		if i == len(line) || line[i] != '"' {
			return ts, false
		}
		keyEnd, keyPlain, ok := str(line, i)
		if !ok {
			return ts, false
		}
		key := line[i+1 : keyEnd-1]
		i = space(line, keyEnd)
		if i == len(line) || line[i] != ':' {
			return ts, false
		}
		i = space(line, i+1)
		end, plain, ok := skip(line, i, 0)
		if !ok {
			return ts, false
		}
		raw := line[i:end]
		if !timed && string(key) == "time" && plain && raw[0] == '"' {
			ts, timed = parseTime(raw[1:len(raw)-1]), true
		}
		sc.field(key, keyPlain, raw, plain)
		i = space(line, end)
		if i == len(line) {
			return ts, false
		}
		switch line[i] {
		case ',':
			i = space(line, i+1)
		case '}':
			return ts, space(line, i+1) == len(line)
		default:
			return ts, false
		}
	}
}

// field notes one pair of the object. plain: the string is its own text.
func (sc *scanner) field(key []byte, keyPlain bool, raw []byte, plain bool) {
	nested := raw[0] == '{'
	if !keyPlain || nested || !isName(key) {
		sc.doubt(key, keyPlain, nested)
		return
	}
	f, ok := sc.fields[string(key)]
	if !ok {
		return
	}
	v := value{}
	switch raw[0] {
	case '"':
		v = value{raw[1 : len(raw)-1], plain && len(raw)-2 <= maxValue}
	case 't', 'f':
		v = value{raw, true}
	}
	if sc.found[f] {
		v = value{}
	}
	sc.vals[f], sc.found[f] = v, true
}

// doubt gives up every field that the key could become when it is made a
// label's name or, if it holds an object, the beginning of one.
func (sc *scanner) doubt(key []byte, plain, nested bool) {
	letters := lettersOf(string(key))
	for f, l := range sc.letters {
		if !plain || l == letters || nested && strings.HasPrefix(l, letters) {
			sc.vals[f], sc.found[f] = value{}, true
		}
	}
}

// isName reports whether a key is a label's name as it is.
func isName(key []byte) bool {
	for i, c := range key {
		if !(c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' && i > 0) {
			return false
		}
	}
	return len(key) > 0
}

func lettersOf(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, s)
}

// parseTime reads RFC 3339, or returns noTime.
func parseTime(b []byte) int64 {
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil || t.Year() < 1679 || t.Year() > 2261 {
		return noTime
	}
	return t.UnixNano()
}

// space returns the place of the first byte from i on that is not white.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// plainByte are the bytes that a string holds as they are, ASCII alone.
var plainByte = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// str returns the end of the string that begins with the quote at i, and
// whether its text is what stands between its quotes.
func str(b []byte, i int) (end int, plain, ok bool) {
	plain, ascii, start := true, true, i
	for i++; i < len(b); i++ {
		c := b[i]
		if plainByte[c] {
			continue
		}
		switch {
		case c == '"':
			return i + 1, plain && (ascii || utf8.Valid(b[start:i])), true
		case c == '\\':
			plain = false
			if i++; i == len(b) {
				return 0, false, false
			}
			if b[i] == 'u' {
				if i+4 >= len(b) || !isHex(b[i+1:i+5]) {
					return 0, false, false
				}
				i += 4
			} else if strings.IndexByte(`"\/bfnrt`, b[i]) < 0 {
				return 0, false, false
			}
		case c < 0x20:
			return 0, false, false
		default:
			ascii = false
		}
	}
	return 0, false, false
}

func isHex(b []byte) bool {
	for _, c := range b {
		if !(c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f') {
			return false
		}
	}
	return true
}

// skip returns the end of the value that begins at i; plain is str's.
func skip(b []byte, i, depth int) (end int, plain, ok bool) {
	if i == len(b) || depth > maxDepth {
		return 0, false, false
	}
	switch c := b[i]; {
	case c == '"':
		return str(b, i)
	case c == '{' || c == '[':
		end, ok = skipGroup(b, i, depth)
	case c == 't':
		end, ok = word(b, i, "true")
	case c == 'f':
		end, ok = word(b, i, "false")
	case c == 'n':
		end, ok = word(b, i, "null")
	default:
		end, ok = number(b, i)
	}
	return end, true, ok
}

func skipGroup(b []byte, i, depth int) (end int, ok bool) {
	object, closer := b[i] == '{', b[i]+2 // ASCII has them two apart
	if i = space(b, i+1); i < len(b) && b[i] == closer {
		return i + 1, true
	}
	for {
		if object {
			if i == len(b) || b[i] != '"' {
				return 0, false
			}
			if i, _, ok = str(b, i); !ok {
				return 0, false
			}
			if i = space(b, i); i == len(b) || b[i] != ':' {
				return 0, false
			}
			i = space(b, i+1)
		}
		if i, _, ok = skip(b, i, depth+1); !ok {
			return 0, false
		}
		if i = space(b, i); i == len(b) {
			return 0, false
		}
		switch b[i] {
		case ',':
			i = space(b, i+1)
		case closer:
			return i + 1, true
		default:
			return 0, false
		}
	}
}

func word(b []byte, i int, w string) (end int, ok bool) {
	end = i + len(w)
	return end, end <= len(b) && string(b[i:end]) == w
}

func number(b []byte, i int) (end int, ok bool) {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i, ok = digits(b, i); !ok {
		return 0, false
	}
	if i < len(b) && b[i] == '.' {
		if i, ok = digits(b, i+1); !ok {
			return 0, false
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i, ok = digits(b, i); !ok {
			return 0, false
		}
	}
	return i, true
}

// digits passes over one digit or more.
func digits(b []byte, i int) (end int, ok bool) {
	from := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i, i > from
}
