package wire

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// complaint is what an error answer says, whatever its shape: OpenAI's and
// Anthropic's, and those of the many that resemble them.
type complaint struct {
	code   string // the most telling code or type, as written
	words  []string
	status int    // a number given as code or status, 0 if none
	param  string // the request field it is about
	// text is the message in lower case, cut, with quoted parts emptied: they
	// may repeat what the caller wrote, which must not decide anything.
	text string
	wait time.Duration // Google's retryDelay, 0 if none
	html bool
}

const (
	maxWords = 16
	maxText  = 600
	maxCode  = 64
)

// readComplaint reads an error body. It may be cut, and need not be JSON.
func readComplaint(body []byte) complaint {
	var c complaint
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
	case body[0] == '{', body[0] == '[':
		s := scanner{data: body}
		c.read(&s, 0)
	case body[0] == '<':
		c.html = true
	case body[0] == '"':
		s := scanner{data: body}
		c.message(&s)
	default:
		c.text = simplify(body)
	}
	return c
}

// read reads an error object, or the first of a list.
func (c *complaint) read(s *scanner, depth int) {
	if s.peek() == '[' && depth < maxLook {
		for more := s.array(); more; more = s.next(']') {
			c.read(s, depth+1)
		}
		return
	}
	if s.peek() != '{' || depth >= maxLook {
		s.skip()
		return
	}
	for more := s.object(); more; more = s.next('}') {
		switch string(s.key()) {
		case "message", "msg", "error_message", "error_description":
			c.message(s)
		case "error", "errors", "detail":
			if s.peek() == '"' {
				c.message(s)
			} else {
				c.read(s, depth+1)
			}
		case "code", "error_code", "errorCode", "status", "statusCode", "status_code", "reason", "type", "error_type", "__type":
			c.word(s)
		case "param":
			if t, ok := s.text(); ok && c.param == "" {
				c.param = string(s.value(t))
			}
		case "retryDelay":
			if t, ok := s.text(); ok {
				if d, err := time.ParseDuration(string(s.value(t))); err == nil && d > 0 {
					c.wait = min(d, MaxRetryAfter)
				}
			}
		case "details", "innererror", "inner_error", "response", "fault", "choices":
			c.read(s, depth+1)
		default:
			s.skip()
		}
	}
}

// message reads the message; the first one that says anything holds.
func (c *complaint) message(s *scanner) {
	if b := s.peek(); b == '{' || b == '[' {
		c.read(s, maxLook-2) // some have the error where its message belongs
		return
	}
	if t, ok := s.text(); ok && c.text == "" {
		t.end = min(t.end, t.start+4*maxText)
		raw := s.data[t.start:t.end]
		if t.escaped {
			// The cut may fall into an escape.
			if i := bytes.LastIndexByte(raw, '\\'); i >= 0 && i > len(raw)-6 && len(raw) == 4*maxText {
				raw = bytes.TrimRight(raw[:i], `\`)
			}
			raw = unquote(nil, raw)
		}
		c.text = simplify(raw)
	}
}

// word reads a code, a type or a status, by name or number.
func (c *complaint) word(s *scanner) {
	if b := s.peek(); b == '-' || b-'0' <= 9 {
		if n, ok := s.count(); ok && n > 0 && c.status == 0 {
			c.status = n
		}
		return
	}
	t, ok := s.text()
	if !ok || t.empty() {
		return
	}
	v := string(s.value(t))
	if n, err := strconv.Atoi(v); err == nil {
		if c.status == 0 && n > 0 {
			c.status = n
		}
		return
	}
	if len(v) > 4*maxCode || len(c.words) == maxWords {
		return
	}
	low := strings.ToLower(v)
	// AWS appends a URL, Google puts one before a type.
	if i := strings.LastIndexByte(low, '#'); i >= 0 {
		low = low[i+1:]
	}
	if low == "error" || strings.HasPrefix(low, "response.") {
		return // that it is one is known
	}
	c.words = append(c.words, low)
	if c.code == "" || telling(low) > telling(strings.ToLower(c.code)) {
		c.code = visible(v)
	}
}

// visible returns s cut to maxCode visible ASCII characters.
func visible(s string) string {
	var b strings.Builder
	for i := 0; i < len(s) && b.Len() < maxCode; i++ {
		if s[i] > ' ' && s[i] < 0x7f {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// simplify returns a message in lower case, cut, with the insides of quotes
// taken out and every other run of white space as one space.
func simplify(msg []byte) string {
	msg = msg[:min(len(msg), 4*maxText)]
	var b strings.Builder
	letter := func(i int) bool {
		return i >= 0 && i < len(msg) && (lower(msg[i])-'a' <= 'z'-'a' || msg[i]-'0' <= 9 || msg[i] >= utf8.RuneSelf)
	}
	space := false
	for i := 0; i < len(msg) && b.Len() < maxText; i++ {
		q := msg[i]
		switch q {
		case '"', '`', '\'':
			if q == '\'' && letter(i-1) {
				break // an apostrophe
			}
			for k := i + 1; k < len(msg); k++ {
				if msg[k] == q && (q != '\'' || !letter(k+1)) {
					i = k
					break
				}
			}
			b.WriteString("``")
			space = false
			continue
		case ' ', '\t', '\n', '\r':
			if !space {
				b.WriteByte(' ')
			}
			space = true
			continue
		}
		space = false
		b.WriteByte(lower(q))
	}
	return b.String()
}
