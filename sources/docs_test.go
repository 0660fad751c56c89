package sources

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"failback/sources/promql"
)

// docs/sources.md names every canned query and every variable there is, and no
// other.
func TestReference(t *testing.T) {
	b, err := os.ReadFile("../docs/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	_, table, ok := strings.Cut(doc, "## Canned queries")
	if !ok {
		t.Fatal("no section of canned queries")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	var want strings.Builder
	all := CannedQueries(nil, "")
	for _, c := range all {
		fmt.Fprintf(&want, "| `%s` | %s |\n", c.Name, c.Title)
	}
	if !strings.Contains(table, want.String()) || strings.Count(table, "\n| `") != len(all) {
		t.Errorf("the canned queries are:\n%s", want.String())
	}
	for _, text := range []string{"\n" + promql.New("", MinWindow).Ratio() + "\n", fmt.Sprintf("over %.0f minutes", MinWindow.Minutes()), fmt.Sprintf("over %d,%03d bytes", longestGet/1000, longestGet%1000)} {
		if !strings.Contains(doc, text) {
			t.Errorf("docs/sources.md lacks %q", text)
		}
	}
	asked := map[string]bool{}
	env := func(name string) (string, bool) {
		asked[name] = true
		return "", false
	}
	if _, err := readAccess("LOKI", env, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := readPatience(env); err != nil {
		t.Fatal(err)
	}
	asked["LOKI_ADDR"] = true
	for name := range asked {
		if !strings.Contains(doc, "`"+name+"`") {
			t.Errorf("docs/sources.md lacks %s", name)
		}
	}
	for _, f := range strings.Fields(strings.NewReplacer("`", " ", ",", " ", "|", " ").Replace(doc)) {
		if strings.HasPrefix(f, "LOKI_") && !asked[f] {
			t.Errorf("docs/sources.md has %s, which nobody reads", f)
		}
	}
}
