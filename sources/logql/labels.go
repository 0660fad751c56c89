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
	var b strings.Builder
	b.WriteByte('{')
	for i, lb := range l {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(lb.Name)
		b.WriteByte('=')
		b.WriteString(strconv.Quote(lb.Value))
	}
	b.WriteByte('}')
	return b.String()
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
