package config

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"failback/gateway/decision"
)

// kind is how a key's value is written and held.
type kind uint8

const (
	kindString  kind = iota // string and types of it
	kindBool                // bool
	kindInt                 // int and int64; bytes too
	kindFloat               // float64
	kindTime                // time.Duration
	kindDate                // time.Time
	kindURL                 // *url.URL
	kindCaps                // decision.CapabilitySet, a list of words
	kindStrings             // []string
	kindSecrets             // []Secret
	kindWords               // map[string]string
	kindRatios              // map[string]float64
	kindStruct              // a section, always there
	kindOption              // *struct, nil when absent
	kindNamed               // []struct, a map in the file, in its order
	kindList                // []struct
)

// scalar reports whether one word in the file is the whole value.
func (k kind) scalar() bool { return k <= kindURL }

// field is one declared key.
type field struct {
	index    int
	key      string
	kind     kind
	goType   reflect.Type
	typ      string // tag type
	def      string
	hasDef   bool
	none     string
	required bool
	oneof    []string
	min, max *bound
	restart  string // "", yes, toggle
	overlay  string
	only     []string
	single   string
	singles  string // doc of single
	inert    bool
	doc      string
	elem     *schema // of sections and collections
}

// bound is a limit of a number or duration, as it was written and as a number
// (a duration in nanoseconds).
type bound struct {
	text      string
	value     float64
	exclusive bool
}

// schema is the declaration of one section.
type schema struct {
	goType reflect.Type
	fields []*field
	name   *field // takes the name of a map's entry; nil in others
}

// field returns the field of that key, and whether it was named by its single key.
func (s *schema) field(key string) (f *field, single bool) {
	for _, f := range s.fields {
		switch key {
		case f.key:
			return f, false
		case f.single:
			return f, key != ""
		}
	}
	return nil, false
}

// keys are the valid keys, in order of declaration.
func (s *schema) keys() []string {
	var keys []string
	for _, f := range s.fields {
		if f.single != "" {
			keys = append(keys, f.single)
		}
		keys = append(keys, f.key)
	}
	return keys
}

// root is the schema of Config.
var root = sync.OnceValue(func() *schema { return schemaOf(reflect.TypeFor[Config]()) })

func schemaOf(t reflect.Type) *schema {
	s := &schema{goType: t}
	for i := range t.NumField() {
		sf := t.Field(i)
		key, ok := sf.Tag.Lookup("key")
		if !ok {
			continue
		}
		f := fieldOf(sf)
		f.index, f.key = i, key
		if key == "*" {
			s.name = f
			continue
		}
		s.fields = append(s.fields, f)
	}
	return s
}

func fieldOf(sf reflect.StructField) *field {
	tag := sf.Tag
	f := &field{
		goType:   sf.Type,
		typ:      tag.Get("type"),
		none:     tag.Get("none"),
		required: tag.Get("required") == "yes",
		restart:  tag.Get("restart"),
		overlay:  tag.Get("overlay"),
		single:   tag.Get("single"),
		singles:  tag.Get("singledoc"),
		inert:    tag.Get("effect") == "none",
		doc:      tag.Get("doc"),
	}
	f.def, f.hasDef = tag.Lookup("default")
	f.kind, f.elem = kindOf(sf.Type)
	if v := tag.Get("oneof"); v != "" {
		f.oneof = strings.Split(v, "|")
	}
	if v := tag.Get("only"); v != "" {
		f.only = strings.Split(v, ",")
	}
	f.min, f.max = f.bound(tag.Get("min"), false), f.bound(tag.Get("max"), false)
	if v := tag.Get("above"); v != "" {
		f.min = f.bound(v, true)
	}
	return f
}

func (f *field) bound(text string, exclusive bool) *bound {
	if text == "" {
		return nil
	}
	if f.kind == kindTime {
		d, err := time.ParseDuration(text)
		if err != nil {
			panic("config: bound of a tag: " + err.Error())
		}
		return &bound{text: text, value: float64(d), exclusive: exclusive}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("config: bound of a tag: " + err.Error())
	}
	return &bound{text: text, value: v, exclusive: exclusive}
}

func kindOf(t reflect.Type) (kind, *schema) {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return kindTime, nil
	case reflect.TypeFor[time.Time]():
		return kindDate, nil
	case reflect.TypeFor[*url.URL]():
		return kindURL, nil
	case reflect.TypeFor[decision.CapabilitySet]():
		return kindCaps, nil
	case reflect.TypeFor[[]string]():
		return kindStrings, nil
	case reflect.TypeFor[[]Secret]():
		return kindSecrets, nil
	case reflect.TypeFor[map[string]string]():
		return kindWords, nil
	case reflect.TypeFor[map[string]float64]():
		return kindRatios, nil
	}
	switch t.Kind() {
	case reflect.String:
		return kindString, nil
	case reflect.Bool:
		return kindBool, nil
	case reflect.Int, reflect.Int64:
		return kindInt, nil
	case reflect.Float64:
		return kindFloat, nil
	case reflect.Struct:
		return kindStruct, schemaOf(t)
	case reflect.Pointer:
		return kindOption, schemaOf(t.Elem())
	case reflect.Slice:
		s := schemaOf(t.Elem())
		if s.name != nil {
			return kindNamed, s
		}
		return kindList, s
	}
	panic(fmt.Sprintf("config: no way to write a %s", t))
}

// child is the path of a key in a section, or of an entry in a map. Names that
// could be taken for a path are quoted.
func child(path, key string) string {
	if strings.IndexFunc(key, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) >= 0 || key == "" {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// item is the path of a list's element.
func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// fixed calls visit for every scalar whose path needs no name or index: those
// that a flag or the environment can set.
func fixed(s *schema, path string, visit func(path string, f *field)) {
	for _, f := range s.fields {
		p := child(path, f.key)
		switch {
		case f.kind.scalar():
			visit(p, f)
		case f.kind == kindStruct, f.kind == kindOption:
			fixed(f.elem, p, visit)
		}
	}
}

// environmentName is the variable that sets the key of that path.
func environmentName(path string) string {
	return "FAILBACK_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// homes are the paths of all sections that have a key of that name, for a hint
// to who wrote it in the wrong place.
func homes(key string) []string {
	var found []string
	var walk func(s *schema, path string)
	walk = func(s *schema, path string) {
		if f, _ := s.field(key); f != nil && !slices.Contains(found, path) {
			found = append(found, path)
		}
		for _, f := range s.fields {
			p := f.key
			if path != "" {
				p = path + "." + f.key
			}
			switch f.kind {
			case kindStruct, kindOption:
				if f.overlay == "" {
					walk(f.elem, p)
				}
			case kindNamed:
				walk(f.elem, p+".<name>")
			case kindList:
				walk(f.elem, p+"[]")
			}
		}
	}
	walk(root(), "")
	return found
}
