package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"failback/gateway/decision"
)

// Where a value came from.
const (
	OriginFlag        = "flag"
	OriginEnvironment = "environment"
	OriginFile        = "file"
	OriginDefault     = "default"
)

// meta is what is known of a configuration beyond its values.
type meta struct {
	file    string
	dir     string              // against which the file's relative paths are read
	at      map[string]position // of every key in the file, by path
	origins map[string]string   // of every key that was given
	bad     map[string]bool     // keys whose value was refused
	written map[string]string   // paths as they were written, for display
	files   map[string]string   // digest of every file named in it, by path
	secrets map[string]string   // digest of every credential's value, by path
}

// given reports whether the key was set, by the file, the environment or a flag.
func (m *meta) given(path string) bool { return m.origins[path] != "" }

// decoder fills a Config from nodes, flags and the environment and collects
// what is wrong with them.
type decoder struct {
	*meta
	src      Source
	cfg      *Config
	problems Problems
	meant    map[string]bool // keys for which an unknown one probably stands
}

// add reports a problem of the key at path, where that stands.
func (d *decoder) add(path, message, hint string) {
	d.bad[path] = true
	p := Problem{File: d.file, Key: path, Message: message, Hint: hint}
	switch d.origins[path] {
	case OriginFlag:
		p.File = "flag"
	case OriginEnvironment:
		p.File = "environment variable " + environmentName(path)
	default:
		at := d.position(path)
		p.Line, p.Column = at.line, at.column
	}
	d.problems = append(d.problems, p)
}

// position is where path stands in the file, or else what holds it.
func (d *decoder) position(path string) position {
	for path != "" {
		if at, ok := d.at[path]; ok {
			return at
		}
		path = parent(path)
	}
	return position{1, 1}
}

// parent is the path of what holds path, empty for the top.
func parent(path string) string {
	if strings.HasSuffix(path, "]") {
		open := "["
		if strings.HasSuffix(path, `"]`) {
			open = `["`
		}
		return path[:max(strings.LastIndex(path, open), 0)]
	}
	dot := strings.LastIndexByte(path, '.')
	if bracket := strings.LastIndexByte(path, ']'); bracket > dot {
		return path[:bracket+1]
	}
	return path[:max(dot, 0)]
}

// defaults sets every default of the section, and resolves what it takes from
// the top-level sections.
func (d *decoder) defaults(s *schema, v reflect.Value) {
	for _, f := range s.fields {
		dst := v.Field(f.index)
		switch {
		case f.overlay != "":
			dst.Set(reflect.ValueOf(d.cfg).Elem().FieldByName(dst.Type().Name()))
		case f.hasDef:
			d.setDefault(f, dst)
		case f.kind == kindStruct:
			d.defaults(f.elem, dst)
		}
	}
}

// setDefault reads the default as the file would be read.
func (d *decoder) setDefault(f *field, dst reflect.Value) {
	if f.kind.scalar() {
		x, c := f.fromText(f.def)
		if c != nil {
			panic("config: default of " + f.key + ": " + c.message)
		}
		dst.Set(x)
		return
	}
	n, problems := parse("default", []byte(f.def))
	if len(problems) > 0 {
		panic("config: default of " + f.key + ": " + problems.Error())
	}
	inner := &decoder{meta: newMeta("default", ""), cfg: d.cfg, meant: map[string]bool{}}
	inner.value(f, n, dst, f.key)
	if len(inner.problems) > 0 {
		panic("config: default of " + f.key + ": " + inner.problems.Error())
	}
}

// section decodes a map into a struct. skip names keys to leave for later.
func (d *decoder) section(s *schema, n *node, v reflect.Value, path string, only []string, skip func(*field) bool) {
	seen := map[string]bool{}
	for i, e := range n.entries {
		f, single := s.field(e.key)
		p := child(path, e.key)
		if f == nil {
			d.unknown(s, n, i, path, only)
			continue
		}
		if skip != nil && skip(f) {
			continue
		}
		if seen[e.key] {
			d.duplicate(p, e.at)
			continue
		}
		seen[e.key] = true
		d.at[p], d.origins[p] = e.at, OriginFile
		if only != nil && !slices.Contains(only, e.key) {
			d.add(p, "can only be set for all upstreams", "move it to the top-level section "+path[strings.LastIndexByte(path, '.')+1:])
			continue
		}
		if single {
			d.secret(e.value, v.Field(f.index), p)
			continue
		}
		d.value(f, e.value, v.Field(f.index), p)
	}
}

