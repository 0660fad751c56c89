package runbooks

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	stepForm   = regexp.MustCompile(`^([0-9]{1,3})\. +(\S.*)$`)
	bulletForm = regexp.MustCompile(`^- +(\S.*)$`)
	markForm   = regexp.MustCompile(`^(query|live): *(.*)$`)
	codeForm   = regexp.MustCompile("`[^`]*`")
	htmlForm   = regexp.MustCompile(`<[a-zA-Z/!?]`)
	linkForm   = regexp.MustCompile(`\]\(|\]\[|[a-z]+://`)
)

// body reads the sections; the first of lines is line at of the file.
func (p *parser) body(r *Runbook, lines []string, at int) {
	b := builder{p: p, r: r}
	for i, l := range lines {
		b.line(at+i, l)
	}
	b.endSection()
	have := make([]string, len(r.Sections))
	for i := range r.Sections {
		have[i] = r.Sections[i].Title
	}
	if !slices.Equal(have, Titles) {
		p.fail(at+len(lines)-1, "the sections are %s, in this order; here are %s", list(Titles), list(have))
	}
	if p.steps == 0 {
		p.fail(at, "there is no step: a line that begins with 1.")
	}
}

// builder puts lines together to blocks.
type builder struct {
	p *parser
	r *Runbook

	section *Section
	line0   int    // of the section
	block   *Block // the open one
	para    []string
	marked  bool // the block has had a mark, behind which there is no text
}

func (b *builder) line(n int, l string) {
	text := strings.TrimLeft(l, " ")
	indented := text != l
	switch {
	case text == "":
		b.endParagraph()
	case strings.HasPrefix(l, "## "):
		b.endSection()
		b.section, b.line0 = &Section{Title: strings.TrimSpace(l[3:])}, n
		if !slices.Contains(Titles, b.section.Title) {
			b.p.fail(n, "there is no section %q; there are %s", b.section.Title, list(Titles))
		}
	case strings.HasPrefix(text, "#"):
		b.p.fail(n, `a heading is "## " and a section's title; there are no others`)
	case strings.HasPrefix(text, "```") || strings.HasPrefix(text, "~~~"):
		b.p.fail(n, "code blocks do not wrap: write `code` in the text")
	case strings.HasPrefix(text, "|"):
		b.p.fail(n, "tables do not wrap: write a bullet for each row")
	case strings.HasPrefix(text, ">") || strings.HasPrefix(text, "---") || strings.HasPrefix(text, "===") || strings.HasPrefix(text, "* ") || strings.HasPrefix(text, "+ "):
		b.p.fail(n, "not part of the format: there are paragraphs, - bullets and 1. steps")
	case b.section == nil:
		b.p.fail(n, "text before the first section")
	case !indented && bulletForm.MatchString(l):
		b.begin(n, Bullet)
		b.text(n, bulletForm.FindStringSubmatch(l)[1])
	case !indented && stepForm.MatchString(l):
		f := stepForm.FindStringSubmatch(l)
		b.begin(n, Step)
		b.p.steps++
		b.block.Number = b.p.steps
		if f[1] != strconv.Itoa(b.p.steps) {
			b.p.fail(n, "step %s is the %d. of the file: steps are numbered through", f[1], b.p.steps)
		}
		b.text(n, f[2])
	case indented && (bulletForm.MatchString(text) || stepForm.MatchString(text)):
		b.p.fail(n, "a list in a list: one level is all there is room for")
	case indented && b.block != nil && b.block.Kind == Step && markForm.MatchString(text):
		b.mark(n, markForm.FindStringSubmatch(text))
	case indented && (b.block == nil || b.block.Kind == Prose):
		b.p.fail(n, "indented, but below no bullet and no step")
	case indented:
		b.text(n, text)
	default:
		// A new paragraph ends a bullet or a step; in Markdown a line right
		// below one would still be its text.
		if b.block != nil && b.block.Kind != Prose && len(b.para) > 0 {
			b.p.fail(n, "text of a bullet or a step is indented below it")
		}
		if b.block == nil || b.block.Kind != Prose {
			b.begin(n, Prose)
		}
		b.text(n, l)
	}
}

func (b *builder) begin(n int, k Kind) {
	b.endBlock()
	b.block = &Block{Kind: k, Line: n}
}

func (b *builder) text(n int, s string) {
	if b.marked {
		b.p.fail(n, "query: and live: are the last lines of a step")
	}
	bare := codeForm.ReplaceAllString(s, "")
	switch {
	case strings.Contains(bare, "`"):
		b.p.fail(n, "code that does not end in its line")
	case htmlForm.MatchString(bare):
		b.p.fail(n, "HTML is not shown: write it as `code`")
	case linkForm.MatchString(bare):
		b.p.fail(n, "a terminal follows no link: write an address as `code`")
	}
	b.para = append(b.para, s)
}

func (b *builder) mark(n int, f []string) {
	b.endParagraph()
	b.marked = true
	value := strings.TrimSpace(f[2])
	switch {
	case value == "":
		b.p.fail(n, "%s: names nothing", f[1])
	case f[1] == "query" && b.block.Query != "":
		b.p.fail(n, "a step has one query")
	case f[1] == "query" && !idForm.MatchString(value):
		b.p.fail(n, "query: %q is not the name of a query", value)
	case f[1] == "query":
		b.block.Query, b.block.queryLine = value, n
	case len(b.block.Live) > 0:
		b.p.fail(n, "a step has one list of live values")
	default:
		for v := range strings.SplitSeq(value, ",") {
			v = strings.TrimSpace(v)
			switch {
			case !slices.Contains(LiveNames, v):
				b.p.fail(n, "live: %q is none; there are %s", v, list(LiveNames))
			case slices.Contains(b.block.Live, v):
				b.p.fail(n, "live: %s is there twice", v)
			default:
				b.block.Live = append(b.block.Live, v)
			}
		}
	}
}

func (b *builder) endParagraph() {
	if len(b.para) > 0 {
		b.block.Paragraphs = append(b.block.Paragraphs, strings.Join(b.para, " "))
		b.para = nil
	}
}

func (b *builder) endBlock() {
	b.endParagraph()
	if b.block != nil {
		b.section.Blocks = append(b.section.Blocks, *b.block)
	}
	b.block, b.marked = nil, false
}

func (b *builder) endSection() {
	if b.section == nil {
		return
	}
	b.endBlock()
	if len(b.section.Blocks) == 0 {
		b.p.fail(b.line0, "section %q is empty", b.section.Title)
	}
	b.r.Sections = append(b.r.Sections, *b.section)
	b.section = nil
}
