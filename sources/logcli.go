package sources

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Logcli is q as a command for a shell, with Loki's own client. Credentials are
// for logcli to find in its environment.
func (q LogQuery) Logcli() string {
	q = q.filled(time.Now()).capped()
	words := []string{"logcli"}
	if q.Addr != "" {
		words = append(words, "--addr="+q.Addr)
	}
	if q.Instant {
		words = append(words, "instant-query", "--now="+stamp(q.End))
	} else {
		words = append(words, "query", "--timezone=UTC", "--from="+stamp(q.Start), "--to="+stamp(q.End))
		if q.Forward {
			words = append(words, "--forward")
		}
		if q.Step > 0 {
			words = append(words, "--step="+q.Step.String())
		}
	}
	words = append(words, "--limit="+strconv.Itoa(q.Limit))
	if strings.HasPrefix(q.Query, "-") {
		words = append(words, "--")
	}
	words = append(words, q.Query)
	for i, w := range words {
		words[i] = shellWord(w)
	}
	return strings.Join(words, " ")
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// shellWord quotes s as one word of a POSIX shell. What would act on the
// terminal it is pasted into is escaped, which needs bash, zsh or ksh.
func shellWord(s string) string {
	plain := s != ""
	hidden := false
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		if r == utf8.RuneError && size == 1 || r != ' ' && !unicode.IsPrint(r) {
			hidden = true
		}
		if !strings.ContainsRune("%+,-./:=@_", r) && (r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r)) {
			plain = false
		}
	}
	switch {
	case plain:
		return s
	case !hidden:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && size == 1, !unicode.IsPrint(r):
			for _, c := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		default:
			b.WriteRune(r)
		}
		i += size
	}
	b.WriteByte('\'')
	return b.String()
}
