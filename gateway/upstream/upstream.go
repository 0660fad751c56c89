package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"failback/gateway/decision"
	"failback/gateway/wire"
)

// Settings is what an upstream is configured to be. They are not changed after
// they were given to New or Update.
type Settings struct {
	Name    string
	Region  string
	Dialect decision.Dialect
	// BaseURL is what an endpoint's path is appended to. Its query is kept,
	// userinfo and fragment are not.
	BaseURL *url.URL
	// Auth says how a key is sent: bearer, x-api-key or api-key. Empty: as the
	// dialect has it.
	Auth string
	// Keys are the credentials, tried in turn; the first 64 are used. None: no
	// credential is sent.
	Keys []string
	// Billing names the account that is billed, if several upstreams share it:
	// without credit they cool together. Empty: each key value is an account.
	Billing string

	// Concurrency, RPS and TPM are held by Limit; 0 is no limit.
	Concurrency int
	RPS         float64
	TPM         int // tokens a minute

	Idle time.Duration // longest silence of a stream after output; 0: none
	Max  time.Duration // longest stream after output; 0: no limit

	// DialContext opens connections; nil is a net.Dialer with a limit of 5 s,
	// through the environment's proxy if there is one.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is cloned and raised to TLS 1.2 at least; nil: the system's roots.
	TLS *tls.Config
}

// Upstream makes attempts against one upstream. Create it with New. All
// methods may be called at once from several goroutines.
type Upstream struct {
	name    string
	book    *Book
	current atomic.Pointer[version]
	turn    atomic.Uint32 // attempts so far, to spread them over the keys
	limits  limits
	models  models

	mu sync.Mutex
	// mu is held by Update and Close, one at a time; it guards closed.
	closed bool
}

// version is an upstream as one set of settings has it. It is not changed once
// it is current; attempts go on with the one they began with.
type version struct {
	s     Settings
	urls  [wire.CountTokens + 1]*url.URL // by endpoint
	keys  []Key
	conns *connections
}

// New returns an upstream; book is shared by all upstreams of a gateway. It
// panics without a BaseURL, which the configuration has checked.
func New(s Settings, book *Book) *Upstream {
	u := &Upstream{name: s.Name, book: book}
	u.limits.set(s.Concurrency, s.RPS, s.TPM)
	u.current.Store(u.version(s, newConnections(s)))
	return u
}

// Update replaces the settings but for Name, which stays. Attempts under way
// go on with what they began. A key value that was not there before ends the
// cooling of its account; models are no longer left alone; connections are
// kept if they still lead to the same place.
func (u *Upstream) Update(s Settings) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return
	}
	old := u.current.Load()
	s.Name = u.name
	conns := old.conns
	if !conns.fit(s) {
		conns = newConnections(s)
	} else {
		conns.redial(s.DialContext)
	}
	next := u.version(s, conns)
	u.limits.set(s.Concurrency, s.RPS, s.TPM)
	u.current.Store(next)
	for i := range next.keys {
		if k := &next.keys[i]; k.entries[1] != nil && !old.has(k) {
			u.book.changed(k.entries[1], u.name, s.Region)
		}
	}
	u.forget(old)
	u.ClearModels()
	if conns != old.conns {
		old.conns.close()
	}
}

// Close gives idle connections and keys back. Attempts under way end by
// themselves; their connections are closed with them. No attempt may begin
// afterwards. Calling it again does nothing.
func (u *Upstream) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return
	}
	u.closed = true
	v := u.current.Load()
	u.forget(v)
	v.conns.close()
}

// Name is the upstream's name.
func (u *Upstream) Name() string { return u.name }

// Region is the upstream's region.
func (u *Upstream) Region() string { return u.current.Load().s.Region }

func (u *Upstream) version(s Settings, conns *connections) *version {
	v := &version{s: s, conns: conns}
	base := *s.BaseURL
	base.User, base.Fragment, base.RawFragment = nil, "", ""
	if base.Path == "" {
		base.Path = "/" // JoinPath leaves a path without a root where it is
	}
	for _, e := range wire.Endpoints {
		v.urls[e] = base.JoinPath(e.UpstreamPath())
	}
	for i, value := range s.Keys[:min(len(s.Keys), maxKeys)] {
		k := Key{version: v, index: i}
		k.header, k.value = credential(s, value)
		k.entries[0] = u.book.register(entryID{decision.Credential, value}, u.name)
		account := entryID{decision.QuotaExhausted, "billing " + s.Billing}
		if s.Billing == "" {
			account.value = "key " + value
		}
		k.entries[1] = u.book.register(account, u.name)
		v.keys = append(v.keys, k)
	}
	if len(v.keys) == 0 {
		v.keys = []Key{{version: v}}
	}
	return v
}

// credential returns the header that carries a key.
func credential(s Settings, key string) (name string, value []string) {
	auth := s.Auth
	if auth == "" {
		auth = "bearer"
		if s.Dialect == decision.Anthropic {
			auth = "x-api-key"
		}
	}
	if strings.EqualFold(auth, "bearer") {
		return "Authorization", []string{"Bearer " + key}
	}
	return http.CanonicalHeaderKey(auth), []string{key}
}

// has reports whether v has a key of k's value.
func (v *version) has(k *Key) bool {
	for i := range v.keys {
		if v.keys[i].entries[0] == k.entries[0] {
			return true
		}
	}
	return false
}

func (u *Upstream) forget(v *version) {
	for _, k := range v.keys {
		for _, e := range k.entries {
			if e != nil {
				u.book.unregister(e, u.name)
			}
		}
	}
}
