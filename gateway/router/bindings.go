package router

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Bindings remembers which upstream made a response or holds a file, so that
// a request naming it goes there. Safe for concurrent use.
type Bindings struct {
	cache *lru.Cache[string, binding]
}

type binding struct {
	upstream string
	since    time.Time
}

const (
	bindingsKept = 100_000
	bindingsFor  = 24 * time.Hour
)

// NewBindings returns an empty memory of 100,000 ids, each kept for 24 h.
func NewBindings() *Bindings {
	cache, err := lru.New[string, binding](bindingsKept)
	if err != nil {
		panic(err) // only a size below 1 is an error
	}
	return &Bindings{cache: cache}
}

// Put remembers that id belongs to upstream.
func (b *Bindings) Put(id, upstream string) {
	if id != "" {
		b.cache.Add(id, binding{upstream: upstream, since: time.Now()})
	}
}

// Find returns the upstream of the first id that is known.
func (b *Bindings) Find(ids []string) (string, bool) {
	for _, id := range ids {
		if e, ok := b.cache.Get(id); ok && time.Since(e.since) < bindingsFor {
			return e.upstream, true
		}
	}
	return "", false
}