// duplicate reports a key that stands in the map for a second time.
func (d *decoder) duplicate(path string, at position) {
	d.problems = append(d.problems, Problem{
		File: d.file, Line: at.line, Column: at.column, Key: path,
		Message: "the key is here for the second time",
		Hint:    fmt.Sprintf("the first is in line %d; keep one", d.at[path].line),
	})
}

// unknown reports the i-th entry of n, which is no key of s.
func (d *decoder) unknown(s *schema, n *node, i int, path string, only []string) {
	e := n.entries[i]
	p := Problem{File: d.file, Line: e.at.line, Column: e.at.column}
	if e.lone {
		p.Key = path
		p.Message = "a word without a value"
		p.Hint = "write KEY: VALUE"
		if i > 0 {
			key := n.entries[i-1].key
			if f, _ := s.field(key); f != nil {
				p.Key = child(path, key)
				p.Message = "the value ends at the comma, and a word without a value follows"
				p.Hint = fmt.Sprintf(`if the comma belongs to the value, put it into quotes: %s: "…"`, key)
			}
		}
		d.problems = append(d.problems, p)
		return
	}
	keys := s.keys()
	if only != nil {
		keys = only
	}
	name := child(path, e.key)
	if utf8.RuneCountInString(e.key) > maxShown {
		name = path + "[" + visible(e.key) + "]"
	}
	near, close := nearest(e.key, keys)
	switch {
	case mayBeSecret(e.key):
		p.Key, p.Message = path, "a key that could be a credential"
		p.Hint = "valid keys here: " + strings.Join(keys, ", ")
	case close:
		p.Key, p.Message, p.Hint = name, "unknown key", "did you mean "+near+"?"
		d.meant[child(path, near)] = true
	default:
		p.Key, p.Message = name, "unknown key"
		in := homes(e.key)
		switch {
		case len(in) > 0 && in[0] == "":
			p.Hint = fmt.Sprintf("%s belongs to the top level; the nearest valid key here is %s", e.key, near)
		case len(in) > 0:
			p.Hint = fmt.Sprintf("%s belongs under %s; the nearest valid key here is %s", e.key, strings.Join(in, " or "), near)
		case len(keys) <= 12:
			p.Hint = fmt.Sprintf("the nearest is %s; valid keys here: %s", near, strings.Join(keys, ", "))
		default:
			p.Hint = "the nearest valid key is " + near
		}
	}
	d.problems = append(d.problems, p)
}

// value decodes any key's value.
func (d *decoder) value(f *field, n *node, dst reflect.Value, path string) {
	if n.shape == shapeRefused {
		d.bad[path] = true
		return
	}
	if f.kind.scalar() {
		d.scalar(f, n, dst, path)
		return
	}
	if n.shape == shapeNull && f.kind != kindOption && !f.required {
		return // a section whose keys are all commented out
	}
	want := shapeMap
	switch f.kind {
	case kindCaps, kindStrings, kindSecrets, kindList:
		want = shapeList
	}
	if n.shape != want {
		d.mismatch(f, n, path)
		return
	}
	switch f.kind {
	case kindStruct:
		d.section(f.elem, n, dst, path, f.only, nil)
	case kindOption:
		p := reflect.New(f.goType.Elem())
		d.defaults(f.elem, p.Elem())
		d.section(f.elem, n, p.Elem(), path, nil, nil)
		dst.Set(p)
	case kindNamed:
		d.named(f, n, dst, path)
	case kindList:
		list := reflect.MakeSlice(f.goType, 0, len(n.items))
		for i, it := range n.items {
			p := item(path, i)
			d.at[p], d.origins[p] = it.at, OriginFile
			v := reflect.New(f.goType.Elem()).Elem()
			d.defaults(f.elem, v)
			if it.shape == shapeMap {
				d.section(f.elem, it, v, p, nil, nil)
			} else if it.shape != shapeRefused {
				d.add(p, "a map of keys is wanted, found "+it.shape.String(), "")
			} else {
				d.bad[p] = true
			}
			list = reflect.Append(list, v)
		}
		dst.Set(list)
	case kindCaps:
		d.capabilities(n, dst, path)
	case kindStrings:
		d.strings(f, n, dst, path)
	case kindSecrets:
		list := reflect.MakeSlice(f.goType, len(n.items), len(n.items))
		for i, it := range n.items {
			p := item(path, i)
			d.at[p], d.origins[p] = it.at, OriginFile
			d.secret(it, list.Index(i), p)
		}
		dst.Set(list)
	case kindWords, kindRatios:
		d.words(f, n, dst, path)
	}
}

