package config

import (
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// part is a key that is in force: a section or entry with what is in it, or a
// value. Outlines of a configuration feed Show, Settings, Hash and Diff.
type part struct {
	path  string
	key   string // as it is written in the section; the name for an entry of a map
	field *field // nil for an entry of a map or list
	value reflect.Value
	parts []part
}

// outline is everything that is in force, in the order of declaration, entries
// in the order of the file. Of what an upstream may override, it holds what
// the upstream does.
func (c *Config) outline() []part {
	return c.meta.outline(root(), reflect.ValueOf(c).Elem(), "")
}

func (m *meta) outline(s *schema, v reflect.Value, path string) []part {
	var parts []part
	for _, f := range s.fields {
		p := part{path: child(path, f.key), key: f.key, field: f, value: v.Field(f.index)}
		if f.single != "" && m.given(child(path, f.single)) {
			p.path, p.key = child(path, f.single), f.single
		}
		switch f.kind {
		case kindStruct:
			p.parts = m.outline(f.elem, p.value, p.path)
			if f.overlay != "" {
				p.parts = m.givenOnly(p.parts)
			}
			if len(p.parts) == 0 {
				continue
			}
		case kindOption:
			if p.value.IsNil() {
				continue
			}
			p.parts = m.outline(f.elem, p.value.Elem(), p.path)
		case kindNamed, kindList:
			if p.value.Len() == 0 {
				continue
			}
			for i := range p.value.Len() {
				e := part{path: item(p.path, i), value: p.value.Index(i)}
				if f.kind == kindNamed {
					e.key = e.value.Field(f.elem.name.index).String()
					e.path = child(p.path, e.key)
				}
				e.parts = m.outline(f.elem, e.value, e.path)
				p.parts = append(p.parts, e)
			}
		default:
			if !m.given(p.path) && !f.hasDef && p.value.IsZero() {
				continue
			}
		}
		parts = append(parts, p)
	}
	return parts
}

func (m *meta) givenOnly(parts []part) []part {
	var kept []part
	for _, p := range parts {
		if len(p.parts) > 0 {
			p.parts = m.givenOnly(p.parts)
			if len(p.parts) > 0 {
				kept = append(kept, p)
			}
		} else if m.given(p.path) {
			kept = append(kept, p)
		}
	}
	return kept
}

// text is a scalar's value as the file has it.
func (f *field) text(v reflect.Value) string {
	switch f.kind {
	case kindBool:
		return strconv.FormatBool(v.Bool())
	case kindInt:
		if f.typ == "bytes" {
			return bytesText(v.Int())
		}
		return strconv.FormatInt(v.Int(), 10)
	case kindFloat:
		return number(v.Float())
	case kindTime:
		return durationText(time.Duration(v.Int()))
	case kindDate:
		return dateText(v.Interface().(time.Time))
	case kindURL:
		return v.Interface().(*url.URL).String()
	}
	return v.String()
}

// shown is text for people, without what may be secret.
func (f *field) shown(v reflect.Value) string {
	switch f.typ {
	case "hash":
		text := v.String()
		return text[:min(len(text), len("sha256:")+8)] + "…"
	case "secret URL", "NATS URL":
		u := v.Interface().(*url.URL)
		text := u.Scheme + "://" + u.Host
		if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			text += "/…"
		}
		return text
	case "URL":
		u := *v.Interface().(*url.URL)
		if u.RawQuery != "" {
			u.RawQuery = ""
			return u.String() + "?…"
		}
		return u.String()
	}
	return f.text(v)
}
