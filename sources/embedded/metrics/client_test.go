package metrics

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

func client(t *testing.T, address string, rt http.RoundTripper) v1.API {
	t.Helper()
	c, err := api.NewClient(api.Config{Address: address + "/prometheus", RoundTripper: rt})
	if err != nil {
		t.Fatal(err)
	}
	return v1.NewAPI(c)
}

// pipes is a listener without a network.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// The official client is at home here, over a socket and without a network.
func TestOfficialClient(t *testing.T) {
	s := filled(t, defaultLimits)
	socket := httptest.NewServer(s.Handler())
	defer socket.Close()

	p := newPipes()
	server := &http.Server{Handler: s.Handler()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(p) }()
	rt := &http.Transport{DialContext: p.dial}
	defer func() {
		rt.CloseIdleConnections()
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != http.ErrServerClosed {
			t.Error(err)
		}
	}()

	for name, c := range map[string]v1.API{"socket": client(t, socket.URL, nil), "pipe": client(t, "http://failback", rt)} {
		t.Run(name, func(t *testing.T) { exercise(t, c) })
	}
}

func exercise(t *testing.T, c v1.API) {
	ctx := t.Context()
	v, warnings, infos, err := c.Query(ctx, `requests_total{provider="a"}`, at, v1.WithTimeout(5*time.Second))
	if err != nil || len(warnings) > 0 || len(infos) > 0 {
		t.Fatal(err, warnings, infos)
	}
	vector, ok := v.(model.Vector)
	if !ok || len(vector) != 1 || vector[0].Value != 14 || !vector[0].Timestamp.Time().Equal(at) || vector[0].Metric["job"] != "failback" {
		t.Errorf("query: %v", v)
	}
	if v, _, _, err := c.Query(ctx, "1/0", at); err != nil || v.Type() != model.ValScalar || v.(*model.Scalar).Value.String() != "+Inf" {
		t.Errorf("scalar: %v %v", v, err)
	}
	if v, warnings, _, err := c.Query(ctx, `histogram_quantile(-1, latency_seconds_bucket)`, at); err != nil || len(warnings) != 1 || !strings.Contains(v.String(), "-Inf") {
		t.Errorf("warnings: %v %v %v", v, warnings, err)
	}

	if v, _, infos, err := c.Query(ctx, `rate(share[1m])`, at); err != nil || len(infos) != 1 {
		t.Errorf("infos: %v %v %v", v, infos, err)
	}

	v, _, _, err = c.QueryRange(ctx, ratioQuery, v1.Range{Start: at.Add(-time.Hour), End: at, Step: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := v.(model.Matrix); !ok || len(m) != 1 || len(m[0].Values) != 61 || m[0].Values[60].Value != 0 {
		t.Errorf("query_range: %v", v)
	}

	_, _, _, err = c.Query(ctx, "up{", at)
	if e, ok := err.(*v1.Error); !ok || e.Type != v1.ErrBadData {
		t.Errorf("a parse error: %#v", err)
	}
	_, _, _, err = c.Query(ctx, `requests_total * on(job) requests_total`, at)
	if e, ok := err.(*v1.Error); !ok || e.Type != v1.ErrExec {
		t.Errorf("an execution error: %#v", err)
	}
	_, _, _, err = c.QueryRange(ctx, `sum_over_time(vector(1)[45m:1s])`, v1.Range{Start: at.Add(-time.Hour), End: at, Step: time.Second}, v1.WithTimeout(time.Millisecond))
	if e, ok := err.(*v1.Error); !ok || e.Type != v1.ErrServer || !strings.Contains(e.Detail, "timed out") {
		t.Errorf("a timeout: %#v", err)
	}

	sets, _, _, err := c.Series(ctx, []string{`requests_total`}, at.Add(-time.Hour), at)
	if err != nil || len(sets) != 2 {
		t.Errorf("series: %v %v", sets, err)
	}
	names, _, _, err := c.LabelNames(ctx, nil, time.Time{}, time.Time{})
	if err != nil || !slices.Contains(names, "provider") {
		t.Errorf("labels: %v %v", names, err)
	}
	values, _, _, err := c.LabelValues(ctx, "provider", []string{"requests_total"}, at.Add(-time.Hour), at)
	if diff := cmp.Diff(model.LabelValues{"a", `b "ü" <&>`}, values); err != nil || diff != "" {
		t.Errorf("values: %v %s", err, diff)
	}
	meta, err := c.Metadata(ctx, "", "")
	if err != nil || len(meta) != 3 || meta["latency_seconds"][0].Type != v1.MetricTypeHistogram {
		t.Errorf("metadata: %v %v", meta, err)
	}
	info, err := c.Buildinfo(ctx)
	if err != nil || !strings.HasPrefix(info.Version, "3.") || info.GoVersion == "" {
		t.Errorf("buildinfo: %+v %v", info, err)
	}
}

// A client that does not read holds its place for a while, not for ever.
func TestClientThatDoesNotRead(t *testing.T) {
	for name, query := range map[string]string{
		"answer": "query_range?query=1&start=0&end=10999&step=1",
		"error":  "label/" + strings.Repeat("%FF", 3000) + "/values", // whose name it repeats
	} {
		t.Run(name, func(t *testing.T) { clientThatDoesNotRead(t, query, name == "answer") })
	}
}

func clientThatDoesNotRead(t *testing.T, query string, cut bool) {
	l := defaultLimits
	l.running, l.quick, l.waiting, l.write = 1, 1, 0, 50*time.Millisecond
	s := filled(t, l)
	p := newPipes()
	ended := make(chan bool, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cut := recover() == http.ErrAbortHandler
			ended <- cut
			if cut {
				panic(http.ErrAbortHandler)
			}
		}()
		s.Handler().ServeHTTP(w, r)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(p) }()
	conn, err := p.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET " + base + query + " HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if <-ended != cut {
		t.Errorf("that it was cut off: %t", !cut)
	}
	for _, query := range []string{"1", "max_over_time(vector(1)[1m:])"} {
		if a := get(t, s, "query", "query", query); a.code != http.StatusOK {
			t.Errorf("the place is not free: %d %s", a.code, a.body)
		}
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != http.ErrServerClosed {
		t.Error(err)
	}
}

// Nor does one that reads slowly, and the store does not wait for it.
func TestClientThatReadsSlowly(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := defaultLimits
		l.running, l.quick, l.waiting = 1, 1, 0
		s, _ := openedWith(t, dir, l)
		p := newPipes()
		server := &http.Server{Handler: s.Handler(), ErrorLog: log.New(io.Discard, "", 0)}
		served := make(chan error, 1)
		go func() { served <- server.Serve(p) }()
		conn, err := p.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("GET " + base + "query_range?query=1/3&start=0&end=10999&step=1 HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for {
			<-time.After(l.write - time.Second)
			synctest.Wait()
			if !s.life.TryLock() {
				t.Fatal("the store cannot be opened again while somebody reads an answer")
			}
			s.life.Unlock()
			if _, err := io.CopyN(io.Discard, conn, part); err != nil {
				break
			}
		}
		if took := time.Since(began); took > l.answer+l.write {
			t.Errorf("it was served for %s", took)
		}
		synctest.Wait()
		if a := get(t, s, "query", "query", "1"); a.code != http.StatusOK {
			t.Errorf("the place is not free: %d %s", a.code, a.body)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != http.ErrServerClosed {
			t.Error(err)
		}
		closeStore(t, s)
	})
}
