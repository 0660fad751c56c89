package ui

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// saysKey finds "what is wrong: a types one" in a text: a key, and what it does.
var saysKey = regexp.MustCompile(`(?:^|[:;,.(] )([^\s:;,.]|esc|enter|tab) ([a-z]+)s\b`)

// A text that names a key says what that key does, in the words of the key table.
func TestTextsNameKeysThatDoWhatTheySay(t *testing.T) {
	does := map[string]string{}
	for _, k := range Keys() {
		for one := range strings.SplitSeq(k.Keys, " ") {
			does[one] += " " + strings.ToLower(k.Does)
		}
	}
	for i := range table {
		for _, one := range table[i].Keys() {
			does[one] += " " + table[i].Help().Desc
		}
	}
	for n := range 10 {
		does[strconv.Itoa(n)] += does[allDigits]
	}
	// Other words for the same.
	same := map[string]string{"j goe": "down", "j ask": "down", "? list": "all keys", "esc give": "back", "! say": "own log", "! ha": "own log", "i show": "the incident"}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			s, _ := strconv.Unquote(lit.Value)
			for _, m := range saysKey.FindAllStringSubmatch(s, -1) {
				key, verb := m[1], m[2]
				if w := same[key+" "+verb]; w != "" {
					verb = w
				}
				verb = strings.TrimSuffix(verb, "e")
				said++
				if !strings.Contains(does[key], verb) {
					t.Errorf("%s: %q: %s does not %s (%s)", name, s, key, verb, does[key])
				}
			}
			return true
		})
	}
	if said < 10 {
		t.Errorf("only %d keys are named", said)
	}
}

// Why a key is off names keys of the screen that it is off on.
func TestRefusalsNameKeysOfTheirScreen(t *testing.T) {
	said := 0
	for _, s := range situations {
		inSituation(t, s.name, 100, 30, func(t *testing.T, m *model) {
			for on := range screens {
				if m.screen = on; on == runbook && m.runbook.open == nil && !m.listing() {
					continue
				}
				for i := range table {
					b := &table[i]
					if b.off == nil || !b.on.has(on) {
						continue
					}
					for _, named := range saysKey.FindAllStringSubmatch(b.off(m), -1) {
						said++
						if m.binding(press(named[1])) == nil {
							t.Errorf("%s, %s: %q names a key that is none here", on, b.Help().Key, b.off(m))
						}
					}
				}
			}
		})
	}
	if said == 0 {
		t.Error("no refusal names a key")
	}
}
