package pattern

import (
	"strconv"
	"strings"
	"testing"
)

func TestSize(t *testing.T) {
	ids := make([]string, 200)
	for i := range ids {
		ids[i] = "req_" + strings.Repeat(string(rune('a'+i%26)), 20)
	}
	for _, ok := range []string{``, `.+`, `a|b`, `5..`, `(?i)timeout|refused`, `^req_[0-9a-f]{26}$`, strings.Join(ids, "|"), `(?:x?){300}`} {
		if n, err := Size(ok); err != nil {
			t.Errorf("%.40q: %d, %v", ok, n, err)
		}
	}
	for _, bad := range []string{
		`(?:x?[a-z":,_0-9 .{}]*){900}ZQ`, `(a{30}){30}b*`, `(.*){1000}`, strings.Repeat("[a-z]*", 600),
		many(5_000), `(`, `(abcdefgh){900}`,
	} {
		if n, err := Size(bad); err == nil {
			t.Errorf("%.40q is let through with %d", bad, n)
		}
	}
}

// many is a list of n texts that have little in common.
func many(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = strconv.Itoa(i * 7919 % 99991)
	}
	return strings.Join(words, "|")
}
