package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	user     = "gateway"
	password = "s3cr%t/p@ss"
	inURL    = "gateway:s3cr%25t%2Fp%40ss@"
)

// outside is a NATS server of its own, with a listener.
type outside struct {
	t    *testing.T
	dir  string
	port int
	srv  *server.Server
}

func newOutside(t *testing.T) *outside {
	o := &outside{t: t, dir: t.TempDir(), port: server.RANDOM_PORT}
	o.start()
	t.Cleanup(o.stop)
	return o
}

func (o *outside) start() {
	o.t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: o.port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: o.dir,
		Username: user, Password: password, NoSystemAccount: true,
	})
	if err != nil {
		o.t.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		o.t.Fatal("the server does not start")
	}
	o.srv = srv
	fmt.Sscanf(srv.ClientURL()[strings.LastIndexByte(srv.ClientURL(), ':')+1:], "%d", &o.port)
}

func (o *outside) stop() {
	if o.srv != nil {
		stopServer(o.srv)
		o.srv = nil
	}
}

func (o *outside) url() string { return fmt.Sprintf("nats://%s127.0.0.1:%d", inURL, o.port) }

func noSecret(t *testing.T, text string) {
	t.Helper()
	for _, s := range []string{password, "s3cr"} {
		if strings.Contains(text, s) {
			t.Errorf("the password is in %q", text)
		}
	}
}

func TestCluster(t *testing.T) {
	o := newOutside(t)
	var told states
	var l logs
	s := open(t, Options{URL: o.url(), Timeout: 2 * time.Second, OnState: told.on, Log: l.add})
	other := open(t, Options{URL: o.url(), Prefix: "another"})
	b, st := bucket(t, s, BucketOptions{Name: "things"}), stream(t, s, StreamOptions{Name: "lines"})
	mustPut(t, b, "a b", thing{N: 1})
	mustAppend(t, st, 1)
	if st := s.Status(); st.Kind != NATS || st.Err != nil {
		t.Fatalf("%+v", st)
	}
	if _, err := bucket(t, other, BucketOptions{Name: "things"}).Get(t.Context(), "a b"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("another prefix: %v", err)
	}
	// A second gateway sees what the first one wrote.
	changes, _ := watchAll(t, bucket(t, open(t, Options{URL: o.url()}), BucketOptions{Name: "things"}))
	if c := next(t, changes); c.Key != "a b" || c.Value.N != 1 {
		t.Fatalf("%+v", c)
	}

	o.stop()
	eventually(t, "the loss is said", func() bool { return s.Status().Err != nil })
	began := time.Now()
	_, putErr := b.Put(t.Context(), "a b", thing{N: 9})
	_, getErr := b.Get(t.Context(), "a b")
	_, readErr := st.Last(t.Context(), 1)
	_, allErr := b.All(t.Context())
	if d := time.Since(began); d > defaultTimeout*9/10 {
		t.Errorf("calls without a server took %v", d)
	}
	for _, err := range []error{putErr, getErr, readErr, allErr} {
		if !isUnavailable(err) {
			t.Errorf("without a server: %v", err)
		}
	}
	if text := s.Status().Err.Error(); !strings.Contains(text, fmt.Sprintf("127.0.0.1:%d", o.port)) {
		t.Errorf("the error does not say where: %s", text)
	}

	o.start()
	eventually(t, "writing again", func() bool { return s.Status().Err == nil })
	if e := mustGet(t, b, "a b"); e.Value.N != 1 {
		t.Fatalf("%+v: what was refused was written", e)
	}
	mustPut(t, b, "a b", thing{N: 2})
	if seq := mustAppend(t, st, 2); seq != 2 {
		t.Errorf("sequence %d", seq)
	}
	if c := next(t, changes); c.Value.N != 2 {
		t.Fatalf("%+v", c)
	}
	noSecret(t, told.text())
	noSecret(t, l.text())
}

// A gateway starts while the cluster is away.
func TestClusterThatComesLater(t *testing.T) {
	o := newOutside(t)
	o.stop()
	s := open(t, Options{URL: o.url(), Timeout: 300 * time.Millisecond})
	b := bucket(t, s, BucketOptions{Name: "things"})
	if err := s.Status().Err; err == nil {
		t.Fatal("nothing is there, and it is well")
	} else {
		noSecret(t, err.Error())
	}
	if _, err := b.Get(t.Context(), "a"); !isUnavailable(err) {
		t.Fatal(err)
	} else if !strings.Contains(err.Error(), "no connection to "+s.Place()) || s.Place() != fmt.Sprintf("127.0.0.1:%d", o.port) {
		t.Errorf("the error does not say where: %v", err)
	}
	o.start()
	eventually(t, "writing", func() bool {
		_, err := b.Put(t.Context(), "a", thing{N: 1})
		return err == nil
	})
}

func TestClusterRefusesUs(t *testing.T) {
	o := newOutside(t)
	wrong := fmt.Sprintf("nats://gateway:wr0ngs3cret@127.0.0.1:%d", o.port)
	s, err := Open(t.Context(), Options{URL: wrong, Timeout: 300 * time.Millisecond})
	if err == nil {
		defer closeStore(t, s)
		eventually(t, "said why", func() bool {
			err = s.Status().Err
			return err != nil && strings.Contains(strings.ToLower(err.Error()), "authorization")
		})
	}
	if strings.Contains(err.Error(), "wr0ng") {
		t.Error(err)
	}
}

func TestURLIsChecked(t *testing.T) {
	for _, u := range []string{"://" + inURL + "h", "nats://" + inURL, "http://" + inURL + "host", "nats://ok:1,", "nats://gateway:s3cr%zz@host", inURL + "host:4222"} {
		_, err := Open(t.Context(), Options{URL: u})
		if err == nil {
			t.Errorf("%s was taken", u)
			continue
		}
		noSecret(t, err.Error())
	}
	c, err := parseURL("nats://" + inURL + "a:1, tls://t0ken@b:2")
	if err != nil || c.hosts != "a:1, b:2" {
		t.Fatalf("%+v, %v", c, err)
	}
	err = c.redact(fmt.Errorf("dial nats://%sa:1 with %s and t0ken: %w", inURL, password, context.DeadlineExceeded))
	noSecret(t, err.Error())
	if strings.Contains(err.Error(), "t0ken") || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
