package sources

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"failback/gateway/operator/api"
)

// Embedded is the gateway as a way to its own stores; an *api.Client is one.
type Embedded interface {
	// Transport reaches the gateway, and nobody else.
	Transport() http.RoundTripper
	// BaseURL is what the paths of the operator API are appended to.
	BaseURL() string
}

// Connect returns clients of the Prometheus and the Loki that a gateway names:
// configured ones, or its own behind gw. LOKI_ADDR names another Loki. It asks
// nothing yet.
//
// Credentials of the environment, LOKI_USERNAME and the rest of what logcli
// knows, and the same with PROMETHEUS, are shown only to a server that LOKI_ADDR
// or the configuration names, never to the gateway; and the gateway's token
// never to one of those.
//
// Both clients are there even with an error: what is set wrongly answers every
// question with its part of it.
func Connect(gw Embedded, s api.Sources, env Env) (Metrics, Logs, error) {
	prom, perr := newRemote("Prometheus", gw, s.Prometheus, "", env)
	lokiAddr, _ := env("LOKI_ADDR")
	loki, lerr := newRemote("Loki", gw, s.Loki, lokiAddr, env)
	l, serr := newLogs(loki, s.Loki, env)
	return newMetrics(prom, s.Prometheus), l, errors.Join(perr, lerr, serr)
}

// newRemote returns the server at addr, else at the configured URL, else the
// gateway's own. It is never nil.
func newRemote(source string, gw Embedded, s api.Source, addr string, env Env) (*remote, error) {
	r := &remote{source: source}
	named := "its configured URL"
	if addr != "" {
		named = strings.ToUpper(source) + "_ADDR"
	} else {
		addr = s.URL
	}
	if addr == "" && gw == nil {
		return r, r.setup(errors.New("there is no gateway whose own could be asked"))
	}
	if addr == "" {
		base := gw.BaseURL()
		if source == "Prometheus" {
			base += api.PrometheusPath
		}
		u, err := url.Parse(base)
		if err != nil {
			return r, r.setup(errors.New("the gateway's own address is not understood"))
		}
		r.base, r.own = u, true
		r.Told(s)
		r.transport = func() (http.RoundTripper, error) { return gw.Transport(), nil }
		return r, nil
	}
	u, err := url.Parse(addr)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return r, r.setup(fmt.Errorf("%s: want http://HOST:PORT or https://HOST:PORT", named)) // it may hold a password
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return r, r.setup(fmt.Errorf("%s: no query or fragment belongs into it", named))
	}
	user := u.User
	u.User = nil
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	r.base = u
	if r.access, err = readAccess(strings.ToUpper(source), env, user); err != nil {
		return r, r.setup(err)
	}
	if addr == s.URL && r.access.orgID == "" {
		if !headerValue(s.Tenant) {
			return r, r.setup(errors.New("its configured tenant holds characters that no header may have"))
		}
		r.access.orgID = s.Tenant
	}
	r.transport = r.access.lazyTransport()
	return r, nil
}

// setup makes r answer every question with err.
func (r *remote) setup(err error) error {
	r.off = r.fail(RemoteSetup, err, oneLine(err.Error()))
	return fmt.Errorf("%s: %w", strings.ToLower(r.source), err)
}

// period is how often a sample of s is expected.
func period(s api.Source) time.Duration {
	if s.EverySeconds <= 0 {
		return 15 * time.Second
	}
	return time.Duration(s.EverySeconds * float64(time.Second))
}
