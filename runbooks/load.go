package runbooks

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is read.
const (
	maxFile  = 64 << 10
	maxTitle = 40
	maxID    = 40
)

// Load reads the runbooks at the root of fsys, the files *.md in the order of
// their names. Its error joins all mistakes, each with file and line; with an
// error there are no runbooks.
func Load(fsys fs.FS) ([]Runbook, error) {
	rs, errs := read(fsys, "")
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return rs, nil
}

// parser reads one file, all of it, whatever mistakes it finds.
type parser struct {
	file   string
	idLine int
	steps  int
	errs   []error
}

func (p *parser) fail(line int, format string, a ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s: %s", position(p.file, line), fmt.Sprintf(format, a...)))
}

func (p *parser) parse(data []byte) Runbook {
	r := Runbook{File: p.file}
	if len(data) > maxFile {
		p.fail(1, "more than %d bytes: a runbook has at most so many", maxFile)
		return r
	}
	lines := strings.Split(string(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))), "\n")
	for i, l := range lines {
		if !p.plain(i+1, l) {
			return r
		}
		lines[i] = strings.TrimRight(l, " ")
	}
	if lines[0] != "---" {
		p.fail(1, `a runbook begins with front matter: a line "---"`)
		return r
	}
	end := slices.Index(lines[1:], "---") + 1
	if end == 0 {
		p.fail(1, `the front matter does not end: a line "---" is missing`)
		return r
	}
	p.front(&r, lines[1:end])
	p.body(&r, lines[end+1:], end+2)
	return r
}

// plain reports whether l is text that shows what it is.
func (p *parser) plain(n int, l string) bool {
	if !utf8.ValidString(l) {
		p.fail(n, "not UTF-8")
		return false
	}
	for _, c := range l {
		switch {
		case c == '\t':
			p.fail(n, "a tab: indent with spaces")
			return false
		case !unicode.IsGraphic(c):
			p.fail(n, "%U does not show what it is: leave it out", c)
			return false
		}
	}
	return true
}

// list writes words for an error.
func list(words []string) string { return strings.Join(words, ", ") }
