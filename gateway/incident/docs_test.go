package incident

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// rows are the first columns of the table under a heading of docs/incidents.md.
func rows(t *testing.T, heading string) (l []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "incidents.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/incidents.md has no %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(text, -1) {
		l = append(l, m[1])
	}
	return l
}

// constants are the string constants of package api that begin with prefix.
func constants(t *testing.T, prefix string) (l []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "operator", "api", "incident.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, prefix) {
			l = append(l, strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
		}
		return true
	})
	return l
}

func TestThePageHasWhatTheCodeHas(t *testing.T) {
	var milestones []string
	for _, m := range Milestones(api.Milestones{}) {
		milestones = append(milestones, m.Name)
	}
	for heading, want := range map[string][]string{
		"When it is opened":       constants(t, "Cause"),
		"Milestones":              milestones,
		"What it did to requests": layers,
		"Closing":                 api.ClosingQuestions,
	} {
		if got := rows(t, heading); !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%s: the page has %v, the code %v", heading, got, want)
		}
	}
	if all := constants(t, "Question"); !slices.Equal(all, api.ClosingQuestions) || len(questions) != len(all) {
		t.Errorf("questions: %v, asked %v", all, api.ClosingQuestions)
	}
	for _, id := range api.ClosingQuestions {
		if questions[id] == "" {
			t.Errorf("%s has no text", id)
		}
	}
}
