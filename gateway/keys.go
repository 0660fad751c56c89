package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"failback/gateway/config"
)

// clientKeys knows clients by the hash of their key. The zero value lets
// everybody in.
type clientKeys struct {
	byHash    map[string]*clientKey
	anonymous bool // a client without a key is let in too
}

type clientKey struct {
	name   string
	models map[string]bool // nil: all
}

// mayUse reports whether the key's owner may ask for model. A nil key is an
// anonymous client.
func (k *clientKey) mayUse(model string) bool {
	return k == nil || k.models == nil || k.models[model]
}

func newClientKeys(keys []config.ClientKey, anonymous bool) clientKeys {
	c := clientKeys{byHash: make(map[string]*clientKey, len(keys)), anonymous: anonymous || len(keys) == 0}
	for _, k := range keys {
		key := &clientKey{name: k.Name}
		if len(k.Models) > 0 {
			key.models = make(map[string]bool, len(k.Models))
			for _, m := range k.Models {
				key.models[m] = true
			}
		}
		c.byHash[strings.TrimPrefix(k.Hash, "sha256:")] = key
	}
	return c
}

// find returns whose request it is; false if the request shows no key that is
// known. Looking a hash up in a map leaks nothing of the key.
func (c *clientKeys) find(h http.Header) (*clientKey, bool) {
	shown := presented(h)
	if shown == "" || len(c.byHash) == 0 {
		return nil, c.anonymous
	}
	sum := sha256.Sum256([]byte(shown))
	k, ok := c.byHash[hex.EncodeToString(sum[:])]
	return k, ok
}

// presented returns the key a client shows, the way either dialect's SDK does.
func presented(h http.Header) string {
	if k := h.Get("X-Api-Key"); k != "" {
		return k
	}
	scheme, k, ok := strings.Cut(h.Get("Authorization"), " ")
	if ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(k)
	}
	return ""
}
