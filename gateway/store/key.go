package store

import (
	"errors"
	"fmt"
	"strings"
)

// maxKey is the longest key, in bytes. Encoded it fits a NATS subject.
const maxKey = 1000

const hexDigits = "0123456789ABCDEF"

// plainKeyByte reports whether c stands for itself in an encoded key. A dot
// does not: it would part the subject into tokens.
func plainKeyByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '/'
}

// encodeKey returns key as one token of a NATS subject. Different keys have
// different tokens.
func encodeKey(key string) (string, error) {
	if key == "" {
		return "", errors.New("store: a key must not be empty")
	}
	if len(key) > maxKey {
		return "", fmt.Errorf("store: a key of %d bytes is longer than %d", len(key), maxKey)
	}
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; plainKeyByte(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('=')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String(), nil
}

// decodeKey is the inverse of encodeKey; it reports false for what encodeKey
// never returns.
func decodeKey(token string) (string, bool) {
	b := make([]byte, 0, len(token))
	for i := 0; i < len(token); i++ {
		c := token[i]
		if plainKeyByte(c) {
			b = append(b, c)
			continue
		}
		if c != '=' || i+2 >= len(token) {
			return "", false
		}
		hi, lo := strings.IndexByte(hexDigits, token[i+1]), strings.IndexByte(hexDigits, token[i+2])
		if hi < 0 || lo < 0 || plainKeyByte(byte(hi<<4|lo)) {
			return "", false
		}
		b = append(b, byte(hi<<4|lo))
		i += 2
	}
	return string(b), len(b) > 0 && len(b) <= maxKey
}