// mismatch reports a list where a map is wanted, and the like.
func (d *decoder) mismatch(f *field, n *node, path string) {
	if n.shape == shapeNull {
		hint := "write one"
		if !f.required {
			hint = "write one, or leave the key out"
		}
		d.add(path, "has no value, "+f.wants()+" is wanted", hint)
		return
	}
	hint := ""
	switch {
	case f.kind == kindNamed && n.shape == shapeList:
		hint = "write the name as the key: " + f.key + ": {NAME: {…}}"
	case f.kind == kindList && n.shape == shapeMap:
		hint = "begin each element with a dash: - {…}"
	case f.kind == kindSecrets && n.shape == shapeScalar:
		hint = "for a single one the key is " + f.single
	case (f.kind == kindStrings || f.kind == kindCaps) && n.shape == shapeScalar:
		hint = "put it into brackets: [" + f.key + "]"
		if wordPattern.MatchString(n.text) && !mayBeSecret(n.text) {
			hint = "write [" + n.text + "]"
		}
	}
	d.add(path, f.wants()+" is wanted, found "+n.shape.String(), hint)
}

func (d *decoder) scalar(f *field, n *node, dst reflect.Value, path string) {
	switch n.shape {
	case shapeScalar:
		x, c := f.fromNode(n)
		if c != nil {
			d.add(path, c.message, c.hint)
			return
		}
		dst.Set(x)
		d.resolve(f, dst, path, d.dir)
	case shapeNull:
		hint := "write one, or leave the key out"
		if f.required {
			hint = "write one"
		}
		d.add(path, "has no value", hint)
	default:
		d.add(path, f.wants()+" is wanted, found "+n.shape.String(), "")
	}
}

// resolve turns a relative path into one that holds from everywhere.
func (d *decoder) resolve(f *field, dst reflect.Value, path, dir string) {
	text := dst.String()
	if f.typ != "path" && (f.typ != "log target" || text == "stdout" || text == "none") {
		return
	}
	d.written[path] = text
	dst.SetString(resolve(dir, text))
}

// named decodes a map of names into a slice in the order of the file.
func (d *decoder) named(f *field, n *node, dst reflect.Value, path string) {
	list := reflect.MakeSlice(f.goType, 0, len(n.entries))
	seen := map[string]bool{}
	for _, e := range n.entries {
		p := child(path, e.key)
		if e.lone {
			d.problems = append(d.problems, Problem{
				File: d.file, Line: e.at.line, Column: e.at.column, Key: path,
				Message: "a word without a value", Hint: "write NAME: {…}; a text with a comma needs quotes",
			})
			continue
		}
		if seen[e.key] {
			d.duplicate(p, e.at)
			continue
		}
		seen[e.key] = true
		d.at[p], d.origins[p] = e.at, OriginFile
		if c := f.elem.name.checkText(e.key); c != nil {
			d.add(p, c.message, c.hint)
		}
		v := reflect.New(f.goType.Elem()).Elem()
		d.defaults(f.elem, v)
		v.Field(f.elem.name.index).SetString(e.key)
		switch e.value.shape {
		case shapeMap:
			d.section(f.elem, e.value, v, p, nil, nil)
		case shapeNull: // nothing but defaults
		case shapeRefused:
			d.bad[p] = true
		default:
			d.add(p, "a map of keys is wanted, found "+e.value.shape.String(), "")
		}
		list = reflect.Append(list, v)
	}
	dst.Set(list)
}

