package gateway

import (
	"crypto/tls"
	"fmt"
	"log"
	"strings"
	"sync/atomic"
)

// certificates is a certificate in two files that may be replaced while the
// gateway runs.
type certificates struct {
	cert, key string
	current   atomic.Pointer[tls.Certificate]
}

func newCertificates(cert, key string) (*certificates, error) {
	c := &certificates{cert: cert, key: key}
	return c, c.reload()
}

// reload reads the files again; on an error the old certificate stays.
func (c *certificates) reload() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("cannot use certificate %s with key %s: %w", c.cert, c.key, err)
	}
	c.current.Store(&pair)
	return nil
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
