package text

import (
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

func TestVisible(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "12/20 failed (503 x11)", "12/20 failed (503 x11)"},
		{"brackets stay", "[2026-01-01][ERROR] match[] a[red]b", "[2026-01-01][ERROR] match[] a[red]b"},
		{"backslash stays", `C:\new \x1b`, `C:\new \x1b`},
		{"colour", "\x1b[31mred\x1b[m", `\x1b[31mred\x1b[m`},
		{"clear screen", "\x1b[2J", `\x1b[2J`},
		{"leave alternate screen", "\x1b[?1049l", `\x1b[?1049l`},
		{"clipboard", "\x1b]52;c;cm0gLXJm\x07", `\x1b]52;c;cm0gLXJm\x07`},
		{"title", "\x1b]0;owned\x1b\\", `\x1b]0;owned\x1b\`},
		{"link", "\x1b]8;;http://x\x07y", `\x1b]8;;http://x\x07y`},
		{"dcs", "\x1bP$q\x1b\\", `\x1bP$q\x1b\`},
		{"c1 as a character", "\u009b31m", `\u009b31m`},
		{"c1 as a byte", "\x9b31m", `\x9b31m`},
		{"overwrite", "ok\rFAILED", `ok\rFAILED`},
		{"lines", "a\nb\tc", `a\nb\tc`},
		{"bell, backspace, delete", "\a\b\x7f", `\x07\x08\x7f`},
		{"bidi", "a\u202eb\u2066c\u200fd", `a\u202eb\u2066c\u200fd`},
		{"zero width", "a\u200bb\ufeffc\u00add", `a\u200bb\ufeffc\u00add`},
		{"line separator", "a\u2028b", `a\u2028b`},
		{"tag characters", "a\U000e0041b", `a\U000e0041b`},
		{"not utf-8", "a\xff\xc3(", `a\xff\xc3(`},
		{"a real replacement character", "\ufffd", "\ufffd"},
		{"letters of the world", "größe 模型 modèle עברית", "größe 模型 modèle עברית"},
		{"a mark with nothing to sit on", "\u0301a", `\u0301a`},
		{"stacked marks", "a\u0301\u0301\u0301\u0301\u0301b", "a\u0301\u0301\u0301" + `\u0301\u0301b`},
		{"blank that is a letter", "a\u3164b", `a\u3164b`},
		{"joined picture", "\U0001f469\u200d\U0001f52c", "\U0001f469" + `\u200d` + "\U0001f52c"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Visible(tt.in)
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if again := Visible(got); again != got {
				t.Errorf("not stable: %q then %q", got, again)
			}
		})
	}
}

// FuzzVisible: whatever comes in, nothing that drives a terminal comes out.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a", "\x1b[2J", "\u202e", "\x9b", "é\xff", "\u0301\u0301"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, got := range map[string]string{"Visible": Visible(s), "ASCII": ASCII(s)} {
			for _, r := range got {
				if !unicode.IsGraphic(r) {
					t.Fatalf("%s(%q) has %U", name, s, r)
				}
				if name == "ASCII" && r > 0x7e {
					t.Fatalf("%s(%q) has %U", name, s, r)
				}
			}
			if ansi.Strip(got) != got {
				t.Fatalf("%s(%q) = %q has an escape sequence", name, s, got)
			}
		}
		for _, l := range VisibleLines(s) {
			if strings.ContainsAny(l, "\n\r\t\x1b") {
				t.Fatalf("line %q", l)
			}
		}
	})
}
