package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	dialTimeout  = 5 * time.Second
	maxErrorBody = 1 << 20 // bytes
)

// Options of a Client. The zero value is a client without a token.
type Options struct {
	// Token is sent as a bearer token. NewClient refuses to send it in clear to
	// another host.
	Token string
	// Session is the random id of a console (NewSession); empty: the caller is
	// not listed among the sessions.
	Session string
	// ReadOnly refuses every command before it is sent, and asks the gateway to
	// refuse any that came all the same.
	ReadOnly bool
	// CAs signs the gateway's certificate; nil: the system's.
	CAs *x509.CertPool
	// UserAgent names the program; empty: "failback".
	UserAgent string
}

// Filter selects decisions. Zero fields select everything.
type Filter struct {
	Limit     int // 0: the gateway's default
	Task      string
	Status    string // a workflow_status
	Provider  string // answered, was the primary, or was attempted
	RequestID string
	Since     time.Time // accepted at or after
}

// Client speaks to the operator API of one gateway. It is safe for concurrent
// use. Every method takes its time limit from its context. An answer that is
// not a success is an *Error; a gateway that does not answer, or whose answer no
// gateway gives, is an *UnreachableError.
type Client struct {
	target   string
	base     url.URL
	http     http.Client
	header   http.Header
	readOnly bool

	began time.Time
	// active is how long after began somebody was last there, 0: nobody says.
	active atomic.Int64
}

