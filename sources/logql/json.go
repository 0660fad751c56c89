package logql

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// jsonStage is `json`: all fields become labels, nested ones joined by _ and
// arrays skipped; with expressions, only those.
type jsonStage struct {
	paths []jsonPath
}

// jsonPath is one `label="expression"` of a json stage.
type jsonPath struct {
	label string
	text  string
	steps []jsonStep
}

// jsonStep is a field name or an index.
type jsonStep struct {
	name  string
	index int // -1: a name
}

func (s *jsonStage) String() string {
	if len(s.paths) == 0 {
		return "| json"
	}
	parts := make([]string, len(s.paths))
	for i, p := range s.paths {
		parts[i] = p.label + "=" + strconv.Quote(p.text)
	}
	return "| json " + strings.Join(parts, ", ")
}

func (s *jsonStage) requires() []string { return nil }

func (s *jsonStage) bind(p *pipeline) runner {
	if len(s.paths) > 0 {
		r := &jsonPathRunner{p: p, stage: s, places: make([]int, len(s.paths))}
		for _, path := range s.paths {
			r.symbols = append(r.symbols, p.symbol(path.label))
		}
		return r
	}
	return &jsonRunner{p: p, keys: map[string]*jsonKey{}}
}

// jsonKey is a top-level key as it stands in lines, and its label.
type jsonKey struct {
	raw    string
	prefix []byte  // of the labels of an object of that name
	sym    *symbol // nil: without a name
	skip   bool    // neither the field nor one below it is wanted
}

type jsonRunner struct {
	p     *pipeline
	keys  map[string]*jsonKey
	shape []*jsonKey // keys of the line before, by position: lines are alike
	name  []byte
	depth int
}

// key finds the key at a position.
func (r *jsonRunner) key(pos int, sc *jsonScanner) *jsonKey {
	if pos < len(r.shape) && r.shape[pos].raw == string(sc.key) {
		return r.shape[pos]
	}
	k := r.keys[string(sc.key)]
	if k == nil {
		if len(r.keys) > maxSymbols {
			clear(r.keys)
		}
		k = &jsonKey{raw: string(sc.key)}
		key := sc.key
		if sc.keyEsc {
			key, _ = unescape(nil, key)
		}
		name := appendName(nil, key)
		k.prefix = name
		k.skip = !r.p.wantsPrefix(k.prefix)
		if len(name) > 0 {
			k.sym = r.p.symbolBytes(name)
			if k.sym.wanted || slices.Contains(r.p.hints.required, k.sym.name+extractedAfter) {
				k.skip = false
			}
		}
		r.keys[k.raw] = k
	}
	if pos < len(r.shape) {
		r.shape[pos] = k
	} else if pos == len(r.shape) && pos < 128 {
		r.shape = append(r.shape, k)
	}
	return k
}

func (r *jsonRunner) run(_ int64, line []byte) ([]byte, bool) {
	p := r.p
	if p.hints.none {
		return line, true
	}
	var sc jsonScanner
	if !sc.open(line) {
		p.failParse(errJSON, sc.err)
		return line, true
	}
	for pos := 0; sc.next(); pos++ {
		if k := r.key(pos, &sc); !k.skip {
			more, drop, err := r.field(k.sym, k.prefix, &sc)
			if drop {
				return nil, false
			}
			if err != "" {
				p.failParse(errJSON, err)
				return line, true
			}
			if !more {
				return line, true
			}
		}
		if !sc.after() {
			break
		}
	}
	if sc.err != "" {
		p.failParse(errJSON, sc.err)
	}
	return line, true
}

// field takes the field the scanner stands at.
func (r *jsonRunner) field(sym *symbol, prefix []byte, sc *jsonScanner) (more, drop bool, err string) {
	p := r.p
	switch sc.typ {
	case jsonArray, jsonNull:
		return true, false, ""
	case jsonObject:
		if !p.wantsPrefix(prefix) {
			return true, false, ""
		}
		return r.object(prefix, sc.val)
	}
	if sym == nil {
		return true, false, ""
	}
	if sym = p.field(sym); !sym.wanted {
		return true, false, ""
	}
	more, drop = p.extract(sym, p.jsonText(sc.typ, sc.val))
	return more, drop, ""
}

// object takes the fields of a nested object.
func (r *jsonRunner) object(prefix, data []byte) (more, drop bool, err string) {
	if r.depth == maxDepth {
		return true, false, ""
	}
	r.depth++
	defer func() { r.depth-- }()
	var sc jsonScanner
	if !sc.open(data) {
		return true, false, sc.err
	}
	for sc.next() {
		key := sc.key
		if sc.keyEsc {
			key, _ = unescape(nil, key)
		}
		r.name = appendName(append(r.name[:0], prefix...), key)
		if sc.typ == jsonObject {
			more, drop, err = r.field(nil, bytes.Clone(r.name), &sc)
		} else if len(r.name) == 0 {
			more = true
		} else {
			more, drop, err = r.field(r.p.symbolBytes(r.name), nil, &sc)
		}
		if !more || drop || err != "" {
			return more, drop, err
		}
		if !sc.after() {
			break
		}
	}
	return true, false, sc.err
}

