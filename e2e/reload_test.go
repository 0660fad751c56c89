package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// report is the result of a reload as a map.
func report(items []api.ReloadItem) map[string]string {
	m := map[string]string{}
	for _, i := range items {
		m[i.Key] = i.Result
	}
	return m
}

// CFG-01: a configuration that cannot be used changes nothing: neither streams
// nor requests notice, whoever asked for the reload, and the error is shown.
func TestABrokenReloadTouchesNothing(t *testing.T) {
	t.Parallel()
	a, b := newStub(t), newStub(t)
	path := configure(t, t.TempDir(), a, b, "")
	g := start(t, path)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	hash := g.state(t).Config.Hash
	whole := streams(t, g.url, 20)
	stop := traffic(t, g.url, 10*time.Millisecond)

	refused := 0
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown upstream", "{upstream: b,", "{upstream: bb,", "failback.yaml:"},
		{"unreadable certificate", "environment: TEST", "tls: {cert: none.pem, key: none.key}", "none.pem"},
		{"unreadable key", "api_key: key-a", "api_key: file:none.key", "none.key"},
		{"duplicate", "environment: TEST", "listen: 127.0.0.1:1", "listen"},
		{"half a file", "candidates: [", "candidates: ", "failback.yaml:"},
		{"empty", string(good), "", "failback.yaml:1:1"},
	} {
		replace(t, path, strings.Replace(string(good), c.old, c.new, 1))
		_, err := g.client.Reload(t.Context(), api.Command{Reason: c.name})
		if e, ok := errors.AsType[*api.Error](err); !ok || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s: the API says %v, without %q", c.name, err, c.want)
		}
		refused++
		g.hangup(t)
		refused++
		until(t, c.name+": SIGHUP is refused", func() bool { return len(g.events(t, "config_reload")) == refused })
		if s := g.state(t).Config; s.Hash != hash || !strings.Contains(s.LastError, c.want) || s.LastErrorAt.IsZero() {
			t.Errorf("%s: hash %s, was %s; last error %q", c.name, s.Hash, hash, s.LastError)
		}
	}
	for _, e := range g.events(t, "config_reload") {
		if e.Result != "refused" {
			t.Errorf("%+v", e)
		}
	}
	// Nobody has to ask: a file that changes is looked at, and refused, once.
	replace(t, path, strings.Replace(string(good), "listen:", "lisen:", 1))
	until(t, "the changed file is refused", func() bool { return len(g.events(t, "config_reload")) == refused+1 })
	if e := g.events(t, "config_reload")[refused]; e.Result != "refused" || e.By != "auto" || !strings.Contains(e.Detail, "lisen") {
		t.Errorf("%+v", e)
	}
	if text := g.stderr.String(); !strings.Contains(text, "lisen") || strings.Contains(text, "goroutine ") || strings.Contains(text, "key-a") {
		t.Errorf("stderr: %s", text)
	}
	// A good one, noticed by itself, ends the error.
	replace(t, path, string(good)+"max_inflight: 4000\n")
	until(t, "the mended file is in force", func() bool { s := g.state(t).Config; return s.LastError == "" && s.Hash != hash })

	a.end()
	whole()
	if sent := stop(); sent < 100 {
		t.Errorf("only %d requests were sent", sent)
	}
	if n := b.seen.Load(); n > 0 {
		t.Errorf("%d requests went to the fallback", n)
	}
}

// CFG-03: what a reload can apply is applied and does what it says; what it
// cannot is reported, key by key, and stays as it is until the restart.
func TestReloadReportsEachKey(t *testing.T) {
	t.Parallel()
	a, b := newStub(t), newStub(t)
	path := configure(t, t.TempDir(), a, b, "retry: {attempts: 1}\nbreaker: {consecutive: 1000, min_samples: 1000}\n")
	g := start(t, path)
	a.broken.Store(true)
	if status, err := chat(http.DefaultClient, g.url, "u"); err != nil || status == http.StatusOK {
		t.Errorf("one attempt at a broken upstream: %d %v", status, err)
	}
	listen := strings.TrimPrefix(g.url, "http://")
	moved := freePort(t)
	edit(t, path, "listen: "+listen, "listen: "+moved)
	edit(t, path, "attempts: 1", "attempts: 3")
	edit(t, path, "weight: 50", "weight: 60")
	before := g.state(t).Config.Hash
	result, err := g.client.Reload(t.Context(), api.Command{})
	if err != nil {
		t.Fatal(err)
	}
	after := g.state(t).Config.Hash
	if e := g.events(t, "config_reload")[0]; before == after || e.From != before || e.To != after {
		t.Errorf("from %s to %s, the event says %+v", before, after, e)
	}
	want := map[string]string{"listen": "needs restart", "retry.attempts": "applied", "models.m.candidates[1].weight": "applied"}
	if got := report(result.Report); !maps.Equal(got, want) {
		t.Errorf("report %v, want %v", got, want)
	}
	if status, err := chat(http.DefaultClient, g.url, "u"); err != nil || status != http.StatusOK {
		t.Errorf("three attempts: %d %v", status, err)
	}
	s := g.state(t)
	if !slices.Equal(s.Config.NeedsRestart, []string{"listen"}) {
		t.Errorf("needs restart: %v", s.Config.NeedsRestart)
	}
	values := map[string]string{}
	for _, v := range s.Settings {
		values[v.Key] = v.Value
	}
	if values["listen"] != listen || values["retry.attempts"] != "3" || s.Models[0].Candidates[1].Weight != 60 {
		t.Errorf("in force: listen %s, attempts %s, weight %g", values["listen"], values["retry.attempts"], s.Models[0].Candidates[1].Weight)
	}
	// It goes on being said while it holds, also by a reload of something else,
	// and to those who only sent a signal.
	edit(t, path, "attempts: 3", "attempts: 4")
	g.hangup(t)
	until(t, "SIGHUP reloads", func() bool { return len(g.events(t, "config_reload")) == 2 })
	if e := g.events(t, "config_reload")[1]; e.By != "SIGHUP" || e.Result != "ok" || !strings.Contains(e.Detail, "changes applied: 1, waiting for a restart: 1") {
		t.Errorf("%+v", e)
	}
	out, _, code := cli(t, g.dir, "reload", "--config", path)
	if code != 0 || !strings.Contains(out, "listen") || !strings.Contains(out, "needs restart") {
		t.Errorf("exit %d: %s", code, out)
	}
	if err := g.term(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
	g = start(t, path)
	if g.url != "http://"+moved || len(g.state(t).Config.NeedsRestart) > 0 {
		t.Errorf("after the restart: %s, needs restart %v", g.url, g.state(t).Config.NeedsRestart)
	}
}

// secret is a directory as Kubernetes mounts one: files are links through
// ..data, which is swapped.
type secret struct {
	t   *testing.T
	dir string
	n   int
}

func newSecret(t *testing.T, files map[string]string) *secret {
	t.Helper()
	s := &secret{t: t, dir: t.TempDir()}
	s.swap(files)
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), s.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *secret) path(name string) string { return filepath.Join(s.dir, name) }