// NewClient returns a client for target: unix:PATH, http://HOST:PORT or
// https://HOST:PORT. It connects to nothing yet.
func NewClient(target string, o Options) (*Client, error) {
	c := &Client{target: target, header: http.Header{}, began: time.Now()}
	tr := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		TLSClientConfig:     &tls.Config{RootCAs: o.CAs, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        8,
		IdleConnTimeout:     time.Minute,
		MaxIdleConnsPerHost: 8,
	}
	if path, ok := strings.CutPrefix(target, "unix:"); ok {
		if p, ok := strings.CutPrefix(path, "//"); ok {
			path = p
		}
		if path == "" {
			return nil, errors.New("target unix: names no path: want unix:PATH, such as unix:data/failback.sock")
		}
		c.base = url.URL{Scheme: "http", Host: "failback"}
		tr.Proxy = nil
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", path)
		}
	} else {
		u, err := parseTarget(target)
		if err != nil {
			return nil, err
		}
		c.base = *u
		c.target = u.String()
		if o.Token != "" && u.Scheme == "http" && !loopback(u.Hostname()) {
			return nil, fmt.Errorf("target %s: the token would be sent in clear to another host: use https, or the socket", c.target)
		}
	}
	if o.Token != "" {
		if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return nil, errors.New("the token holds spaces or other characters that no token has: pass the token itself, without a name before it")
		}
		c.header.Set("Authorization", "Bearer "+o.Token)
	}
	if o.Session != "" {
		c.header.Set(SessionHeader, o.Session)
	}
	if c.readOnly = o.ReadOnly; c.readOnly {
		c.header.Set(ReadOnlyHeader, "true")
	}
	c.header.Set("User-Agent", o.UserAgent)
	if o.UserAgent == "" {
		c.header.Set("User-Agent", "failback")
	}
	c.http = http.Client{
		Transport: tr,
		// A redirect would carry the token to wherever it points.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// parseTarget reads an http or https target. No error repeats the target's
// user info.
func parseTarget(target string) (*url.URL, error) {
	const want = "want unix:PATH, http://HOST:PORT or https://HOST:PORT"
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		if strings.Contains(target, "@") {
			return nil, errors.New("target: not understood: " + want)
		}
		if strings.HasPrefix(target, "/") || strings.HasPrefix(target, "./") || strings.HasSuffix(target, ".sock") {
			return nil, fmt.Errorf("target %q: a socket is written unix:%s", target, target)
		}
		return nil, fmt.Errorf("target %q: %s", target, want)
	}
	switch {
	case u.Host == "":
		return nil, errors.New("target " + u.Redacted() + ": no host: " + want)
	case u.User != nil:
		return nil, errors.New("target " + u.Redacted() + ": no user or password belongs into it: pass the token apart")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("target: no query or fragment belongs into it: " + want)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// NewSession returns a random session id.
func NewSession() string { return rand.Text() }

// Target is what NewClient was given.
func (c *Client) Target() string { return c.target }

// BaseURL is what the paths of the operator API are appended to. For a socket
// its host means nothing: only Transport reaches it.
func (c *Client) BaseURL() string { return strings.TrimRight(c.base.String(), "/") }

// Transport is how this client reaches its gateway, with its token, for other
// APIs that the gateway serves, such as PrometheusPath. It refuses every other
// scheme and host, so that the token goes nowhere else.
func (c *Client) Transport() http.RoundTripper { return transport{c} }

type transport struct{ c *Client }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != t.c.base.Scheme || r.URL.Host != t.c.base.Host {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, errors.New("the gateway's connection serves the gateway alone")
	}
	own := r.Clone(r.Context())
	for k, v := range t.c.header {
		if k != SessionHeader {
			own.Header[k] = v
		}
	}
	return t.c.http.Transport.RoundTrip(own)
}

// Active says that whoever sits before this client is there now: they pressed a
// key. Once it was called, every question of a client with a session says how
// long ago that was. It does not block.
func (c *Client) Active() { c.active.Store(int64(time.Since(c.began)) + 1) }

// Leave ends the client's session: its console is listed no longer. It needs no
// session.
func (c *Client) Leave(ctx context.Context) error {
	if c.header.Get(SessionHeader) == "" {
		return nil
	}
	res, _, err := c.do(ctx, http.MethodDelete, "/operator/v1/session", nil, nil, nil)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// State asks for the live state.
func (c *Client) State(ctx context.Context) (*State, error) {
	return get[State](ctx, c, "/operator/v1/state", nil, smallAnswer)
}

// Decisions asks for the newest decisions that match f, newest first.
func (c *Client) Decisions(ctx context.Context, f Filter) (*Decisions, error) {
	q := url.Values{}
	set := func(k, v string) {
		if v != "" {
			q.Set(k, v)
		}
	}
	set("task", f.Task)
	set("status", f.Status)
	set("provider", f.Provider)
	set("request_id", f.RequestID)
	if f.Limit != 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.Format(time.RFC3339Nano))
	}
	return get[Decisions](ctx, c, "/operator/v1/decisions", q, decisionsAnswer)
}

// Events asks for the events after a sequence number, oldest first; 0: all in
// the ring.
func (c *Client) Events(ctx context.Context, after uint64) (*Events, error) {
	q := url.Values{}
	if after != 0 {
		q.Set("after", strconv.FormatUint(after, 10))
	}
	return get[Events](ctx, c, "/operator/v1/events", q, smallAnswer)
}

// Audit asks for the newest limit entries of the audit; 0: the gateway's
// default.
func (c *Client) Audit(ctx context.Context, limit int) (*AuditTrail, error) {
	q := url.Values{}
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return get[AuditTrail](ctx, c, "/operator/v1/audit", q, smallAnswer)
}

// SetShare changes an upstream's share. Stale revisions are an *Error with
// CodeStaleRevision, objections to going up one with CodeBlocked; both carry
// the upstream's current state. From is sent with a raise alone, which it is about:
// a gateway that does not know it yet would refuse a lowering for it.
func (c *Client) SetShare(ctx context.Context, upstream string, cmd Command) (*Result, error) {
	if !cmd.Raises() {
		cmd.From = nil
	}
	return c.command(ctx, "/operator/v1/upstreams/", upstream, "/share", cmd)
}

