package operator

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// Token is a token the operator API accepts, by its hash.
type Token struct {
	Name string
	Role string // viewer or operator
	Hash string // as HashToken writes it
}

// NewToken returns a random token and its hash. The token is to be shown once;
// only the hash belongs into a configuration. Client keys are made the same way.
func NewToken() (token, hash string) {
	var b [32]byte
	rand.Read(b[:])
	token = "fbk_" + base64.RawURLEncoding.EncodeToString(b[:])
	return token, HashToken(token)
}

// HashToken returns "sha256:" and the hash in hexadecimal. A plain hash is
// enough because the tokens are random, not chosen.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}