// jsonText returns a scalar as a label has it.
func (p *pipeline) jsonText(typ jsonType, v []byte) []byte {
	switch typ {
	case jsonNull:
		return nil
	case jsonString:
		return p.jsonUnescape(v)
	}
	return v
}

// jsonUnescape returns a string's text, nothing if an escape in it is broken.
func (p *pipeline) jsonUnescape(v []byte) []byte {
	if bytes.IndexByte(v, '\\') >= 0 {
		at := len(p.arena)
		out, ok := unescape(p.arena, v)
		if !ok {
			return nil
		}
		p.arena = out
		v = out[at:len(out):len(out)]
	}
	return cleanText(v)
}

type jsonPathRunner struct {
	p       *pipeline
	stage   *jsonStage
	symbols []*symbol
	places  []int // of the values in the line; -1: there is none
}

func (r *jsonPathRunner) run(_ int64, line []byte) ([]byte, bool) {
	p := r.p
	if len(line) == 0 || p.hints.none {
		return line, true
	}
	switch line[0] {
	case '{', '[', '"':
	default:
		p.failParse(errJSON, "")
		return line, true
	}
	for i := range r.stage.paths {
		sym := p.field(r.symbols[i])
		typ, v, ok := findJSON(line, r.stage.paths[i].steps)
		if !ok {
			r.places[i] = -1
			continue
		}
		r.places[i] = cap(line) - cap(v)
		if r.behind(i) {
			continue
		}
		switch typ {
		case jsonNull:
			p.set(sym, nil)
		case jsonObject:
			p.set(sym, v)
		default:
			p.set(sym, p.jsonUnescape(v))
		}
	}
	for i, place := range r.places {
		if _, have := p.get(r.symbols[i]); place < 0 && !have {
			p.set(p.field(r.symbols[i]), nil)
		}
	}
	return line, true
}

// behind says whether an earlier expression for the same label has a value that
// stands further on in the line: of several the last in the line counts.
func (r *jsonPathRunner) behind(i int) bool {
	for j := range i {
		if r.symbols[j] == r.symbols[i] && r.places[j] > r.places[i] {
			return true
		}
	}
	return false
}

// findJSON returns the value at a path: of a name that occurs several times the
// first under which the rest of the path leads somewhere.
func findJSON(data []byte, steps []jsonStep) (typ jsonType, v []byte, ok bool) {
	if len(steps) == 0 {
		return 0, nil, false
	}
	st, rest := steps[0], steps[1:]
	into := func() bool {
		if len(rest) == 0 {
			return true
		}
		if typ != jsonObject && typ != jsonArray {
			return false
		}
		t, found, ok := findJSON(v, rest)
		if ok {
			typ, v = t, found
		}
		return ok
	}
	if st.index >= 0 {
		typ, v, ok = jsonElement(data, st.index)
		return typ, v, ok && into()
	}
	var sc jsonScanner
	if !sc.open(data) {
		return 0, nil, false
	}
	for sc.next() {
		key := sc.key
		if sc.keyEsc {
			key, _ = unescape(nil, key)
		}
		if string(key) == st.name {
			if typ, v = sc.typ, sc.val; into() {
				return typ, v, true
			}
		}
		if !sc.after() {
			break
		}
	}
	return 0, nil, false
}

// jsonElement returns an element of the array at the start of data.
func jsonElement(data []byte, index int) (jsonType, []byte, bool) {
	off := skipSpace(data, 0)
	if off == len(data) || data[off] != '[' {
		return 0, nil, false
	}
	sc := jsonScanner{data: data}
	for off = skipSpace(data, off+1); off < len(data) && data[off] != ']'; index-- {
		end := sc.value(off)
		if end < 0 {
			return 0, nil, false
		}
		if index == 0 {
			return sc.typ, sc.val, true
		}
		if off = skipSpace(data, end); off == len(data) || data[off] != ',' {
			return 0, nil, false
		}
		off = skipSpace(data, off+1)
	}
	return 0, nil, false
}

// FieldReader says what `json` makes of lines, for a source that wants to keep
// an index for Selection.Where. It is not safe for concurrent use.
type FieldReader struct {
	p       *pipeline
	symbols []*symbol
}

// NewFieldReader makes a reader for the labels of these names.
func NewFieldReader(names []string) *FieldReader {
	f := &FieldReader{p: newPipeline([]stage{&jsonStage{}}, hints{
		required: append(slices.Clone(names), "\x00"), // never all found: the line is read to its end
	}, nil)}
	for _, n := range names {
		f.symbols = append(f.symbols, f.p.symbol(n))
	}
	return f
}

// Values sets into[i] to the value that `json` gives the label of the i-th name,
// "" for one that is absent. It returns false when a label occurs twice in the
// line: which one counts depends on the query, so that the line fails no
// condition for sure. It holds for streams without a label of such a name.
func (f *FieldReader) Values(line []byte, into []string) (certain bool) {
	f.p.twice = false
	f.p.run(0, nil, line)
	for i, s := range f.symbols {
		v, _ := f.p.get(s)
		if string(v) != into[i] {
			into[i] = string(v)
		}
	}
	return !f.p.twice
}
