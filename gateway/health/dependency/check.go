package dependency

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"failback/gateway/internal/outbound"
)

// Kind is how a dependency is checked.
type Kind string

// The kinds of a Check.
const (
	DNS  Kind = "dns"  // Target is a host name that must resolve
	TCP  Kind = "tcp"  // Target is a host:port that must accept a connection
	TLS  Kind = "tls"  // Target is a host:port whose certificate must be trusted and last
	HTTP Kind = "http" // Target is a URL that must answer a GET with a status below 500
	File Kind = "file" // Target is a path that must be there and not be older than MaxAge
)

// Check is one thing that is checked over and again.
type Check struct {
	Name   string // unique in a runner
	Domain string // the fault domain it is: dns/corp
	Kind   Kind
	Target string
	MaxAge time.Duration // of a File; 0: any age
	Every  time.Duration // between checks; 0: 30 s
}

// Bounds of a check.
const (
	defaultEvery = 30 * time.Second
	// maxTimeout is how long one check may take, or Every if that is less.
	maxTimeout = 5 * time.Second
	// maxRetry is how soon a check that failed is repeated at the latest: one
	// that is made once a day is not believed for a day when it fails.
	maxRetry = 5 * time.Minute
)

func (c Check) every() time.Duration {
	if c.Every <= 0 {
		return defaultEvery
	}
	return c.Every
}

func (c Check) timeout() time.Duration { return min(maxTimeout, c.every()) }

// pause is the time between the beginnings of two checks.
func (c Check) pause(last State) time.Duration {
	if last == Failed {
		return min(c.every(), maxRetry)
	}
	return c.every()
}

// finding is what one check found.
type finding struct {
	err      error     // why it failed, in words that may be shown; nil: it did not
	note     string    // what there is to say of a success
	notAfter time.Time // of the certificate that was shown, if any
}

// checker makes checks.
type checker struct {
	o      Options
	client *http.Client
}

func newChecker(o Options) *checker {
	return &checker{o: o, client: outbound.NewClient(outbound.Options{Dial: o.Dial, Roots: o.Roots})}
}

// check makes one check, within its own limit of time.
func (k *checker) check(ctx context.Context, c Check, files *stats) finding {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	switch c.Kind {
	case DNS:
		return k.resolve(ctx, c.Target)
	case TCP:
		return k.connect(ctx, c.Target)
	case TLS:
		return k.handshake(ctx, c.Target)
	case HTTP:
		return k.get(ctx, c.Target)
	case File:
		return files.check(ctx, c.Target, c.MaxAge, time.Now())
	}
	return finding{err: fmt.Errorf("there is no way to check a %q", string(c.Kind))}
}

func (k *checker) resolve(ctx context.Context, host string) finding {
	addresses, err := k.o.Resolver.LookupHost(ctx, host)
	switch {
	case err != nil:
		return failed(err)
	case len(addresses) == 0:
		return finding{err: errors.New("the name has no address")}
	case len(addresses) == 1:
		return finding{note: "1 address"}
	}
	return finding{note: fmt.Sprintf("%d addresses", len(addresses))}
}

func (k *checker) connect(ctx context.Context, address string) finding {
	c, err := k.dial(ctx, address)
	if err != nil {
		return failed(err)
	}
	_ = c.Close() // nothing was written
	return finding{note: "it accepts connections"}
}

func (k *checker) dial(ctx context.Context, address string) (net.Conn, error) {
	if k.o.Dial != nil {
		return k.o.Dial(ctx, "tcp", address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// handshake looks at the certificate that is shown at address, also at one that
// is not accepted: its end is worth knowing then too.
func (k *checker) handshake(ctx context.Context, address string) finding {
	raw, err := k.dial(ctx, address)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = raw.Close() }() // the handshake was all
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	c := tls.Client(raw, &tls.Config{ServerName: host, RootCAs: k.o.Roots, MinVersion: tls.VersionTLS12})
	if err := c.HandshakeContext(ctx); err != nil {
		f := failed(err)
		if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && len(e.UnverifiedCertificates) > 0 {
			f.notAfter = e.UnverifiedCertificates[0].NotAfter
		}
		return f
	}
	notAfter := c.ConnectionState().PeerCertificates[0].NotAfter
	f := finding{note: "its certificate ends on " + day(notAfter), notAfter: notAfter}
	if left := time.Until(notAfter); left <= k.o.margin() {
		f.err = fmt.Errorf("its certificate ends on %s, in %s", day(notAfter), length(max(0, left)))
	}
	return f
}

func (k *checker) get(ctx context.Context, target string) finding {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return finding{err: errors.New("it is not a URL")}
	}
	status, err := outbound.Call(k.client, q)
	if err != nil {
		return finding{err: err}
	}
	said := fmt.Sprintf("it answers %d", status)
	if status >= http.StatusInternalServerError {
		return finding{err: errors.New(said)}
	}
	return finding{note: said}
}

// failed is a failure in words that may be shown.
func failed(err error) finding {
	if err == io.EOF {
		return finding{err: errors.New("the connection ends before a certificate is shown")}
	}
	return finding{err: errors.New(outbound.Cause(err))}
}

// CertificateOf is the check of the certificate that an upstream shows at its
// base URL: once a day, and every few minutes while it cannot be read. It
// reports false for an upstream that is spoken to without TLS.
func CertificateOf(upstream string, base *url.URL) (Check, bool) {
	if base == nil || base.Scheme != "https" || base.Hostname() == "" {
		return Check{}, false
	}
	port := base.Port()
	if port == "" {
		port = "443"
	}
	return Check{Name: upstream, Kind: TLS, Target: net.JoinHostPort(base.Hostname(), port), Every: 24 * time.Hour}, true
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