func (d *decoder) capabilities(n *node, dst reflect.Value, path string) {
	words := make([]string, len(decision.Capabilities))
	for i, c := range decision.Capabilities {
		words[i] = string(c)
	}
	var set decision.CapabilitySet
	for i, it := range n.items {
		p := item(path, i)
		d.at[p], d.origins[p] = it.at, OriginFile
		if it.shape != shapeScalar {
			d.add(p, "a capability is wanted, found "+it.shape.String(), "")
			continue
		}
		if c := oneOf(it.text, words); c != nil {
			d.add(p, c.message, c.hint)
			continue
		}
		set |= decision.SetOf(decision.Capability(it.text))
	}
	if len(n.items) == 0 {
		d.add(path, "an empty list of capabilities leaves nothing to serve", "leave the key out for all")
	}
	dst.Set(reflect.ValueOf(set))
}

func (d *decoder) strings(f *field, n *node, dst reflect.Value, path string) {
	list := []string{}
	element := &field{key: f.key, kind: kindString, goType: reflect.TypeFor[string](), typ: f.typ}
	for i, it := range n.items {
		p := item(path, i)
		d.at[p], d.origins[p] = it.at, OriginFile
		var text string
		d.scalar(element, it, reflect.ValueOf(&text).Elem(), p)
		if d.bad[p] {
			continue
		}
		if slices.Contains(list, text) {
			d.add(p, visible(text)+" is here twice", "")
			continue
		}
		list = append(list, text)
	}
	if len(n.items) == 0 {
		d.add(path, "an empty list", "leave the key out for: "+f.none)
	}
	dst.Set(reflect.ValueOf(list))
}

func (d *decoder) secret(n *node, dst reflect.Value, path string) {
	if dst.Kind() == reflect.Slice {
		list := reflect.MakeSlice(dst.Type(), 1, 1)
		d.secret(n, list.Index(0), path)
		dst.Set(list)
		return
	}
	switch n.shape {
	case shapeScalar:
		s, c := parseSecret(n.text, d.dir, d.lookup)
		if c != nil {
			d.add(path, c.message, c.hint)
		}
		dst.Set(reflect.ValueOf(s))
	case shapeNull:
		d.add(path, "has no value", "write env:NAME, file:PATH or exec:COMMAND")
	case shapeList:
		d.add(path, "one credential is wanted, found a list", "for several the key is api_keys")
	case shapeRefused:
		d.bad[path] = true
	default:
		d.add(path, "one credential is wanted, found "+n.shape.String(), "write env:NAME, file:PATH or exec:COMMAND, in quotes if it has a comma or a brace")
	}
}

// words decodes a map of words to words or numbers.
func (d *decoder) words(f *field, n *node, dst reflect.Value, path string) {
	m := reflect.MakeMap(f.goType)
	name := &field{typ: f.typ}
	value := &field{key: f.key, goType: f.goType.Elem(), typ: f.typ}
	if f.typ == "name" {
		value.typ = "label"
	}
	if f.kind == kindRatios {
		value.kind = kindFloat
		value.min, value.max = &bound{text: "0"}, &bound{text: "1", value: 1}
	}
	for i, e := range n.entries {
		p := child(path, e.key)
		if e.lone {
			d.unknown(f.stringsOnly(), n, i, path, nil)
			continue
		}
		if _, again := d.at[p]; again {
			d.duplicate(p, e.at)
			continue
		}
		d.at[p], d.origins[p] = e.at, OriginFile
		if c := name.checkText(e.key); c != nil {
			d.add(p, c.message, c.hint)
			continue
		}
		v := reflect.New(f.goType.Elem()).Elem()
		d.scalar(value, e.value, v, p)
		if !d.bad[p] {
			m.SetMapIndex(reflect.ValueOf(e.key), v)
		}
	}
	dst.Set(m)
}

