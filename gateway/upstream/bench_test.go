package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/wire"
)

// The benchmarks set an attempt beside what httputil.ReverseProxy does with
// its transport, against the same stub over loopback. cpu-ns/op is the time of
// the whole process, stub included: what counts on a shared machine.

func cpu() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// quietly serves one answer to every request without keeping any.
func quietly(b *testing.B, answer string) *stub {
	out := []byte(answer)
	return loopback(b, func(p *peer) {
		for {
			n := 0
			for {
				line, err := p.br.ReadSlice('\n')
				if err != nil {
					return
				}
				if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
					_, _ = fmt.Sscan(string(v), &n)
				}
				if len(line) == 2 {
					break
				}
			}
			if _, err := p.br.Discard(n); err != nil {
				return
			}
			if _, err := p.Conn.Write(out); err != nil {
				return
			}
		}
	})
}

var benchHeader = http.Header{
	"Content-Type": {"application/json"}, "User-Agent": {"sdk/1"}, "Accept": {"application/json"}, "Openai-Beta": {"x"},
}

func bodyOf(n int) []byte {
	return []byte(strings.Replace(chatBody, `"hi"`, `"`+strings.Repeat("x", max(n-len(chatBody), 0))+`"`, 1))
}

// sixty is a stream of 60 frames, each in a chunk of its own.
func sixty() string {
	frames := []string{role}
	for i := range 57 {
		frames = append(frames, delta(fmt.Sprint("word", i)))
	}
	return streams(append(frames, finish, doneMark)...)
}

func BenchmarkAttempt(b *testing.B) {
	for _, bm := range []struct {
		name   string
		body   []byte
		answer string
		stream bool
	}{
		{"unary-1K", bodyOf(1 << 10), reply(200, "", chatOf(1<<10)), false},
		{"unary-100K", bodyOf(100 << 10), reply(200, "", chatOf(1<<10)), false},
		{"unary-1M", bodyOf(1 << 20), reply(200, "", chatOf(1<<10)), false},
		{"answer-100K", bodyOf(1 << 10), reply(200, "", chatOf(100<<10)), false},
		{"answer-1M", bodyOf(1 << 10), reply(200, "", chatOf(1<<20)), false},
		{"stream-60", bodyOf(1 << 10), sixty(), true},
	} {
		b.Run(bm.name+"/upstream", func(b *testing.B) {
			s := quietly(b, bm.answer)
			u := to(b, s, func(set *Settings) { set.Idle, set.Max = 30*time.Second, 15*time.Minute })
			start := bytes.Index(bm.body, []byte(`"m"`))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			one := func() {
				k, _ := u.PickKey(0)
				o := u.Attempt(ctx, &Call{
					Endpoint: wire.ChatCompletions, Header: benchHeader, Body: bm.body, Stream: bm.stream,
					ModelStart: start, ModelEnd: start + 3, Model: "gpt-x", Key: k,
					FirstOutput: 12 * time.Second, Whole: 120 * time.Second,
					Begin: func(int, http.Header) error { return nil },
					Write: func(p []byte) error { _, _ = io.Discard.Write(p); return nil },
				})
				if o.Class != decision.OK {
					b.Fatalf("%+v", o)
				}
			}
			measure(b, one)
		})
		b.Run(bm.name+"/bare", func(b *testing.B) {
			s := quietly(b, bm.answer)
			tr := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
			defer tr.CloseIdleConnections()
			measure(b, func() { bare(b, tr, "http://"+s.l.Addr().String()+"/v1/chat/completions", bm.body) })
		})
	}
}

// BenchmarkRelay is one frame of a stream on its way from the socket to the
// client: read, cut, judged and written. Each arrives in a chunk of its own,
// many of them at once.
func BenchmarkRelay(b *testing.B) {
	const frames = 2000
	all := []string{role}
	for i := range frames - 3 {
		all = append(all, delta(fmt.Sprint("word", i)))
	}
	s := quietly(b, streams(append(all, finish, doneMark)...))
	u := to(b, s, nil)
	body := bodyOf(100)
	left, got := 0, 0
	b.ReportAllocs()
	before := cpu()
	for b.Loop() {
		if left--; left > 0 {
			continue // of the stream that was relayed
		}
		left = frames
		k, _ := u.PickKey(0)
		o := u.Attempt(context.Background(), &Call{
			Endpoint: wire.ChatCompletions, Header: benchHeader, Body: body, Stream: true, Key: k,
			Begin: func(int, http.Header) error { return nil },
			Write: func(p []byte) error { got += len(p); return nil },
		})
		if o.Class != decision.OK || got == 0 {
			b.Fatalf("%+v", o)
		}
	}
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}

func measure(b *testing.B, one func()) {
	one() // the connection
	b.ReportAllocs()
	before := cpu()
	for b.Loop() {
		one()
	}
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}

var bareBuffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// bare does what httputil.ReverseProxy does between its client and its
// transport, without either's connection. As there, the body is of no type
// that net/http knows.
func bare(b *testing.B, tr *http.Transport, url string, body []byte) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in, err := http.NewRequestWithContext(ctx, "POST", url, nil)
	if err != nil {
		b.Fatal(err)
	}
	in.Header = benchHeader
	req := in.Clone(ctx)
	req.Body, req.ContentLength = io.NopCloser(struct{ io.Reader }{bytes.NewReader(body)}), int64(len(body))
	trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { return nil }}
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
	resp, err := tr.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	buf := bareBuffers.Get().(*[]byte)
	defer bareBuffers.Put(buf)
	for {
		n, err := resp.Body.Read(*buf)
		_, _ = io.Discard.Write((*buf)[:n])
		if err == io.EOF {
			return
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
