package sources

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"failback/gateway/operator/api"
)

const (
	maxRemoteAnswer = 16 << 20 // bytes of one answer, unpacked
	maxRemoteError  = 64 << 10 // bytes that are read of an answer that is no success
	maxMessage      = 400      // bytes of a server's message in a text
)

// RemoteKind is what went wrong with a Prometheus or Loki.
type RemoteKind uint8

const (
	RemoteFailed       RemoteKind = iota // it answered 5xx, or asks for patience
	RemoteTimeout                        // no answer in time
	RemoteGivenUp                        // the caller's context was cancelled
	RemoteUnreachable                    // refused, no such name, no way to it
	RemoteTLS                            // its certificate, ours, or no TLS at all
	RemoteUnauthorized                   // 401, 403, 407
	RemoteRedirect                       // 3xx, which is not followed
	RemoteQuery                          // it refused the query, 4xx
	RemoteStranger                       // it is not what it should be: HTML, an empty answer, no such path
	RemoteTooLarge                       // more than 16 MiB
	RemoteBroken                         // the answer ended early
	RemoteShape                          // JSON, but not the one expected
	RemoteSetup                          // what is set here makes no sense; nothing was asked
)

// RemoteError is why a Prometheus or Loki gave no answer. Its text is short, one
// line, and names neither a URL's user info nor a secret; parts of it can be
// text from outside.
type RemoteError struct {
	Kind    RemoteKind
	Source  string // Prometheus or Loki
	Status  int    // HTTP's, 0 if there was none
	Message string // the server's own words, may have lines; empty: it said nothing
	text    string
	err     error
}

func (e *RemoteError) Error() string { return e.text }

func (e *RemoteError) Unwrap() error { return e.err }

// remote is one Prometheus or Loki.
type remote struct {
	source string
	// base is what paths are appended to, without user info.
	base *url.URL
	// own says that it is the gateway's: no setting of the environment applies.
	own bool
	// transport makes the way to it. It may fail, for a file that is not there.
	transport func() (http.RoundTripper, error)
	access    access
	// off, if not nil, is why it cannot be asked at all.
	off *RemoteError
	// said is what the gateway says of its own store, if it is ill.
	said atomic.Pointer[RemoteError]
	// shown are the secrets that the server was shown last.
	shown atomic.Pointer[[]string]
}

// heard is what the server says, as it may be told.
func (r *remote) heard(text string) string {
	if s := r.shown.Load(); s != nil {
		return redact(text, *s)
	}
	return text
}

// Told takes what the gateway says now of where it is. It may be called while
// questions are asked.
func (r *remote) Told(s api.Source) {
	if r.own {
		r.said.Store(illness(r.source, s))
	}
}

// addr is where it is, as it may be shown; empty: the gateway's own.
func (r *remote) addr() string {
	if r.own || r.base == nil {
		return ""
	}
	return r.base.String()
}

func (r *remote) fail(kind RemoteKind, err error, text string) *RemoteError {
	return &RemoteError{Kind: kind, Source: r.source, text: text, err: err}
}

// send begins an exchange, with what the server is to be shown, and returns the
// secrets in that. The error is a *RemoteError. It never follows a redirect. It
// writes into req's header. The caller closes the answer's body.
func (r *remote) send(req *http.Request) (res *http.Response, secrets []string, err error) {
	if r.off != nil {
		return nil, nil, r.off
	}
	if req.URL.Scheme != r.base.Scheme || req.URL.Host != r.base.Host {
		return nil, nil, r.fail(RemoteSetup, nil, "a question to another host than "+r.base.Host)
	}
	started := time.Now()
	tr, err := r.transport()
	if err != nil {
		return nil, nil, r.fail(RemoteSetup, err, err.Error())
	}
	if secrets, err = r.access.apply(req.Header); err != nil {
		return nil, nil, r.fail(RemoteSetup, err, err.Error())
	}
	r.shown.Store(&secrets)
	if res, err = tr.RoundTrip(req); err != nil {
		return nil, nil, r.unreachable(req.Context(), started, err)
	}
	return res, secrets, nil
}

