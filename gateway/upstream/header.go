package upstream

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

// Values that are the same for every request; nobody changes them.
var (
	identity  = []string{"identity"}
	userAgent = []string{"failback"}
	typeJSON  = []string{"application/json"}
	acceptAll = []string{"application/json"}
	acceptSSE = []string{"text/event-stream"}
)

// header returns the request's header as this upstream is to see it: what may
// pass of the client's, and this upstream's own credential. An encoding is not
// asked for: compressed events would come late, and what passes through would
// have to be decompressed to be judged.
func (x *exchange) header() http.Header {
	n := len(x.c.Header) + 2 // and those of the following that are missing
	for _, name := range [...]string{"User-Agent", "Content-Type", "Accept"} {
		if x.c.Header[name] == nil {
			n++
		}
	}
	h := make(http.Header, n)
	for name, values := range x.c.Header {
		if !ours(name) {
			h[name] = values
		}
	}
	h["Accept-Encoding"] = identity
	if h["User-Agent"] == nil {
		h["User-Agent"] = userAgent
	}
	if h["Content-Type"] == nil {
		h["Content-Type"] = typeJSON
	}
	if h["Accept"] == nil {
		h["Accept"] = acceptAll
		if x.c.Stream {
			h["Accept"] = acceptSSE
		}
	}
	if x.c.Traceparent != "" {
		h["Traceparent"] = []string{x.c.Traceparent}
		if x.c.Tracestate != "" {
			h["Tracestate"] = []string{x.c.Tracestate}
		}
	}
	if x.c.Key.header != "" {
		h[x.c.Key.header] = x.c.Key.value
	}
	return h
}

// ours reports whether a client's header of that name never passes: it would
// carry the client's credential, speak of the client's connection, place the
// attempt in a trace by itself, or let net/http send a request again.
func ours(name string) bool {
	switch name {
	case "Authorization", "X-Api-Key", "Api-Key", "Cookie", "Proxy-Authorization",
		"Host", "Content-Length", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
		"Accept-Encoding", "Idempotency-Key", "X-Idempotency-Key", "Traceparent", "Tracestate":
		return true
	}
	return false
}

// content is what an answer's type says it is.
type content uint8

const (
	contentOther content = iota
	contentJSON
	contentEvents
	contentHTML
)

func contentOf(h http.Header) content {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	t = strings.TrimSpace(t)
	switch {
	case strings.EqualFold(t, "text/event-stream"):
		return contentEvents
	case strings.EqualFold(t, "application/json"), len(t) > 5 && strings.EqualFold(t[len(t)-5:], "+json"):
		return contentJSON
	case strings.EqualFold(t, "text/html"), strings.EqualFold(t, "application/xhtml+xml"):
		return contentHTML
	}
	return contentOther
}

// decode makes the answer's header fit what will be read of it: an encoding
// that came although none was asked for is undone. It reports false if the
// encoding is unknown; header and bytes then stay as they are.
func (x *exchange) decode() bool {
	h := x.resp.Header
	delete(h, "Trailer")
	encoding := strings.TrimSpace(strings.Join(h["Content-Encoding"], ","))
	switch strings.ToLower(encoding) {
	case "":
		return true
	case "identity":
		delete(h, "Content-Encoding")
		return true
	case "gzip", "x-gzip":
		delete(h, "Content-Encoding")
		delete(h, "Content-Length")
		x.plain, x.decoded = &unzip{from: x}, true
		return true
	}
	return false
}

// unzip is a gzip reader that reads nothing before it is asked to.
type unzip struct {
	from io.Reader
	z    *gzip.Reader
}

func (u *unzip) Read(p []byte) (int, error) {
	if u.z == nil {
		z, err := gzip.NewReader(u.from)
		if err != nil {
			if err == io.EOF { // nothing at all is no gzip either
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		u.z = z
	}
	return u.z.Read(p)
}
