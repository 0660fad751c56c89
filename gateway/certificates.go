package gateway

import (
	"crypto/tls"
	"fmt"
	"log"
	"strings"
	"sync/atomic"

	"failback/gateway/config"
)

// certificates is the certificate of a listener, which may be replaced while
// the gateway runs.
type certificates struct {
	current atomic.Pointer[tls.Certificate]
}

func newCertificates(t *config.TLS) (*certificates, error) {
	pair, err := readPair(t)
	if err != nil {
		return nil, err
	}
	c := &certificates{}
	c.current.Store(pair)
	return c, nil
}

func readPair(t *config.TLS) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("cannot use certificate %s with key %s: %w", t.Cert, t.Key, err)
	}
	return &pair, nil
}

// readCertificates reads the certificates that cfg names for listeners that
// have one. Nothing is in force until install is called.
func (g *Gateway) readCertificates(cfg *config.Config) (install func(), err error) {
	var clients, operators *tls.Certificate
	if g.certs != nil && cfg.TLS != nil {
		if clients, err = readPair(cfg.TLS); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
	}
	if g.opCerts != nil && cfg.Operator.TLS != nil {
		if operators, err = readPair(cfg.Operator.TLS); err != nil {
			return nil, fmt.Errorf("operator.tls: %w", err)
		}
	}
	return func() {
		if clients != nil {
			g.certs.current.Store(clients)
		}
		if operators != nil {
			g.opCerts.current.Store(operators)
		}
	}, nil
}

func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}

// noise passes on what net/http has to say, without the lines that every
// scanner and every broken connection would cause.
func noise(to func(string)) *log.Logger {
	return log.New(noiseWriter{to}, "", 0)
}

type noiseWriter struct{ to func(string) }

func (w noiseWriter) Write(p []byte) (int, error) {
	s := strings.TrimSpace(string(p))
	if !strings.Contains(s, "TLS handshake error") && !strings.Contains(s, "http: URL query contains semicolon") {
		w.to(s)
	}
	return len(p), nil
}