// do asks and reads the whole answer, which is JSON; otherwise as send.
func (r *remote) do(req *http.Request) (status int, body []byte, err error) {
	started := time.Now()
	ctx := req.Context()
	res, secrets, err := r.send(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	limit := int64(maxRemoteAnswer)
	if res.StatusCode/100 != 2 {
		limit = maxRemoteError
	}
	body, err = io.ReadAll(io.LimitReader(res.Body, limit+1))
	if res.StatusCode/100 != 2 { // what was read of it will do
		return res.StatusCode, body, r.refusal(res, body, secrets)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, nil, r.ended(ctx, started)
	case err != nil:
		return 0, nil, r.fail(RemoteBroken, err, "the answer broke off after "+bytesText(int64(len(body))))
	case int64(len(body)) > limit:
		return 0, nil, r.fail(RemoteTooLarge, nil, "the answer is over "+bytesText(limit)+": ask for less")
	}
	if err := r.check(res, body); err != nil {
		return res.StatusCode, body, err
	}
	return res.StatusCode, redactAnswer(body, secrets), nil
}

// check refuses a success that is not JSON.
func (r *remote) check(res *http.Response, body []byte) error {
	typ := mediaType(res)
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(trimmed) == 0:
		return r.fail(RemoteStranger, nil, fmt.Sprintf("%d with an empty answer: is this a %s?", res.StatusCode, r.source))
	case typ == "text/html" || trimmed[0] == '<':
		return r.fail(RemoteStranger, nil, fmt.Sprintf("answers text/html: is this a %s, or a log-in page before it?", r.source))
	}
	var raw json.RawMessage
	err := json.Unmarshal(body, &raw)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok && e.Offset >= int64(len(body)) {
		return r.fail(RemoteBroken, err, "the answer ends in the middle of its JSON, after "+bytesText(int64(len(body))))
	}
	if typ == "" {
		typ = "no JSON"
	}
	return r.fail(RemoteStranger, err, fmt.Sprintf("answers %s that is no JSON: is this a %s?", visibleASCII(r.heard(typ)), r.source))
}

// refusal names an answer that is no success.
func (r *remote) refusal(res *http.Response, body []byte, secrets []string) *RemoteError {
	e := &RemoteError{Kind: RemoteFailed, Source: r.source, Status: res.StatusCode}
	e.Message = redact(serverMessage(res, body), secrets)
	code := strconv.Itoa(res.StatusCode)
	said := func(otherwise string) string {
		if m := oneLine(e.Message); m != "" {
			return code + ": " + m
		}
		if otherwise == "" {
			otherwise = strings.ToLower(http.StatusText(res.StatusCode))
		}
		return strings.TrimSpace(code + " " + otherwise)
	}
	html := mediaType(res) == "text/html"
	switch {
	case res.StatusCode/100 == 3:
		e.Kind = RemoteRedirect
		e.text = code + " redirects"
		if u, err := res.Location(); err == nil && u.Host != "" {
			e.text += " to " + visibleASCII(r.heard(u.Scheme+"://"+u.Host))
		}
		e.text += ", which is not followed: a log-in page? Name the " + r.source + " behind it"
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusForbidden, res.StatusCode == http.StatusProxyAuthRequired:
		e.Kind = RemoteUnauthorized
		e.text = said("") + r.credentialHint(res.StatusCode, e.Message, len(secrets) > 0)
	case res.StatusCode == http.StatusBadRequest && strings.Contains(e.Message, "HTTP request to an HTTPS server"):
		e.Kind = RemoteTLS
		e.text = "it speaks TLS: write https:// in its URL"
	case res.StatusCode == http.StatusNotFound && (html || e.Message == "" || strings.HasPrefix(e.Message, "404 page not found")):
		e.Kind = RemoteStranger
		e.text = code + ": no " + r.source + " under this path"
		if a := r.addr(); a != "" {
			e.text += ": check " + a
		}
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout:
		e.text = said("")
	case res.StatusCode/100 == 4:
		e.Kind = RemoteQuery
		e.text = said("")
	default:
		e.text = said("")
		if html {
			e.text += " (answers text/html: a proxy before it?)"
		}
	}
	return e
}

// credentialHint says what to set, as the end of a text.
func (r *remote) credentialHint(status int, message string, sent bool) string {
	p := strings.ToUpper(r.source)
	switch {
	case r.own:
		return ": the console's token may not read this"
	case status == http.StatusProxyAuthRequired:
		return ": the proxy before it wants credentials"
	case strings.Contains(message, "no org id"):
		return ": it serves several tenants: set sources." + strings.ToLower(r.source) + ".tenant, or " + p + "_ORG_ID"
	case sent && status == http.StatusUnauthorized:
		return ": the credentials are refused: check " + p + "_USERNAME and " + p + "_PASSWORD, or " + p + "_BEARER_TOKEN"
	case sent:
		return ": the credentials may not read this"
	}
	return ": wants credentials: set " + p + "_USERNAME and " + p + "_PASSWORD, or " + p + "_BEARER_TOKEN"
}

// ended names the end of ctx.
func (r *remote) ended(ctx context.Context, started time.Time) *RemoteError {
	if errors.Is(ctx.Err(), context.Canceled) {
		return r.fail(RemoteGivenUp, context.Canceled, "the question was given up")
	}
	return r.fail(RemoteTimeout, context.DeadlineExceeded, "no answer within "+roughly(time.Since(started)))
}

