package sources

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"failback/gateway/operator/api"
)

// longestGet is how many bytes of a question still go as GET: some proxies take
// no more of a URL.
const longestGet = 4000

// Prometheus is a client of the Prometheus that a gateway names, configured or
// its own behind gw, for those who ask PromQL of their own, and how often it
// takes samples. It shows what env says, answers are checked and bounded, and a
// question whose context has no deadline ends by the configured timeout. Its
// errors are *RemoteError, and *promv1.Error for a refusal that was answered as
// a success. It asks nothing yet; what is set wrongly is the error.
func Prometheus(gw Embedded, s api.Sources, env Env) (promv1.API, time.Duration, error) {
	r, err := newRemote("Prometheus", gw, s.Prometheus, "", env)
	p := newMetrics(r, s.Prometheus)
	return p.api, p.period, err
}

// caller carries the client library's questions, without its own way of errors
// that repeat whole URLs, and of redirects.
type caller struct {
	*remote
	method  string        // get, post; else auto
	timeout time.Duration // of a question whose context has no deadline
}

// URL appends a path of the API, with its :names filled in, to where the server
// is.
func (c *caller) URL(path string, args map[string]string) *url.URL {
	u := url.URL{Scheme: "http", Host: "none"} // of one that is off
	if c.base != nil {
		u = *c.base
	}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, ":"); ok {
			parts[i] = args[name]
		}
	}
	u.Path += strings.Join(parts, "/")
	return &u
}

// Do asks. A question with a form goes by the configured method; auto is GET
// where it fits, and once more by the other method where a proxy refuses the
// one or loses its body.
func (c *caller) Do(ctx context.Context, asked *http.Request) (*http.Response, []byte, error) {
	if ill := c.said.Load(); ill != nil {
		return nil, nil, ill
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	if asked.Body == nil || asked.Method != http.MethodPost {
		return c.send(asked.Clone(ctx))
	}
	form, err := io.ReadAll(asked.Body)
	_ = asked.Body.Close()
	if err != nil {
		return nil, nil, err
	}
	by := func(method string) (*http.Response, []byte, error) {
		req := asked.Clone(ctx)
		req.Method, req.Body, req.ContentLength, req.GetBody = method, nil, 0, nil
		if method == http.MethodGet {
			req.Header.Del("Content-Type")
			req.URL.RawQuery = string(form)
		} else {
			req.ContentLength = int64(len(form))
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(form))), nil }
			req.Body, _ = req.GetBody()
		}
		return c.send(req)
	}
	switch {
	case c.method == "get":
		return by(http.MethodGet)
	case c.method == "post":
		res, body, err := by(http.MethodPost)
		return res, body, c.lostBody(err)
	}
	method, other := http.MethodGet, http.MethodPost
	if len(form) > longestGet {
		method, other = other, method
	}
	res, body, err := by(method)
	if methodRefused(err) || method == http.MethodPost && logInPage(err) {
		if res, body, err := by(other); err == nil {
			return res, body, nil
		}
	}
	return res, body, err
}

func (c *caller) send(req *http.Request) (*http.Response, []byte, error) {
	status, body, err := c.do(req)
	if err == nil && req.Method == http.MethodPost {
		err = c.errorInSuccess(body)
	}
	if err != nil {
		return nil, nil, err
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Request: req}, body, nil
}

// methodRefused reports whether err may be about the method alone: it is
// refused, or what came with it did not fit or did not arrive.
func methodRefused(err error) bool {
	e, ok := errors.AsType[*RemoteError](err)
	if !ok {
		return false
	}
	switch e.Status {
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented,
		http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge, http.StatusLengthRequired, http.StatusRequestEntityTooLarge:
		return true
	}
	return emptyQuery(e)
}

// emptyQuery reports whether a server saw no query, though one was sent.
func emptyQuery(e *RemoteError) bool {
	if e.Kind != RemoteQuery {
		return false
	}
	for _, said := range []string{"no expression found in input", "empty time", `missing "query"`, "cannot parse \"\" to a valid timestamp", "missing `query`"} {
		if strings.Contains(e.Message, said) {
			return true
		}
	}
	return false
}

// logInPage reports whether err may be a page for people who are to log in. A
// GET that was shown one needs no second question.
func logInPage(err error) bool {
	e, ok := errors.AsType[*RemoteError](err)
	return ok && (e.Kind == RemoteRedirect || e.Kind == RemoteStranger)
}

// errorInSuccess is the refusal of a query whose status a proxy made a success;
// nil if it is none. Only of a query that did not arrive it must be known here:
// the rest is the library's.
func (c *caller) errorInSuccess(body []byte) error {
	var v struct{ Status, ErrorType, Error string }
	if len(body) > maxRemoteError || json.Unmarshal(body, &v) != nil || v.Status != "error" {
		return nil
	}
	e := c.fail(RemoteQuery, nil, oneLine(v.ErrorType+": "+v.Error))
	if e.Message = v.Error; emptyQuery(e) {
		return e
	}
	return nil
}

// lostBody adds what to do to the refusal of a POST that was asked for.
func (c *caller) lostBody(err error) error {
	e, ok := errors.AsType[*RemoteError](err)
	if !ok || !methodRefused(e) {
		return err
	}
	hinted := *e
	hinted.text += ": is POST refused, or its body lost, on the way? sources.prometheus.method: get asks otherwise"
	return &hinted
}
