package runbooks_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"failback/gateway/breaker"
	"failback/gateway/decision"
	"failback/runbooks"
)

const front = `---
id: a-b
title: a title
contact: owner
reviewed: 2026-11-30
when:
  - breaker: {reason: [consecutive], class: [server_error, reset]}
  - share: below 100
---
`

const body = `
## What it looks like here

Text that goes
on.

- a bullet
  that goes on

## What to check first

1. First, with ` + "`l`" + ` and
   more.

   A second paragraph.
   live: users, breakers
   query: breakers
2. Second.

## What to do

3. Third: ` + "`>` on overview, `y` in the dialog, `two words`, `esc`" + `.

## How to go back

Back.

## When to escalate

- Soon.
`

func load(text string) ([]runbooks.Runbook, error) {
	return runbooks.Load(fstest.MapFS{"a.md": {Data: []byte(text)}})
}

func TestLoad(t *testing.T) {
	rs, err := load(front + body)
	if err != nil {
		t.Fatal(err)
	}
	r := rs[0]
	if r.ID != "a-b" || r.Title != "a title" || r.Contact != "owner" || !r.Reviewed.Equal(time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)) || r.File != "a.md" {
		t.Errorf("front matter: %+v", r)
	}
	if len(r.When) != 2 || r.When[0].Kind != runbooks.OpenBreaker || !slices.Equal(r.When[0].Classes, []string{"server_error", "reset"}) || r.When[1].Kind != runbooks.LoweredShare {
		t.Errorf("conditions: %+v", r.When)
	}
	first := r.Sections[0].Blocks
	if len(first) != 2 || first[0].Kind != runbooks.Prose || first[0].Paragraphs[0] != "Text that goes on." || first[1].Kind != runbooks.Bullet || first[1].Paragraphs[0] != "a bullet that goes on" {
		t.Errorf("first section: %+v", first)
	}
	steps := r.Steps()
	if len(steps) != 3 {
		t.Fatalf("%d steps", len(steps))
	}
	s := steps[0]
	if !slices.Equal(s.Paragraphs, []string{"First, with `l` and more.", "A second paragraph."}) || s.Query != "breakers" || !slices.Equal(s.Live, []string{"users", "breakers"}) || s.Number != 1 {
		t.Errorf("step 1: %+v", s)
	}
	if steps[1].Query != "" || steps[1].Number != 2 || steps[2].Number != 3 {
		t.Errorf("steps 2 and 3: %+v %+v", steps[1], steps[2])
	}
	if !slices.Equal(r.Live(), []string{"users", "breakers"}) {
		t.Errorf("live %v", r.Live())
	}
	at := steps[2].Line
	if want := []runbooks.KeyRef{{"l", "", s.Line}, {">", "overview", at}, {"y", "dialog", at}, {"esc", "", at}}; !slices.Equal(r.Keys(), want) {
		t.Errorf("keys %v, want %v", r.Keys(), want)
	}
	if err := runbooks.CheckQueries(rs, []string{"breakers"}); err != nil {
		t.Error(err)
	}
	if err := runbooks.CheckQueries(rs, []string{"other"}); err == nil || err.Error() != `a.md:26: no canned query is named "breakers"; there are other` {
		t.Errorf("an unknown query: %v", err)
	}
	// Line ends of another system change nothing.
	crlf, err := load(strings.ReplaceAll(front+body, "\n", "\r\n"))
	if err != nil || crlf[0].Steps()[0].Paragraphs[0] != s.Paragraphs[0] {
		t.Errorf("with CRLF: %v", err)
	}
}

