package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"
)

// Options say how calls reach the network. The zero value is the system's way.
type Options struct {
	// Dial opens connections; nil: net.Dialer, and proxies are taken from the
	// environment as http.ProxyFromEnvironment does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Roots are the certificate authorities that are trusted; nil: the system's.
	Roots *x509.CertPool
}

// maxHeader bounds the header of an answer. Bodies are never read.
const maxHeader = 64 << 10

// NewClient returns a client whose calls each take a connection of their own,
// so that every call finds out anew whether the way is open. Callers bound a
// call with its context and close the answer's body unread.
func NewClient(o Options) *http.Client {
	t := &http.Transport{
		DialContext:            o.Dial,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout:    10 * time.Second,
		TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
	}
	if o.Dial == nil {
		t.Proxy = http.ProxyFromEnvironment
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
