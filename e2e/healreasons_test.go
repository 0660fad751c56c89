package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// reading is what an operator reads of why an upstream is not used.
type reading struct {
	health, reason string
	red            string // signals
	classes        string // of attempts of clients
	fault          string
}

// read waits until ready is true of what an operator reads of a, and returns it.
func (w *ward) read(t *testing.T, ready func(reading) bool) reading {
	t.Helper()
	var r reading
	var classes []string // of all that was read: a degraded upstream gets no more
	done := false
	defer func() {
		if !done {
			t.Logf("an operator reads %+v", r)
			w.explain(t, w.upstream(t, "a"))
		}
	}()
	until(t, "status names the reason", func() bool {
		s := w.status(t)
		u := of(t, s, "a")
		r = reading{health: u.Health, reason: u.HealthReason}
		for _, g := range u.Signals {
			if g.Colour == api.Red {
				r.red += g.Name + ": " + g.Value + "\n"
			}
		}
		if s.SharedFault != nil {
			r.fault = s.SharedFault.Reason + " " + s.SharedFault.Detail
		}
		ds, err := w.client.Decisions(t.Context(), api.Filter{Limit: 200})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds.Decisions {
			for _, a := range d.Attempts {
				if a.Provider == "a" && a.Class != "local_refusal" { // cut short by the gateway itself
					classes = append(classes, a.Class)
				}
			}
		}
		slices.Sort(classes)
		classes = slices.Compact(classes)
		r.classes = strings.Join(classes, " ")
		done = ready(r)
		return done
	})
	return r
}

// Six reasons for which an upstream fails, each of which needs somebody else,
// read differently.
func TestReasonsAreToldApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin func(t *testing.T) *ward
		// red and reason are words of the red signals and of the reason for
		// people, health what comes of it.
		red, reason, classes, fault, health string
	}{
		"an expired certificate": {expiredCertificate, "certificate: expired", "certificate: expired", "tls", "", api.Degraded},
		"a blocked egress":       {blockedEgress, "connect", "the fault is shared", "connect", "path 2 upstreams", api.Suspect},
		"a revoked key":          {ill(revoked, ""), "credential: credential, cools for", "credential", "credential", "", api.Suspect},
		"a retired model":        {ill(retired, ""), "model_gone", "model_gone", "model_gone", "", api.Suspect},
		"a dead provider":        {ill(away, ""), "overloaded", "overloaded", "overloaded", "", api.Degraded},
		"a silent provider": {
			ill(silent, "first_output: {ceiling: 1s}\nunary_attempt: {floor: 1s}\n"),
			"timeout", "first_output_timeout", "attempt_timeout first_output_timeout", "", api.Degraded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := c.begin(t)
			newLoadOf(t, w.url, 10)
			w.read(t, func(r reading) bool {
				// A degraded upstream's signals go out, what it was degraded for stays.
				return r.health == c.health && (strings.Contains(r.red, c.red) || c.health == api.Degraded) &&
					strings.Contains(r.reason, c.reason) && r.classes == c.classes && strings.HasPrefix(r.fault, c.fault) &&
					(c.fault != "") == (r.fault != "")
			})
		})
	}
}

// ill begins with an upstream that answers as mode says, and more configuration.
func ill(mode int32, more string) func(t *testing.T) *ward {
	return func(t *testing.T) *ward {
		a, b := newPatient(t), newPatient(t)
		a.mode.Store(mode)
		return startWard(t, admit(t, a.url, b.url, more))
	}
}

// expiredCertificate begins with an upstream whose certificate a trusted
// authority signed, and that ended an hour ago.
func expiredCertificate(t *testing.T) *ward {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	caKey, leafKey := key(), key()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().AddDate(-1, 0, 0),
		NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "provider"}, NotBefore: time.Now().AddDate(0, -1, 0),
		NotAfter: time.Now().Add(-time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, leafKey.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerWell(w, false) }),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}}},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	go func() { _ = s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = s.Close() })
	path := admit(t, "https://"+l.Addr().String()+"/v1", newPatient(t).url, "")
	return &ward{path: path, running: startAs(t, path, func(c *exec.Cmd) { c.Env = append(os.Environ(), "SSL_CERT_FILE="+roots) })}
}

// blockedEgress begins with upstreams to which no connection comes about, and
// none is refused.
func blockedEgress(t *testing.T) *ward {
	t.Helper()
	return startWard(t, admit(t, blackHole(t), blackHole(t), ""))
}

// blackHole is the URL of a listener whose queue is full: it answers no
// connection, and refuses none.
func blackHole(t *testing.T) string {
	t.Helper()
	address, err := deafListener(t)
	if err != nil {
		t.Skipf("requires a listener whose queue can be full: %v", err)
	}
	for range 64 { // until one is not taken any more
		c, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			return fmt.Sprintf("http://%s/v1", address)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Skip("requires a listener whose queue can be full: this system takes every connection")
	return ""
}
