package logql

import (
	"cmp"
	"strconv"
	"strings"
)

// Label is one name and its value.
type Label struct {
	Name, Value string
}

// Labels is a set of labels, sorted by name, each name once. It is shared and
// must not be changed. A label with an empty value is not an absent one.
type Labels []Label

// Get returns the value of a label, "" when there is none.
func (l Labels) Get(name string) string {
	v, _ := l.Lookup(name)
	return v
}

// size is about what the labels take in memory.
func (l Labels) size() int {
	n := 0
	for i := range l {
		n += len(l[i].Name) + len(l[i].Value) + 32
	}
	return n
}

// Lookup returns the value of a label and whether there is one.
func (l Labels) Lookup(name string) (string, bool) {
	for i := range l {
		if l[i].Name == name {
			return l[i].Value, true
		}
	}
	return "", false
}

// String writes the labels as Loki does: {a="x", b="y"}.
func (l Labels) String() string {
	n := 2
	for i := range l {
		n += len(l[i].Name) + len(l[i].Value) + 6
	}
	b := append(make([]byte, 0, n), '{')
	for i, lb := range l {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(append(b, lb.Name...), '=')
		b = strconv.AppendQuote(b, lb.Value)
	}
	return string(append(b, '}'))
}

// Compare orders sets of labels: name by name and value by value, a shorter
// set before a longer one that begins with it.
func (l Labels) Compare(o Labels) int {
	for i := 0; i < len(l) && i < len(o); i++ {
		if c := strings.Compare(l[i].Name, o[i].Name); c != 0 {
			return c
		}
		if c := strings.Compare(l[i].Value, o[i].Value); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(l), len(o))
}