// Plan approves the whole table of steps of an upstream's failback (cmd.Action
// "plan") or takes the approval back ("manual"). Approving needs the revision
// that the caller saw, and fails like SetShare; taking back never needs one.
func (c *Client) Plan(ctx context.Context, upstream string, cmd Command) (*Result, error) {
	return c.command(ctx, "/operator/v1/upstreams/", upstream, "/share", cmd)
}

// SetState makes an upstream degraded or recovering (cmd.State). Degrading is a
// lowering: it ignores the revision. Recovering goes to the first step and
// fails like SetShare.
func (c *Client) SetState(ctx context.Context, upstream string, cmd Command) (*Result, error) {
	return c.command(ctx, "/operator/v1/upstreams/", upstream, "/state", cmd)
}

// SetBreaker forces a bucket (upstream:capability) open or closed, or gives it
// back to automatic.
func (c *Client) SetBreaker(ctx context.Context, bucket string, cmd Command) (*Result, error) {
	return c.command(ctx, "/operator/v1/breakers/", bucket, "", cmd)
}

// Passthrough switches the break glass on or off.
func (c *Client) Passthrough(ctx context.Context, cmd Command) (*Result, error) {
	return c.command(ctx, "/operator/v1/passthrough", "", "", cmd)
}

// Reload makes the gateway read its configuration again. Only Reason of cmd
// applies.
func (c *Client) Reload(ctx context.Context, cmd Command) (*Result, error) {
	return c.command(ctx, "/operator/v1/reload", "", "", cmd)
}

// Incidents asks for the incidents that are kept, newest first.
func (c *Client) Incidents(ctx context.Context) (*Incidents, error) {
	return get[Incidents](ctx, c, "/operator/v1/incidents", nil, smallAnswer)
}

// Incident asks for one incident with its timeline.
func (c *Client) Incident(ctx context.Context, id string) (*Incident, error) {
	if id == "" || id == "." || id == ".." {
		return nil, notAName(id)
	}
	return get[Incident](ctx, c, "/operator/v1/incidents/"+url.PathEscape(id), nil, smallAnswer)
}

// OpenIncident opens an incident by hand. The result holds it.
func (c *Client) OpenIncident(ctx context.Context, title string) (*Result, error) {
	return c.command(ctx, "/operator/v1/incidents", "", "", Command{Reason: title})
}

// IncidentNote adds a text to the timeline of an incident.
func (c *Client) IncidentNote(ctx context.Context, id, text string) (*Result, error) {
	return c.command(ctx, "/operator/v1/incidents/", id, "/note", Command{Reason: text})
}

// Tick is a step of a runbook that was done, or whose tick is taken back.
type Tick struct {
	Runbook string
	Step    int // from 1
	Done    bool
	// Words are the step's own, so that the record can be read when the runbook is
	// another; the gateway knows no runbooks.
	Words string
}

// IncidentTick notes a tick in an incident.
func (c *Client) IncidentTick(ctx context.Context, id string, t Tick) (*Result, error) {
	return c.command(ctx, "/operator/v1/incidents/", id, "/tick", Command{Runbook: t.Runbook, Step: t.Step, Done: &t.Done, Reason: t.Words})
}

// IncidentAnswer answers a closing question. It replaces an answer only if seen is
// that one's time; any other that is there is an *Error with CodeStaleRevision that
// carries it.
func (c *Client) IncidentAnswer(ctx context.Context, id, question, answer string, seen time.Time) (*Result, error) {
	return c.command(ctx, "/operator/v1/incidents/", id, "/answer", Command{Question: question, Answer: answer, Seen: seen})
}

// CloseIncident closes an incident. While closing questions are unanswered it is
// an *Error with CodeBlocked that names them.
func (c *Client) CloseIncident(ctx context.Context, id string) (*Result, error) {
	return c.command(ctx, "/operator/v1/incidents/", id, "/close", Command{})
}

// CloseIncidentAnyway closes an incident whatever is unanswered; the reason must
// not be empty.
func (c *Client) CloseIncidentAnyway(ctx context.Context, id, reason string) (*Result, error) {
	return c.command(ctx, "/operator/v1/incidents/", id, "/close", Command{Override: true, Reason: reason})
}

