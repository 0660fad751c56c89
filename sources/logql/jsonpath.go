package logql

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pathToken is a word of an expression of json.
type pathToken struct {
	kind  string // as errors call it; "$end" at the end
	text  string
	index int
}

// pathTokens cuts an expression into words; white space between them does not
// matter. What cannot be a word ends the list, and is the error.
func pathTokens(s string) (out []pathToken, err error) {
	for {
		s = strings.TrimLeft(s, " \t\n\r")
		if s == "" {
			break
		}
		n := 1
		switch c := s[0]; {
		case c == '.':
			out = append(out, pathToken{kind: "DOT"})
		case c == '[':
			out = append(out, pathToken{kind: "LSB"})
		case c == ']':
			out = append(out, pathToken{kind: "RSB"})
		case isNameStart(c):
			for n < len(s) && isNameByte(s[n]) {
				n++
			}
			out = append(out, pathToken{kind: "FIELD", text: s[:n]})
		case c == '"':
			for n < len(s) && s[n] != '"' && s[n] != ']' && s[n] != 0 {
				n++
			}
			out = append(out, pathToken{kind: "STRING", text: s[1:n]})
			n = min(n+1, len(s))
		case isDigit(c):
			for n < len(s) && isDigit(s[n]) {
				n++
			}
			index, aerr := strconv.Atoi(s[:n])
			switch {
			case aerr != nil:
				err = aerr
			case n < len(s) && s[n] == '.':
				err = errors.New("cannot use float as array index")
			case n == len(s):
				err = errors.New("non-integer value: the index does not end")
			case s[n] != ']' && s[n] != ' ':
				r, _ := utf8.DecodeRuneInString(s[n:])
				err = fmt.Errorf("non-integer value: %c", r)
			default:
				out = append(out, pathToken{kind: "INDEX", index: index})
			}
		default:
			r, _ := utf8.DecodeRuneInString(s)
			err = fmt.Errorf("unexpected char %c", r)
		}
		if err != nil {
			break
		}
		s = s[n:]
	}
	return append(out, pathToken{kind: "$end"}), err
}

// parseJSONPath reads an expression: a.b[0]["c d"]. A text in brackets ends with
// a quote or a bracket, so that neither can be part of a name.
func parseJSONPath(s string) ([]jsonStep, error) {
	tokens, lexed := pathTokens(s)
	unexpected := func(expecting string) error {
		msg := "syntax error: unexpected " + tokens[0].kind
		if expecting != "" {
			msg += ", expecting " + expecting
		}
		return errors.New(msg)
	}
	var steps []jsonStep
	for {
		switch tokens[0].kind {
		case "LSB":
			tokens = tokens[1:]
			switch t := tokens[0]; t.kind {
			case "STRING":
				steps = append(steps, jsonStep{name: t.text, index: -1})
			case "INDEX":
				steps = append(steps, jsonStep{index: t.index})
			default:
				return nil, unexpected("STRING or INDEX")
			}
			if tokens = tokens[1:]; tokens[0].kind != "RSB" {
				return nil, unexpected("RSB")
			}
		case "FIELD":
			if len(steps) > 0 {
				return nil, unexpected("")
			}
			steps = append(steps, jsonStep{name: tokens[0].text, index: -1})
		case "DOT":
			if len(steps) == 0 {
				return nil, unexpected("LSB or FIELD")
			}
			if tokens = tokens[1:]; tokens[0].kind != "FIELD" {
				return nil, unexpected("FIELD")
			}
			steps = append(steps, jsonStep{name: tokens[0].text, index: -1})
		case "$end":
			if len(steps) == 0 {
				return nil, unexpected("LSB or FIELD")
			}
			return steps, lexed
		default:
			if len(steps) == 0 {
				return nil, unexpected("LSB or FIELD")
			}
			return nil, unexpected("")
		}
		tokens = tokens[1:]
	}
}
