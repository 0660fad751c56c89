package incident

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"failback/gateway/operator/api"
)

// told is the report of an incident in which everything that comes from outside is s.
func told(s string) string {
	e := api.IncidentEntry{At: day, Kind: api.EntryNote, By: s, Text: s, Instance: s}
	command := e
	command.Event = &api.Event{Event: "operator_command"}
	return Report(api.Incident{
		IncidentHead: api.IncidentHead{
			ID: s, Title: s, State: api.IncidentClosed, Cause: s, Upstreams: []string{s, s}, OpenedAt: day, OpenedBy: s, ClosedAt: day, ClosedBy: s,
		},
		At: day, Timeline: []api.IncidentEntry{e, command},
		Closing: []api.ClosingQuestion{
			{ID: s, Text: s, Fact: s},
			{ID: s, Text: s, Answer: s, By: s, At: day},
		},
		Layers:   []api.Layer{{Name: s, Nothing: s}},
		Requests: api.IncidentRequests{Kept: []string{s, s}, Counted: s},
	})
}

var (
	renderer = goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote, extension.DefinitionList, extension.Typographer))
	span     = regexp.MustCompile("`[^`]*`") // where nobody is mentioned
	tag      = regexp.MustCompile(`<[^>]*>`)
)

// tags are those that a reader of Markdown makes of a report, in their order.
func tags(t testing.TB, report string) []string {
	t.Helper()
	var html bytes.Buffer
	if err := renderer.Convert([]byte(report), &html); err != nil {
		t.Fatal(err)
	}
	return tag.FindAllString(html.String(), -1)
}

var hostile = []string{
	"a | b", `a \| b`, `a \\| b`, `\`, "a\n\n# b", "a\r\n- b", "a\u2028# b", "---", "===", "| --- | --- |", "> q", "1. a", "1) a", "12345. a", "+ a", "- a", "* a",
	"- [ ] a", "[x](http://y)", "![x](http://y)", "[x]: http://y", "[x][y]", "<http://y>", "<b>a</b>", "<script>a</script>", "<!-- a", "<?a", "&lt;b&gt;", "&#64;",
	"http://y.z", "HTTPS://y.z", "ftp://y.z", "www.y.z", "WWW.y.z", "a@y.z", "mailto:a@y.z", "@all", "`a", "``a``", "```\na", "~~~", "~~a~~", "*a*", "__a__", "$a$",
	"    a", "\ta", "[^1]: a", "[^1]", ": a", "a  \nb", "\x00\x1b[2J\u202e\u200b", "\xff", "", " ", "/close", "`", "a`b|c", "x://y", "xmpp:a@y.z", "a\\", "#", "# a #",
}

// Whatever people, clients and other systems wrote, a report has the lines, tables
// and headings of its own and no more.
func TestReportHasNoMarkupOfOthers(t *testing.T) {
	want := tags(t, told("x"))
	if !slices.Contains(want, "<table>") || !slices.Contains(want, "<code>") || !slices.Contains(want, "<ul>") {
		t.Fatalf("%q", want)
	}
	for _, s := range hostile {
		if got := tags(t, told(s)); !slices.Equal(got, want) && strings.TrimSpace(s) != "" {
			t.Errorf("%q: %q, want %q in\n%s", s, got, want, told(s))
		}
		got := told(s)
		if text := span.ReplaceAllString(got, ""); strings.ContainsAny(got, "\x00\x1b\u202e\u2028\r") || strings.Contains(text, "@all") || strings.Contains(text, "@y") {
			t.Errorf("%q is in\n%s", s, got)
		}
	}
}

func FuzzReport(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	want := tags(f, told("x"))
	f.Fuzz(func(t *testing.T, s string) {
		if strings.TrimSpace(s) == "" || len(s) > 2000 {
			return
		}
		if got := tags(t, told(s)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q in\n%s", s, got, want, told(s))
		}
	})
}
