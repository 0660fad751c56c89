package config

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// certificate writes a pair to dir/name.pem and dir/name.key.
func certificate(t testing.TB, dir, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: cert}, ".key": {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(dir+"/"+name+file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

func TestSecretRead(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(dir+"/key", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"KEY": " padded\r\n", "TAB": "a\tb", "UMLAUT": "schlüssel"}
	for _, tt := range []struct{ name, given, file, want, err string }{
		{name: "env", given: "env:KEY", want: "padded"},
		{name: "env, space", given: "env: KEY", want: "padded"},
		{name: "file", given: "file:key", file: "\ufeffabc\n", want: "abc"},
		{name: "file, absolute", given: "file:" + dir + "/key", file: "abc", want: "abc"},
		{name: "file, large", given: "file:key", file: strings.Repeat("x", 70000), err: "larger than 64 KiB"},
		{name: "exec", given: "exec:printf 'a-%s' b | tr b c", want: "a-c"},
		{name: "exec, much", given: "exec:yes", err: "exec:yes failed"},
		{name: "exec, nothing", given: "exec:true", err: "the output of exec:true is empty"},
		{name: "exec, unknown", given: "exec:/no/such/program", err: "exit status 127"},
		{name: "literal", given: "sk-1", want: "sk-1"},
		{name: "tab", given: "env:TAB", err: "has a space"},
		{name: "not for a header", given: "env:UMLAUT", err: "no header can carry"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(tt.file)
			s, c := parseSecret(tt.given, dir, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
			if c != nil {
				t.Fatal(c.message)
			}
			ctx := t.Context()
			if tt.given == "exec:yes" { // never ends by itself
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
			}
			got, err := s.Read(ctx)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// A file is read again each time.
func TestSecretRotates(t *testing.T) {
	dir := t.TempDir()
	s, _ := parseSecret("file:key", dir, nil)
	for _, want := range []string{"first", "second"} {
		if err := os.WriteFile(dir+"/key", []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Read(t.Context()); got != want || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// A command is not waited for once the context is over, nor what it started.
func TestSecretCommandEnds(t *testing.T) {
	dir := t.TempDir()
	s, _ := parseSecret("exec:(trap '' TERM; echo $$ > pid; exec sleep 300) & wait", dir, nil)
	s.ref = strings.Replace(s.ref, "> pid", "> "+dir+"/pid", 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Read(ctx)
		done <- err
	}()
	for {
		if b, err := os.ReadFile(dir + "/pid"); err == nil && len(b) > 0 {
			break
		}
		runtime.Gosched()
	}
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(10 * time.Second):
		t.Error("the command is still waited for")
	}
}