// ReopenIncident opens a closed incident again.
func (c *Client) ReopenIncident(ctx context.Context, id string) (*Result, error) {
	return c.command(ctx, "/operator/v1/incidents/", id, "/reopen", Command{})
}

// Healthz asks whether the process answers at all. It needs no token.
func (c *Client) Healthz(ctx context.Context) error {
	res, _, err := c.do(ctx, http.MethodGet, "/healthz", nil, nil, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxErrorBody))
	return nil
}

func get[T any, P interface {
	*T
	answered
}](ctx context.Context, c *Client, path string, q url.Values, most bound) (*T, error) {
	res, _, err := c.do(ctx, http.MethodGet, path, q, nil, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return decode[T, P](c, res, most)
}

func notAName(s string) error {
	return &Error{Code: CodeInvalid, Message: fmt.Sprintf("%q is not a name", s), HTTPStatus: http.StatusUnprocessableEntity}
}

// command posts cmd to prefix + name + suffix.
func (c *Client) command(ctx context.Context, prefix, name, suffix string, cmd Command) (*Result, error) {
	if c.readOnly {
		return nil, &Error{Code: CodeForbidden, Message: "nothing was sent: this client was started read-only"}
	}
	path := prefix
	if strings.HasSuffix(prefix, "/") {
		if name == "" || name == "." || name == ".." {
			return nil, notAName(name)
		}
		path += url.PathEscape(name) + suffix
	}
	body, err := json.Marshal(cmd)
	if err != nil {
		return nil, err
	}
	res, sent, err := c.do(ctx, http.MethodPost, path, nil, body, nil)
	if err == nil {
		defer res.Body.Close()
		var r *Result
		if r, err = decode[Result](c, res, smallAnswer); err == nil {
			return r, nil
		}
	}
	if u, ok := errors.AsType[*UnreachableError](err); ok && sent {
		u.MayHaveHappened = true
		u.Hint = "it is not known whether the command took effect: look at the state before you repeat it"
	}
	return nil, err
}

// do sends one request. A success comes back with its body open; anything else
// is an error and nothing is open. sent says that the request, or some of it,
// went out.
func (c *Client) do(ctx context.Context, method, path string, q url.Values, body []byte, h http.Header) (res *http.Response, sent bool, err error) {
	u := c.base.JoinPath() // a copy
	p, err := url.PathUnescape(path)
	if err != nil {
		return nil, false, err
	}
	u.Path, u.RawPath, u.RawQuery = c.base.Path+p, c.base.Path+path, q.Encode()

	var wrote atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { wrote.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	for k, v := range c.header {
		req.Header[k] = v
	}
	for k, v := range h {
		req.Header[k] = v
	}
	if last := c.active.Load(); last > 0 && c.header.Get(SessionHeader) != "" {
		idle := max(time.Since(c.began)-time.Duration(last), 0)
		req.Header.Set(IdleHeader, strconv.Itoa(int(idle/time.Second)))
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err = c.http.Do(req)
	if err != nil {
		return nil, wrote.Load(), c.unreachable(ctx, err)
	}
	if res.StatusCode/100 != 2 {
		defer res.Body.Close()
		return nil, true, c.refusal(res)
	}
	return res, true, nil
}

// refusal reads the answer of a request that did not succeed.
func (c *Client) refusal(res *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	e := &Error{}
	if json.Unmarshal(b, e) != nil || e.Code == "" {
		return c.notGateway(res)
	}
	e.HTTPStatus = res.StatusCode
	return e
}

func (c *Client) notGateway(res *http.Response) error {
	return &UnreachableError{
		Target: c.target,
		Err:    fmt.Errorf("it answered %d as %q, which no operator API does", res.StatusCode, res.Header.Get("Content-Type")),
		Hint:   "this may be the address for clients, or a proxy: name operator.listen or the socket",
	}
}