// Each mistake is named with its file and line.
func TestMistakes(t *testing.T) {
	whole := front + body
	for _, tc := range []struct{ from, to, want string }{
		{"id: a-b\n", "", "a.md:1: front matter: id is missing"},
		{"id: a-b", "id: A_b", `a.md:2: id "A_b": only a-z, 0-9`},
		{"id: a-b", "id: ", "a.md:2: id is"},
		{"id: a-b", "id: [a]", "a.md:2: id is not a text"},
		{"title: a title", "title: " + strings.Repeat("x", 41), "a.md:3: title has more than 40 characters"},
		{"title: a title", "titel: a title", `a.md:3: front matter: unknown key "titel"`},
		{"title: a title", "id: b", "a.md:3: "},
		{"title: a title", "title: 'a", "a.md:3: front matter: "},
		{"reviewed: 2026-11-30", "reviewed: 30.11.2026", `a.md:5: reviewed "30.11.2026" is not a day`},
		{"reviewed: 2026-11-30", "reviewed: 2026-02-30", `a.md:5: reviewed "2026-02-30" is not a day`},
		{"  - share: below 100", "  - share: below 50", `a.md:8: share can only be "below 100"`},
		{"  - share: below 100", "  - shares: below 100", `a.md:8: condition: unknown key "shares"`},
		{"  - share: below 100", "  - share: below 100\n    ratio: over limit", "a.md:8: a condition has one key"},
		{"  - share: below 100", "  - health: degraded", "a.md:8: health is a list of words"},
		{"  - share: below 100", "  - health: [ill]", `a.md:8: health: "ill" is none; there are suspect`},
		{"  - share: below 100", "  - credential: [quota_exhausted, quota_exhausted]", "a.md:8: credential: quota_exhausted is there twice"},
		{"reason: [consecutive]", "reason: [tired]", `a.md:7: reason: "tired" is none`},
		{"{reason: [consecutive], class: [server_error, reset]}", "{}", "a.md:7: breaker asks for a reason, a class or both"},
		{"{reason: [consecutive], class: [server_error, reset]}", "{kind: [consecutive]}", `a.md:7: breaker: unknown key "kind"`},
		{"  - breaker: {reason: [consecutive], class: [server_error, reset]}\n  - share: below 100\n", "", "a.md:6: when is a list"},
		{"---\nid", "id", "a.md:1: a runbook begins with front matter"},
		{"below 100\n---\n", "below 100\n", "a.md:1: the front matter does not end"},
		{"## What to do", "## What to think", `a.md:29: there is no section "What to think"`},
		{"## How to go back\n\nBack.\n", "", "the sections are What it looks like here, What to check first"},
		{"\nBack.\n", "\n", `a.md:33: section "How to go back" is empty`},
		{"Text that goes", "### Text that goes", "a.md:13: a heading is"},
		{"\n## What it looks", "\ntext\n## What it looks", "a.md:11: text before the first section"},
		{"2. Second.", "4. Second.", "a.md:27: step 4 is the 2. of the file"},
		{"live: users, breakers", "live: users, weather", `a.md:25: live: "weather" is none; there are users`},
		{"live: users, breakers", "live: users, users", "a.md:25: live: users is there twice"},
		{"live: users, breakers", "live:", "a.md:25: live: names nothing"},
		{"live: users, breakers", "query: other", "a.md:26: a step has one query"},
		{"query: breakers", "query: break it", `a.md:26: query: "break it" is not the name of a query`},
		{"   query: breakers", "   query: breakers\n   and text", "a.md:27: query: and live: are the last lines of a step"},
		{"2. Second.", "2. Second.\nand on", "a.md:28: text of a bullet or a step is indented below it"},
		{"Back.", "  Back.", "a.md:35: indented, but below no bullet and no step"},
		{"Back.", "```\nfoo\n```", "a.md:35: code blocks do not wrap"},
		{"Back.", "| a | b |", "a.md:35: tables do not wrap"},
		{"Back.", "> a", "a.md:35: not part of the format"},
		{"Back.", "a <b>bold</b> word", "a.md:35: HTML is not shown"},
		{"Back.", "see [this](http://example.com)", "a.md:35: a terminal follows no link"},
		{"Back.", "a `b", "a.md:35: code that does not end in its line"},
		{"Back.", "- one\n  - two", "a.md:36: a list in a list"},
		{"Back.", "a\tb", "a.md:35: a tab"},
		{"Back.", "a\x1b[2Jb", "a.md:35: U+001B does not show what it is"},
		{"Back.", "a\u202eb", "a.md:35: U+202E does not show what it is"},
		{"Back.", "a\xffb", "a.md:35: not UTF-8"},
	} {
		text := strings.Replace(whole, tc.from, tc.to, 1)
		if text == whole {
			t.Fatalf("%q is not in the text", tc.from)
		}
		_, err := load(text)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q for %q:\ngot  %v\nwant %s", tc.to, tc.from, err, tc.want)
		}
	}
	if _, err := load(whole + strings.Repeat("x", 70_000)); err == nil || !strings.Contains(err.Error(), "more than 65536 bytes") {
		t.Errorf("a huge file: %v", err)
	}
	// All of them are said at once.
	_, err := load(strings.NewReplacer("contact: owner\n", "", "live: users", "live: rain").Replace(whole))
	if err == nil || !strings.Contains(err.Error(), "contact is missing") || !strings.Contains(err.Error(), `"rain" is none`) {
		t.Errorf("two mistakes: %v", err)
	}
	_, err = runbooks.Load(fstest.MapFS{"a.md": {Data: []byte(whole)}, "b.md": {Data: []byte(whole)}, "c.txt": {Data: []byte("no runbook")}})
	if err == nil || err.Error() != `b.md:2: id "a-b" is that of a.md already: ids are unique` {
		t.Errorf("an id twice: %v", err)
	}
}

// The embedded runbooks are whole.
func TestEmbedded(t *testing.T) {
	rs, err := runbooks.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"provider-5xx", "manual-failback"} {
		if !slices.ContainsFunc(rs, func(r runbooks.Runbook) bool { return r.ID == want }) {
			t.Errorf("there is no runbook %s", want)
		}
	}
	for i := range rs {
		if rs[i].ID+".md" != rs[i].File {
			t.Errorf("%s has the id %s", rs[i].File, rs[i].ID)
		}
		if len(rs[i].Live()) == 0 {
			t.Errorf("%s shows no live value", rs[i].File)
		}
	}
}

// The words of conditions are those of the gateway.
func TestWords(t *testing.T) {
	opening := make(map[string]bool)
	for _, tr := range breaker.Transitions {
		if tr.To == breaker.Open && tr.From == breaker.Closed {
			opening[tr.Reason] = true
		}
	}
	for _, w := range runbooks.Reasons {
		if !opening[w] {
			t.Errorf("no breaker opens for %s", w)
		}
		delete(opening, w)
	}
	for w := range opening {
		t.Errorf("a breaker opens for %s, which no condition can name", w)
	}
	for _, c := range decision.Classes {
		w := string(c)
		switch c.Blame() {
		case decision.OfBucket, decision.OfAdmission:
			if !slices.Contains(runbooks.Classes, w) {
				t.Errorf("class %s cannot be named", w)
			}
		case decision.OfCredential:
			if !slices.Contains(runbooks.CredentialClasses, w) {
				t.Errorf("credential class %s cannot be named", w)
			}
		}
	}
	for _, w := range append(slices.Clone(runbooks.Classes), runbooks.CredentialClasses...) {
		if !slices.Contains(decision.Classes, decision.Class(w)) {
			t.Errorf("%s is no class", w)
		}
	}
}