// unreachable names the cause of an exchange that failed.
func (r *remote) unreachable(ctx context.Context, started time.Time, err error) *RemoteError {
	if ctx.Err() != nil {
		return r.ended(ctx, started)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // its text repeats the whole URL
	}
	if text := r.tlsText(err); text != "" {
		return r.fail(RemoteTLS, err, text)
	}
	dns, isDNS := errors.AsType[*net.DNSError](err)
	timeout, isTimeout := errors.AsType[net.Error](err)
	where := r.base.Host
	if r.own {
		where = "the gateway"
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return r.fail(RemoteUnreachable, err, "connection refused by "+where)
	case r.own && errors.Is(err, fs.ErrNotExist):
		return r.fail(RemoteUnreachable, err, "the gateway's socket is not there")
	case isDNS && dns.IsNotFound:
		return r.fail(RemoteUnreachable, err, "no such host: "+visibleASCII(dns.Name))
	case isTimeout && timeout.Timeout():
		return r.fail(RemoteTimeout, err, "no answer within "+roughly(time.Since(started)))
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET):
		return r.fail(RemoteBroken, err, where+" closed the connection without an answer")
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Err != nil {
		return r.fail(RemoteUnreachable, err, e.Op+": "+oneLine(e.Err.Error()))
	}
	return r.fail(RemoteUnreachable, err, oneLine(err.Error()))
}

// tlsText names what TLS stumbled over, empty if it did not.
func (r *remote) tlsText(err error) string {
	p := strings.ToUpper(r.source)
	_, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, isName := errors.AsType[x509.HostnameError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	alert, isAlert := errors.AsType[tls.AlertError](err)
	_, isRecord := errors.AsType[tls.RecordHeaderError](err)
	_, isVerification := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case errors.Is(err, http.ErrSchemeMismatch) || isRecord:
		return "it does not speak TLS: write http:// in its URL"
	case isUnknown:
		return "TLS: its certificate is signed by nobody known here: set " + p + "_CA_CERT_PATH"
	case isName:
		return "TLS: its certificate is for another name than " + r.base.Hostname()
	case isInvalid && invalid.Reason == x509.Expired:
		return "TLS: its certificate has expired, or a clock is wrong"
	case isInvalid || isVerification:
		return "TLS: its certificate is not valid"
	case isAlert:
		return "TLS: refused: " + oneLine(alert.Error()) + ": set " + p + "_CLIENT_CERT_PATH and " + p + "_CLIENT_KEY_PATH if it wants a certificate"
	case strings.HasPrefix(err.Error(), "remote error: tls:"), strings.HasPrefix(err.Error(), "tls: "):
		return "TLS: " + oneLine(err.Error())
	}
	return ""
}

// serverMessage is what a server says in an answer that is no success: plain
// text, or the error of a JSON body. Of a page for people it is nothing.
func serverMessage(res *http.Response, body []byte) string {
	if len(body) > maxRemoteError {
		body = body[:maxRemoteError]
	}
	var v struct {
		Error   json.RawMessage `json:"error"` // Prometheus
		Message string          `json:"message"`
	}
	trimmed := bytes.TrimSpace(body)
	switch {
	case len(trimmed) == 0 || mediaType(res) == "text/html" || trimmed[0] == '<':
		return ""
	case trimmed[0] == '{' && json.Unmarshal(trimmed, &v) == nil:
		var s string
		if json.Unmarshal(v.Error, &s) == nil && s != "" {
			return s
		}
		return v.Message
	}
	return strings.ToValidUTF8(string(trimmed), "\uFFFD")
}

func mediaType(res *http.Response) string {
	typ, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return typ
}

// oneLine folds white space and cuts what is too long.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= maxMessage {
		return s
	}
	cut := maxMessage
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

func visibleASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, oneLine(s))
}

// roughly rounds a time that somebody waited.
func roughly(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(time.Second).String()
	case d >= 10*time.Millisecond:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// bytesText writes a number of bytes as in "1.2 GB".
func bytesText(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n)/1000, 0
	for v >= 999.95 && unit < len(units)-1 {
		v /= 1000
		unit++
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + units[unit:unit+1] + "B"
}

// illness is what is wrong with the gateway's own store, nil if nothing is.
func illness(source string, s api.Source) *RemoteError {
	if s.Error == "" {
		return nil
	}
	return &RemoteError{Kind: RemoteFailed, Source: source, Message: s.Error, text: "the gateway's own is off: " + oneLine(s.Error)}
}
