package wire

import (
	"math"
	"strconv"
	"time"

	"failback/gateway/decision"
)

// Verdict is what an answer, or a part of one, was.
type Verdict struct {
	Class         decision.Class
	RetryAfter    time.Duration // valid if HasRetryAfter; clamped
	HasRetryAfter bool
	ShouldRetry   decision.Advice
	// NamesModel says that the error was about the model, not the upstream.
	NamesModel bool
	// Code is the upstream's error code or type, cut to 64 visible characters.
	Code string
	// Detail says in our own fixed words what was wrong with a bad answer. It
	// is for operators and holds nothing of the answer.
	Detail string

	ResponseModel string // the model the answer names
	ResponseID    string // id of a stored response (Responses API), else empty
	InputTokens   int    // as reported, cached ones included; 0 if not
	OutputTokens  int
}

// reported is what an answer says of itself, gathered over all its frames.
type reported struct {
	model, id  string
	input      int
	cacheWrite int // Anthropic counts these apart from input
	cacheRead  int
	output     int
}

// verdict returns a verdict of class c with all that was reported.
func (r *reported) verdict(c decision.Class) Verdict {
	return Verdict{
		Class: c, ResponseModel: r.model, ResponseID: r.id,
		InputTokens: r.input + r.cacheWrite + r.cacheRead, OutputTokens: r.output,
	}
}

// name reads a string into to, unless that is known already.
func (r *reported) name(s *scanner, to *string) {
	const most = 256
	if t, ok := s.text(); ok && *to == "" && t.end-t.start <= most {
		*to = s.string(t)
	}
}

// usage reads an answer's count of tokens. Counts may come more than once, and
// early ones may be placeholders: the largest of each holds.
func (r *reported) usage(s *scanner) {
	for more := s.object(); more; more = s.next('}') {
		var to *int
		switch string(s.key()) {
		case "prompt_tokens", "input_tokens":
			to = &r.input
		case "completion_tokens", "output_tokens":
			to = &r.output
		case "cache_creation_input_tokens":
			to = &r.cacheWrite
		case "cache_read_input_tokens":
			to = &r.cacheRead
		default:
			s.skip()
			continue
		}
		if n, ok := s.count(); ok {
			*to = max(*to, n)
		}
	}
}

// count reads a number that counts something. Any other value is stepped over.
func (s *scanner) count() (int, bool) {
	if s.peek()-'0' > 9 {
		s.skip()
		return 0, false
	}
	raw := s.raw()
	if len(raw) <= 9 {
		n := 0
		for _, c := range raw {
			if c-'0' > 9 {
				n = -1
				break
			}
			n = 10*n + int(c-'0')
		}
		if n >= 0 && len(raw) > 0 {
			return n, true
		}
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if v > math.MaxInt32 {
		return math.MaxInt32, true
	}
	return int(v), err == nil
}

// says steps over the value that comes next and reports whether it says
// anything: whether it holds, at any depth, a string that is not empty, under
// a name that is not about the value's form.
func (s *scanner) says(depth int) bool {
	said := false
	switch c := s.peek(); {
	case c == '"':
		t, ok := s.str()
		return ok && !t.empty()
	case c == '[' && depth < maxLook:
		for more := s.array(); more; more = s.next(']') {
			said = s.says(depth+1) || said
		}
	case c == '{' && depth < maxLook:
		for more := s.object(); more; more = s.next('}') {
			switch string(s.key()) {
			case "type", "id", "index", "role", "object", "status", "phase", "call_id", "format", "encrypted_content":
				s.skip()
			default:
				said = s.says(depth+1) || said
			}
		}
	default:
		s.skip()
	}
	return said
}

// complains steps over the value of an "error" member and reports whether it
// is one: null, false, "" and objects of only these are not.
func (s *scanner) complains(depth int) bool {
	bad := false
	switch c := s.peek(); {
	case c == '"':
		t, ok := s.str()
		return ok && !t.empty()
	case c == '[' && depth < maxLook:
		for more := s.array(); more; more = s.next(']') {
			bad = s.complains(depth+1) || bad
		}
	case c == '{' && depth < maxLook:
		for more := s.object(); more; more = s.next('}') {
			s.key()
			bad = s.complains(depth+1) || bad
		}
	default:
		raw := s.raw()
		return len(raw) > 0 && raw[0] != 'n' && raw[0] != 'f' && string(raw) != "0"
	}
	return bad
}
