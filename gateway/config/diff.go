package config

import (
	"slices"
	"strings"

	"failback/gateway/decision"
)

// Change is one key in which two configurations differ.
type Change struct {
	Key     string
	Restart bool // a reload cannot apply it
}

// fact is one line of a flat configuration.
type fact struct {
	value   string
	order   bool // names of a map's entries, in their order
	restart bool
}

// flat is the configuration as one fact per key. A secret is in it as the
// digest of its declaration and, withContent, of its value; a certificate then
// with the digest of its file.
func (c *Config) flat(withContent bool) map[string]fact {
	facts := map[string]fact{}
	var walk func(parts []part, restart bool)
	walk = func(parts []part, restart bool) {
		for _, p := range parts {
			c.facts(p, restart, withContent, facts)
			walk(p.parts, restart || p.field != nil && p.field.restart == "yes")
		}
	}
	walk(c.outline(), false)
	return facts
}

func (c *Config) facts(p part, restart, withContent bool, facts map[string]fact) {
	f := p.field
	if f == nil {
		facts[p.path] = fact{value: "present", restart: restart}
		return
	}
	restart = restart || f.restart != ""
	one := func(path, value string) { facts[path] = fact{value: value, restart: restart} }
	switch f.kind {
	case kindStruct, kindList:
	case kindOption:
		one(p.path, "present")
	case kindNamed:
		names := make([]string, len(p.parts))
		for i := range p.parts {
			names[i] = p.parts[i].key
		}
		facts[p.path] = fact{value: strings.Join(names, "\x00"), order: true, restart: restart}
	case kindSecrets:
		for i, s := range p.value.Interface().([]Secret) {
			path := p.path
			if p.key == f.key {
				path = item(p.path, i)
			}
			value := s.identity()
			if withContent {
				value += " " + c.meta.secrets[path]
			}
			one(path, value)
		}
	case kindWords:
		for k, v := range p.value.Interface().(map[string]string) {
			one(child(p.path, k), v)
		}
	case kindRatios:
		for k, v := range p.value.Interface().(map[string]float64) {
			one(child(p.path, k), number(v))
		}
	case kindStrings:
		one(p.path, strings.Join(p.value.Interface().([]string), "\x00"))
	case kindCaps:
		one(p.path, p.value.Interface().(decision.CapabilitySet).String())
	default:
		value := f.text(p.value)
		if withContent && f.typ == "path" {
			value += " " + c.meta.files[value]
		}
		one(p.path, value)
	}
}

// Hash identifies what a configuration says: comments, the order of keys and
// where a value came from do not matter, and neither does the content of the
// files and variables that it names. It gives nothing away.
func (c *Config) Hash() string {
	facts := c.flat(false)
	var b strings.Builder
	for _, k := range sortedKeys(facts) {
		b.WriteString(k + "\x01" + facts[k].value + "\x02")
	}
	return digest([]byte(b.String()))[:16]
}

// Diff returns the keys in which two configurations differ, sorted. An entry
// or section that comes or goes is one change. Credentials and certificates
// whose content changed are among them, though no key did.
func Diff(old, new *Config) []Change {
	a, b := old.flat(true), new.flat(true)
	keys := sortedKeys(a)
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var changes []Change
	for _, k := range keys {
		x, y := a[k], b[k]
		if x.value == y.value || withParent(k, a, b) {
			continue
		}
		if (x.order || y.order) && !reordered(x.value, y.value) {
			continue // the entries that came or went are changes themselves
		}
		changes = append(changes, Change{Key: k, Restart: x.restart || y.restart})
	}
	return changes
}

// withParent reports whether an entry or section that holds k is in one of a
// and b only.
func withParent(k string, a, b map[string]fact) bool {
	for p := parent(k); p != ""; p = parent(p) {
		x, inA := a[p]
		y, inB := b[p]
		if inA != inB && !x.order && !y.order {
			return true
		}
	}
	return false
}

// reordered reports whether the names that two lists share stand in another order.
func reordered(a, b string) bool {
	x, y := strings.Split(a, "\x00"), strings.Split(b, "\x00")
	both := func(of, in []string) []string {
		return slices.DeleteFunc(slices.Clone(of), func(s string) bool { return !slices.Contains(in, s) })
	}
	return !slices.Equal(both(x, y), both(y, x))
}
