package tracecontext

import "strings"

// Limits of a tracestate, as the specification has them: 32 members, and at
// least 512 characters are to be passed on.
const (
	maxMembers = 32
	maxState   = 512
)

// state joins the values of the tracestate headers to one, without what is
// empty. One that is not valid, or too large to be passed on, is none: nobody
// may pass on a part of it that might mean something else.
func state(values []string) string {
	var b strings.Builder
	members := 0
	for _, v := range values {
		for m := range strings.SplitSeq(v, ",") {
			m = strings.Trim(m, " \t")
			if m == "" {
				continue
			}
			members++
			if !validMember(m) || members > maxMembers || b.Len()+1+len(m) > maxState {
				return ""
			}
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			b.WriteString(m)
		}
	}
	if members > 1 && repeated(b.String()) {
		return ""
	}
	return b.String()
}

// repeated reports whether a key is there twice.
func repeated(s string) bool {
	seen := make(map[string]bool, maxMembers)
	for m := range strings.SplitSeq(s, ",") {
		key, _, _ := strings.Cut(m, "=")
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

// validMember: key=value, the key of lower-case letters, digits and _-*/, with
// at most one @, the value of printable ASCII but for comma and equals sign.
func validMember(m string) bool {
	key, value, ok := strings.Cut(m, "=")
	if !ok || value == "" || len(value) > 256 || !validKey(key) {
		return false
	}
	for i := range len(value) {
		if c := value[i]; c < 0x20 || c > 0x7e || c == '=' {
			return false
		}
	}
	return true
}

func validKey(key string) bool {
	tenant, system, multi := strings.Cut(key, "@")
	if !multi {
		return len(key) <= 256 && lower(key) && word(key)
	}
	return len(tenant) <= 241 && len(system) <= 14 && tenant != "" && (lower(tenant) || digit(tenant[0])) && word(tenant) &&
		lower(system) && word(system)
}

func lower(s string) bool { return s != "" && s[0] >= 'a' && s[0] <= 'z' }

func digit(c byte) bool { return c >= '0' && c <= '9' }

func word(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', digit(c), c == '_', c == '-', c == '*', c == '/':
		default:
			return false
		}
	}
	return true
}
