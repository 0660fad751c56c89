package ui

import (
	"os"
	"strings"
	"testing"
	"time"

	"failback/internal/bubble"
)

// docs/console.md lists the keys of the key table, no more and no less.
func TestKeysAreDocumented(t *testing.T) {
	const path, end = "../docs/console.md", "<!-- end of keys -->"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), "-update -->\n")
	listed, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatalf("%s has no place for keys", path)
	}
	if want := keysMarkdown(Keys()); listed != want {
		if *update {
			if err := os.WriteFile(path, []byte(before+"-update -->\n"+want+end+after), 0o666); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("%s differs (write it anew with -update):\n%s", path, diff(listed, want))
	}
	for _, state := range []string{"`0.4%`", "`??`", "`none`", "`idle`", "`...`", "`(100%)`"} {
		if !strings.Contains(before, state) {
			t.Errorf("%s does not say what %s is", path, state)
		}
	}
}

// keysMarkdown is a table of keys for each set of screens they work on.
func keysMarkdown(ks []Key) string {
	var b strings.Builder
	for i, k := range ks {
		if i == 0 || k.Screens != ks[i-1].Screens {
			head := strings.ToUpper(k.Screens[:1]) + k.Screens[1:]
			b.WriteString("\n### " + head + "\n\n| key | does |\n|---|---|\n")
		}
		b.WriteString("| `" + strings.ReplaceAll(k.Keys, " ", "` `") + "` | " + strings.ReplaceAll(k.Does, "|", `\|`) + " |\n")
	}
	return b.String() + "\n"
}

// What the documentation says of the keys of what is open over a screen is so.
func TestKeysOverAScreen(t *testing.T) {
	has := map[string]bool{}
	for _, k := range Keys() {
		for one := range strings.SplitSeq(k.Keys, " ") {
			has[k.Screens+" "+one] = true
		}
	}
	try := func(situation, over, key string, before []string, did func(m *model) bool) {
		t.Helper()
		inSituation(t, situation, 100, 30, func(t *testing.T, m *model) {
			keys(m, before...)
			bubble.Sleep(time.Second)
			if m.form != nil {
				m.form.field.SetValue("typed")
			}
			if did(m) {
				t.Fatalf("%s: done before %s was pressed", over, key)
			}
			keys(m, key)
			if !did(m) || !has[over+" "+key] {
				t.Errorf("%s: %s does not do it, or is not listed", over, key)
			}
		})
	}
	const form, typing, leaving = "form of an incident", "filter, query and range while they are typed", "leaving, where this console started the gateway"
	closed := func(m *model) bool { return m.form == nil }
	try("incident-open", form, "esc", []string{"n"}, closed)
	try("incident-open", form, "enter", []string{"n"}, func(m *model) bool { return m.form.pending })
	try("incident-answer", form, "down", nil, func(m *model) bool { return m.form.at == 1 })
	try("incident-closed", form, "y", []string{"R"}, func(m *model) bool { return m.form.pending })
	try("calm", typing, "enter", []string{"/", "v"}, func(m *model) bool { return !m.typing && m.lists[overview].filter == "v" })
	try("calm", typing, "esc", []string{"/", "v"}, func(m *model) bool { return !m.typing && m.lists[overview].filter == "" })
	try("leaving", leaving, "esc", nil, func(m *model) bool { return m.leaving == nil })
	try("leaving-armed", leaving, "s", nil, func(m *model) bool { return m.leaving.stopping })
	try("leaving-stop", leaving, "y", nil, func(m *model) bool { return m.leaving.pending })
	try("calm", "dialog", "n", []string{"W", "<"}, func(m *model) bool { return m.dialog == nil })
}
