package decision

import "strings"

// Capability is one thing an upstream can do and a breaker can guard.
type Capability string

const (
	Tools      Capability = "tools"
	Stream     Capability = "stream"
	Text       Capability = "text"
	Embeddings Capability = "embeddings"
)

// Capabilities lists every capability, most specific first.
var Capabilities = []Capability{Tools, Stream, Text, Embeddings}

// CapabilitySet is a set of capabilities; its zero value is empty.
type CapabilitySet uint8

const (
	setTools CapabilitySet = 1 << iota
	setStream
	setText
	setEmbeddings
)

// SetOf returns the set of the given capabilities. Unknown ones are ignored.
func SetOf(cs ...Capability) CapabilitySet {
	var s CapabilitySet
	for _, c := range cs {
		s |= bit(c)
	}
	return s
}

// Needed returns what a request needs: embeddings alone, else text and, as
// asked for, stream and tools.
func Needed(embeddings, stream, tools bool) CapabilitySet {
	if embeddings {
		return setEmbeddings
	}
	s := setText
	if stream {
		s |= setStream
	}
	if tools {
		s |= setTools
	}
	return s
}

func bit(c Capability) CapabilitySet {
	switch c {
	case Tools:
		return setTools
	case Stream:
		return setStream
	case Text:
		return setText
	case Embeddings:
		return setEmbeddings
	}
	return 0
}

// Has reports whether c is in s.
func (s CapabilitySet) Has(c Capability) bool { return s&bit(c) != 0 }

// Covers reports whether every capability of other is in s.
func (s CapabilitySet) Covers(other CapabilitySet) bool { return s&other == other }

// List returns the members, most specific first.
func (s CapabilitySet) List() []Capability {
	var l []Capability
	for _, c := range Capabilities {
		if s.Has(c) {
			l = append(l, c)
		}
	}
	return l
}

// MostSpecific returns the member a failure is booked on: tools, else stream,
// else text, else embeddings; empty for the empty set.
func (s CapabilitySet) MostSpecific() Capability {
	for _, c := range Capabilities {
		if s.Has(c) {
			return c
		}
	}
	return ""
}

// String joins the members with "+", most specific first.
func (s CapabilitySet) String() string {
	var b strings.Builder
	for i, c := range s.List() {
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(string(c))
	}
	return b.String()
}

// Bucket names what one breaker guards: an upstream's capability. The region
// belongs to the upstream.
type Bucket struct {
	Upstream   string
	Capability Capability
}

// String writes b as operators do: upstream:capability.
func (b Bucket) String() string { return b.Upstream + ":" + string(b.Capability) }

// ParseBucket reads upstream:capability.
func ParseBucket(s string) (Bucket, bool) {
	i := strings.LastIndexByte(s, ':')
	if i <= 0 {
		return Bucket{}, false
	}
	b := Bucket{Upstream: s[:i], Capability: Capability(s[i+1:])}
	return b, bit(b.Capability) != 0
}

// Dialect is a wire format.
type Dialect string

const (
	OpenAI    Dialect = "openai"
	Anthropic Dialect = "anthropic"
)
