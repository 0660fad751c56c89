package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Streams of the stub: so many frames, or as many as fit into holdFor.
const (
	frames    = 60
	holdFor   = 30 * time.Second
	holdEvery = time.Second
)

// serveStub is the upstream: a whole answer of about 1 KB, or a stream of 60
// frames without a pause, or, for the model "hold", one that lasts holdFor.
func serveStub(addr string) error {
	words := strings.Repeat("word ", 160)
	whole := fmt.Appendf(nil, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":160}}`, words)
	chunk := []byte("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"},\"finish_reason\":null}]}\n\n")
	end := []byte("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	return listenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := make([]byte, 64)
		n, _ := io.ReadFull(r.Body, head)
		_, _ = io.Copy(io.Discard, r.Body)
		kind := string(head[:n])
		if !strings.Contains(kind, `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(whole)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(w)
		tick, times := time.Duration(0), frames
		if strings.Contains(kind, `"model":"hold"`) {
			tick, times = holdEvery, int(holdFor/holdEvery)
		}
		for range times {
			if _, err := w.Write(chunk); err != nil {
				return
			}
			_ = rc.Flush()
			if tick > 0 {
				select {
				case <-time.After(tick):
				case <-r.Context().Done():
					return
				}
			}
		}
		_, _ = w.Write(end)
	}))
}

// serveProxy is httputil.ReverseProxy as it comes, with full duplex: without
// it a large body and its answer get in each other's way.
func serveProxy(addr, target string) error {
	to, err := url.Parse(target)
	if err != nil {
		return err
	}
	reverse := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 4096, MaxIdleConns: 0},
	}
	return listenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		reverse.ServeHTTP(w, r)
	}))
}

func listenAndServe(addr string, h http.Handler) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	go func() { // whoever started it holds its standard input open
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = l.Close()
	}()
	err = http.Serve(l, h)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// body is a request of about size bytes for a model.
func body(model string, size int, stream bool) string {
	kind := ""
	if stream {
		kind = `"stream":true,`
	}
	return `{"model":` + strconv.Quote(model) + `,` + kind + `"max_tokens":16,"messages":[{"role":"user","content":"` + strings.Repeat("hello ", size/6) + `"}]}`
}