// stringsOnly is the schema of a map whose keys are free.
func (f *field) stringsOnly() *schema { return &schema{} }

// fromOutside takes what flags and the environment set, flags first.
func (d *decoder) fromOutside() {
	known := map[string]bool{}
	fixed(root(), "", func(path string, f *field) {
		known[path] = true
		text, origin := "", ""
		if v, ok := d.src.Flags[path]; ok {
			text, origin = v, OriginFlag
		} else if v, ok := d.lookup(environmentName(path)); ok {
			text, origin = v, OriginEnvironment
		} else {
			return
		}
		d.origins[path] = origin
		delete(d.bad, path)
		x, c := f.fromText(text)
		if c == nil && text == "" && f.kind == kindString && f.required {
			c = complain("", "is empty")
		}
		if c != nil {
			d.add(path, c.message, c.hint)
			return
		}
		dst := d.reach(path)
		dst.Set(x)
		d.resolve(f, dst, path, "")
	})
	for _, path := range sortedKeys(d.src.Flags) {
		if !known[path] {
			p := Problem{File: "flag", Key: path, Message: "no flag can set this key", Hint: "flags set keys outside of lists and maps of names"}
			if near, close := nearest(path, sortedKeys(known)); close {
				p.Hint = "did you mean " + near + "?"
			}
			d.problems = append(d.problems, p)
		}
	}
}

// reach is the value at a path without names and indices; sections that are
// not there are made, with their defaults.
func (d *decoder) reach(path string) reflect.Value {
	s, v := root(), reflect.ValueOf(d.cfg).Elem()
	for part := range strings.SplitSeq(path, ".") {
		f, _ := s.field(part)
		v = v.Field(f.index)
		if f.kind == kindOption {
			if v.IsNil() {
				v.Set(reflect.New(f.goType.Elem()))
				d.defaults(f.elem, v.Elem())
			}
			v = v.Elem()
		}
		s = f.elem
	}
	return v
}

// required reports every key that must be there and is not.
func (d *decoder) required(s *schema, v reflect.Value, path string) {
	for _, f := range s.fields {
		p := child(path, f.key)
		dst := v.Field(f.index)
		if f.required && !d.given(p) && !d.bad[path] {
			if !d.meant[p] { // else the misspelt key is reported
				d.problems = append(d.problems, d.missing(f, path))
			}
			continue
		}
		if f.required && (f.kind == kindNamed || f.kind == kindList) && dst.Len() == 0 && !d.bad[p] && !d.problemUnder(p) {
			d.add(p, "is empty, at least one is needed", "")
		}
		switch f.kind {
		case kindStruct:
			d.required(f.elem, dst, p)
		case kindOption:
			if !dst.IsNil() {
				d.required(f.elem, dst.Elem(), p)
			}
		case kindNamed:
			for i := range dst.Len() {
				e := dst.Index(i)
				d.required(f.elem, e, child(p, e.Field(f.elem.name.index).String()))
			}
		case kindList:
			for i := range dst.Len() {
				if ip := item(p, i); d.at[ip].line > 0 {
					d.required(f.elem, dst.Index(i), ip)
				}
			}
		}
	}
}

func (d *decoder) missing(f *field, path string) Problem {
	at := d.position(path)
	p := Problem{File: d.file, Line: at.line, Column: at.column, Key: child(path, f.key), Message: "is required"}
	if len(f.oneof) > 0 {
		p.Hint = "one of " + strings.Join(f.oneof, ", ")
	}
	return p
}

// problemUnder reports whether something below path was refused.
func (d *decoder) problemUnder(path string) bool {
	for _, p := range d.problems {
		if strings.HasPrefix(p.Key, path) {
			return true
		}
	}
	return false
}
