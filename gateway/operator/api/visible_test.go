package api

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzVisibleJSON(f *testing.F) {
	for _, s := range []string{"", "plain", "é 世界 🙂", "\x7f\u009b31m\u202e\u2066\u200b\u2028\ufeff\U000e0041\U0010ffff\ufffd", "\x1b[2J\r\n", "\xff\x9b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		b, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		before := string(b)
		out := VisibleJSON(b)
		if string(b) != before {
			t.Fatalf("the input was changed: %q", b)
		}
		for _, r := range string(out) {
			if r < ' ' || Hidden(r) {
				t.Fatalf("%U is in %q", r, out)
			}
		}
		var got map[string]string
		if err := json.Unmarshal(out, &got); err != nil || got[s] != s {
			t.Fatalf("%q reads as %q: %v", out, got, err)
		}
	})
}
