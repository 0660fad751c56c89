package config

import "testing"

func TestNearest(t *testing.T) {
	for _, tt := range []struct {
		word  string
		want  string
		close bool
	}{
		{"lisen", "listen", true},
		{"Listen", "listen", true},
		{"base-url", "base_url", true},
		{"baseurl", "base_url", true},
		{"lsiten", "listen", true},
		{"zzzzzz", "listen", false},
		{"", "listen", false},
	} {
		got, close := nearest(tt.word, []string{"listen", "base_url", "drain_delay"})
		if tt.close != close || tt.close && got != tt.want {
			t.Errorf("nearest(%q) = %q, %v", tt.word, got, close)
		}
	}
}

// Every key is near to itself with one letter missing, changed or doubled, and
// no other key is nearer.
func TestSlipsAreUnderstood(t *testing.T) {
	for _, key := range root().keys() {
		for i := range key {
			for _, slip := range []string{key[:i] + key[i+1:], key[:i] + "q" + key[i+1:], key[:i] + key[i:i+1] + key[i:]} {
				got, close := nearest(slip, root().keys())
				if !close || distance(normal(slip), normal(got)) > 1 {
					t.Errorf("nearest(%q) = %q, %v, want %q", slip, got, close, key)
				}
			}
		}
	}
}