func (s *secret) swap(files map[string]string) {
	s.t.Helper()
	s.n++
	version := fmt.Sprintf("..v%d", s.n)
	if err := os.Mkdir(s.path(version), 0o700); err != nil {
		s.t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.path(version), name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := os.Symlink(version, s.path("..new")); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.path("..new"), s.path("..data")); err != nil {
		s.t.Fatal(err)
	}
}

// CFG-08: a credential that is swapped behind its path is used by new requests,
// at once after SIGHUP and soon without it; streams go on with the old one.
func TestASwappedCredentialIsUsed(t *testing.T) {
	t.Parallel()
	a, b := newStub(t), newStub(t)
	mount := newSecret(t, map[string]string{"key": "first\n"})
	path := configure(t, t.TempDir(), a, b, "")
	edit(t, path, "api_key: key-a", "api_key: file:"+mount.path("key"))
	g := start(t, path)
	whole := streams(t, g.url, 3)
	if got := a.shown(); !maps.Equal(got, map[string]int{"first": 3}) {
		t.Errorf("at first: %v", got)
	}

	mount.swap(map[string]string{"key": "second\n"})
	g.hangup(t)
	until(t, "SIGHUP reloads", func() bool { return len(g.events(t, "config_reload")) == 1 })
	chatAll(t, g.url, []string{"u1", "u2"})
	if got := a.shown(); !maps.Equal(got, map[string]int{"second": 2}) {
		t.Errorf("after SIGHUP: %v", got)
	}

	mount.swap(map[string]string{"key": "third\n"})
	until(t, "the swap is noticed", func() bool { return len(g.events(t, "config_reload")) == 2 })
	chatAll(t, g.url, []string{"u3"})
	if got := a.shown(); !maps.Equal(got, map[string]int{"third": 1}) {
		t.Errorf("after the swap: %v", got)
	}
	a.end()
	whole()
	if e := g.events(t, "config_reload"); len(e) != 2 || e[1].By != "auto" || !strings.Contains(e[1].Detail, "changes applied: 1") {
		t.Errorf("%+v", e)
	}
}

// CFG-08 for certificates, at their old path and at another one.
func TestASwappedCertificateIsUsed(t *testing.T) {
	t.Parallel()
	files := func(name string) map[string]string {
		cert, key := certificate(t, name)
		return map[string]string{"cert.pem": cert, "key.pem": key}
	}
	mount, elsewhere := newSecret(t, files("first")), newSecret(t, files("fourth"))
	path := configure(t, t.TempDir(), newStub(t), newStub(t), fmt.Sprintf("tls: {cert: %s, key: %s}\n", mount.path("cert.pem"), mount.path("key.pem")))
	g := start(t, path)
	served := func() string {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(g.url, "https://"), &tls.Config{InsecureSkipVerify: true}) // whose it is is what is asked
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := served(); got != "first" {
		t.Errorf("at first %q", got)
	}
	mount.swap(files("second"))
	g.hangup(t)
	until(t, "SIGHUP reloads", func() bool { return len(g.events(t, "config_reload")) == 1 })
	if got := served(); got != "second" {
		t.Errorf("after SIGHUP %q", got)
	}
	// A pair that does not belong together is refused; the old one stays.
	pair := files("broken")
	pair["key.pem"] = files("other")["key.pem"]
	mount.swap(pair)
	if _, err := g.client.Reload(t.Context(), api.Command{}); err == nil {
		t.Error("half a pair was taken")
	}
	if got := served(); got != "second" {
		t.Errorf("after a broken pair %q", got)
	}
	mount.swap(files("third"))
	until(t, "the swap is noticed", func() bool { return served() == "third" })
	edit(t, path, mount.dir, elsewhere.dir)
	edit(t, path, mount.dir, elsewhere.dir)
	result, err := g.client.Reload(t.Context(), api.Command{})
	if err != nil {
		t.Fatal(err)
	}
	if got := report(result.Report); !maps.Equal(got, map[string]string{"tls.cert": "applied", "tls.key": "applied"}) {
		t.Errorf("report %v", got)
	}
	if got := served(); got != "fourth" {
		t.Errorf("at another path %q", got)
	}
}

// certificate makes one that signs itself, and its key, as PEM.
func certificate(t *testing.T, name string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}
