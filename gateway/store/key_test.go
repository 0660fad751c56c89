package store

import (
	"regexp"
	"testing"
)

var natsKey = regexp.MustCompile(`^[-/_=a-zA-Z0-9]+$`)

func FuzzKey(f *testing.F) {
	for _, key := range []string{"", "a", "A.b*c>d e", "=41", "\x00\xff", "日本", "anthropic-us-east-1:stream"} {
		f.Add(key, key)
	}
	f.Fuzz(func(t *testing.T, key, other string) {
		token, err := encodeKey(key)
		if (err == nil) != (key != "" && len(key) <= maxKey) {
			t.Fatalf("key %q: %v", key, err)
		}
		if err == nil {
			if !natsKey.MatchString(token) {
				t.Fatalf("key %q has the token %q", key, token)
			}
			if back, ok := decodeKey(token); !ok || back != key {
				t.Fatalf("key %q came back as %q, %v", key, back, ok)
			}
		}
		// Whatever decodes is what encodes to it: a key has one token.
		if back, ok := decodeKey(other); ok {
			if again, err := encodeKey(back); err != nil || again != other {
				t.Fatalf("token %q is key %q, which is token %q (%v)", other, back, again, err)
			}
		}
	})
}
