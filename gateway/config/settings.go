package config

import (
	"bytes"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"failback/gateway/decision"
)

// Setting is an effective scalar value and where it came from.
type Setting struct {
	Key    string
	Value  string // as the file would have it, secrets hidden
	Origin string // flag, environment, file or default
}

// Settings returns every scalar in force that a flag or the environment can
// set, and after them what upstreams override. Keys that are absent and have no
// default are left out.
func (c *Config) Settings() []Setting {
	var settings []Setting
	v := reflect.ValueOf(c).Elem()
	fixed(root(), "", func(path string, f *field) {
		x, ok := at(v, path)
		if ok && (c.meta.given(path) || f.hasDef || !x.IsZero()) {
			settings = append(settings, Setting{Key: path, Value: c.shown(f, x, path), Origin: c.origin(path)})
		}
	})
	var overrides func(parts []part)
	overrides = func(parts []part) {
		for _, p := range parts {
			if len(p.parts) == 0 {
				settings = append(settings, Setting{Key: p.path, Value: c.shown(p.field, p.value, p.path), Origin: c.origin(p.path)})
			}
			overrides(p.parts)
		}
	}
	for _, section := range c.outline() {
		if section.key != "upstreams" {
			continue
		}
		for _, u := range section.parts {
			for _, p := range u.parts {
				if p.field.overlay != "" {
					overrides(p.parts)
				}
			}
		}
	}
	return settings
}

// at is the value at a path without names and indices; false if a section on
// the way is absent.
func at(v reflect.Value, path string) (reflect.Value, bool) {
	s := root()
	for part := range strings.SplitSeq(path, ".") {
		f, _ := s.field(part)
		v, s = v.Field(f.index), f.elem
		if f.kind == kindOption {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
	}
	return v, true
}

func (c *Config) origin(path string) string {
	if o := c.meta.origins[path]; o != "" {
		return o
	}
	return OriginDefault
}

// shown is a value for people; paths as they were written.
func (c *Config) shown(f *field, v reflect.Value, path string) string {
	if w, ok := c.meta.written[path]; ok {
		return w
	}
	return f.shown(v)
}

// Show returns the whole effective configuration as YAML, with the origin of
// what does not come from the file as comments. Credentials are shown as their
// source, never their value; hashes and webhooks are cut short.
func (c *Config) Show() []byte {
	w := &writer{c: c}
	w.parts(c.outline(), 0, false)
	return w.b.Bytes()
}

type writer struct {
	c *Config
	b bytes.Buffer
}

// parts writes parts at a depth. dash says that the first one follows a dash.
func (w *writer) parts(parts []part, depth int, dash bool) {
	for i, p := range parts {
		if !dash || i > 0 {
			w.indent(depth)
		}
		w.part(p, depth)
	}
}

func (w *writer) indent(depth int) { w.b.WriteString(strings.Repeat("  ", depth)) }

func (w *writer) part(p part, depth int) {
	w.b.WriteString(quote(p.key) + ":")
	if p.field != nil && p.field.kind == kindList {
		w.b.WriteString(w.comment(p.path) + "\n")
		for _, e := range p.parts {
			w.indent(depth + 1)
			w.b.WriteString("- ")
			w.parts(e.parts, depth+2, true)
		}
		return
	}
	if p.field == nil || !p.field.leaf() {
		if len(p.parts) == 0 {
			w.b.WriteString(" {}\n")
			return
		}
		w.b.WriteString("\n")
		w.parts(p.parts, depth+1, false)
		return
	}
	w.b.WriteString(" " + w.leaf(p) + w.comment(p.path) + "\n")
}

// comment says where a value came from, if not from the file.
func (w *writer) comment(path string) string {
	switch w.c.origin(path) {
	case OriginDefault:
		return " # default"
	case OriginFlag:
		return " # flag"
	case OriginEnvironment:
		return " # " + environmentName(path)
	}
	return ""
}

// leaf is a value in one line.
func (w *writer) leaf(p part) string {
	f := p.field
	switch f.kind {
	case kindSecrets:
		var words []string
		for _, s := range p.value.Interface().([]Secret) {
			words = append(words, quote(s.String()))
		}
		if p.key != f.key {
			return words[0]
		}
		return "[" + strings.Join(words, ", ") + "]"
	case kindStrings:
		var words []string
		for _, s := range p.value.Interface().([]string) {
			words = append(words, quote(s))
		}
		return "[" + strings.Join(words, ", ") + "]"
	case kindCaps:
		var words []string
		for _, s := range p.value.Interface().(decision.CapabilitySet).List() {
			words = append(words, string(s))
		}
		return "[" + strings.Join(words, ", ") + "]"
	case kindWords:
		m := p.value.Interface().(map[string]string)
		var words []string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			words = append(words, quote(k)+": "+quote(m[k]))
		}
		return "{" + strings.Join(words, ", ") + "}"
	case kindRatios:
		m := p.value.Interface().(map[string]float64)
		var words []string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			words = append(words, quote(k)+": "+number(m[k]))
		}
		return "{" + strings.Join(words, ", ") + "}"
	case kindString, kindURL, kindDate, kindTime:
		return quote(w.c.shown(f, p.value, p.path))
	}
	return w.c.shown(f, p.value, p.path)
}

// leaf reports whether the key's value is written in one line.
func (f *field) leaf() bool {
	switch f.kind {
	case kindStruct, kindOption, kindNamed, kindList:
		return false
	}
	return true
}

// plain is text that every YAML reader takes for text, in flow style too.
var plain = regexp.MustCompile(`^[A-Za-z./_][A-Za-z0-9./_+@-]*(:[A-Za-z0-9./_@-]+)*$|^[0-9]+[A-Za-z][A-Za-z0-9.]*$|^[0-9]{4}-[0-9]{2}-[0-9]{2}$|^[0-9]+(\.[0-9]+){3}:[0-9]+$`)

// quote writes s so that it is read back as text.
func quote(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n", ".inf", ".nan":
		return strconv.Quote(s)
	}
	if plain.MatchString(s) && !numeric.MatchString(s) {
		return s
	}
	if strings.Contains(s, `"`) && !strings.Contains(s, "'") && strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) < 0 {
		return "'" + s + "'"
	}
	return yamlQuote(s)
}

// numeric is text that YAML 1.2 takes for a number: 1e3, .5, 0x1f.
var numeric = regexp.MustCompile(`^[0-9.]+[eE][0-9]+$|^\.[0-9]+$|^0[xob]`)

// yamlQuote is s in double quotes with escapes that YAML knows.
func yamlQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xffff:
			b.WriteString(`\u` + hex4(uint32(r)))
		default:
			b.WriteString(`\U` + hex4(uint32(r)>>16) + hex4(uint32(r)))
		}
	}
	b.WriteByte('"')
	return b.String()
}

func hex4(v uint32) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[v>>12&15], digits[v>>8&15], digits[v>>4&15], digits[v&15]})
}
