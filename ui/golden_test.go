package ui

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the goldens anew")

// TestGolden compares the stripped screen of a situation with a file, one
// folder for each situation, one file for each size.
func TestGolden(t *testing.T) {
	all := []struct{ w, h int }{{100, 30}, {80, 24}, {60, 20}, {40, 12}}
	for _, s := range situations {
		for _, size := range all {
			t.Run(fmt.Sprintf("%s/%dx%d", s.name, size.w, size.h), func(t *testing.T) {
				inSituation(t, s.name, size.w, size.h, func(t *testing.T, m *model) {
					golden(t, fmt.Sprintf("%s/%dx%d.txt", s.name, size.w, size.h), screenOf(m))
				})
			})
		}
	}
	t.Run("ascii", func(t *testing.T) {
		inSituation(t, "dialog-no", 80, 24, func(t *testing.T, m *model) {
			m.th.ascii = true
			m.gl = m.th.glyphs()
			golden(t, "dialog-no/80x24-ascii.txt", screenOf(m))
		})
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	lines := strings.Split(got, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	got = strings.Join(lines, "\n") + "\n"
	path := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (write it anew with -update if that is right):\n%s", path, diff(string(want), got))
	}
}

// diff shows the lines that differ.
func diff(want, got string) string {
	var b strings.Builder
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		var x, y string
		if i < len(w) {
			x = w[i]
		}
		if i < len(g) {
			y = g[i]
		}
		if x != y {
			fmt.Fprintf(&b, "%3d - %s\n    + %s\n", i+1, x, y)
		}
	}
	return b.String()
}
