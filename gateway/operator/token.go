package operator

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Token is a token the operator API accepts, by its hash.
type Token struct {
	Name string
	Role string // api.RoleOperator; anything else is a viewer
	Hash string // as HashToken writes it; a malformed one matches nothing
}

const (
	tokenPrefix = "fbk_" // lets a scanner for leaked secrets find them
	hashPrefix  = "sha256:"
)

// NewToken returns a random token and its hash. The token is to be shown once;
// only the hash belongs into a configuration. Client keys are made the same way.
func NewToken() (token, hash string) {
	var b [32]byte
	rand.Read(b[:]) // never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	return token, HashToken(token)
}

// HashToken returns "sha256:" and the hash in hexadecimal. A plain hash is
// enough because the tokens are random, not chosen.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// ParseHash reads what HashToken writes.
func ParseHash(s string) (sum [sha256.Size]byte, ok bool) {
	h, ok := strings.CutPrefix(s, hashPrefix)
	if !ok || len(h) != 2*len(sum) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(h))
	return sum, err == nil
}

// match finds the token that was presented. The time it takes depends on how
// many tokens there are, not on which one matches or how much of it.
func match(tokens []Token, presented string) (t Token, ok bool) {
	sum := sha256.Sum256([]byte(presented))
	for _, c := range tokens {
		want, valid := ParseHash(c.Hash)
		if subtle.ConstantTimeCompare(sum[:], want[:]) == 1 && valid && !ok {
			t, ok = c, true
		}
	}
	if presented == "" {
		return Token{}, false
	}
	return t, ok
}
