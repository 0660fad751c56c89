package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"failback/gateway/wire"
)

// path is one of the ways by which a client can ask: an endpoint, whole or as
// a stream, by one version of HTTP.
type path struct {
	ep     wire.Endpoint
	stream bool
	secure bool // HTTP/2
}

func (p path) String() string {
	form := "whole"
	if p.stream {
		form = "stream"
	}
	return fmt.Sprintf("%s/%s/%s", p.ep, form, protocolOf(p.secure))
}

// body is a request that p takes.
func (p path) body() string {
	stream := ""
	if p.stream {
		stream = `,"stream":true`
	}
	switch p.ep {
	case wire.Completions:
		return `{"model":"m","prompt":"hi","max_tokens":16` + stream + `}`
	case wire.Embeddings:
		return `{"model":"m","input":"hi"}`
	case wire.Responses:
		return `{"model":"m","input":"hi","max_output_tokens":16` + stream + `}`
	case wire.CountTokens:
		return `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	}
	return `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":16` + stream + `}`
}

// reply is what the upstream who answers.
func (p path) reply(who string) reply {
	return replyOf(strings.TrimPrefix(p.ep.ClientPath(), "/"), who, false)
}

// bucket is the one of A that is blamed.
func (p path) bucket() string {
	switch {
	case p.stream:
		return "A:stream"
	case p.ep == wire.Embeddings:
		return "A:embeddings"
	}
	return "A:text"
}

// paths are all ways of which want holds.
func paths(want func(path) bool) (ps []path) {
	for _, ep := range wire.Endpoints {
		for _, stream := range []bool{false, true} {
			if stream && !ep.Streams() {
				continue
			}
			for _, secure := range []bool{false, true} {
				if p := (path{ep, stream, secure}); want(p) {
					ps = append(ps, p)
				}
			}
		}
	}
	return ps
}

func anyPath(path) bool      { return true }
func streamed(p path) bool   { return p.stream }
func unstreamed(p path) bool { return !p.stream }

// alongPaths runs f in a scene of its own for each way of which want holds. s
// needs no dialect.
func alongPaths(t *testing.T, want func(path) bool, s setting, f func(*scene, path)) {
	t.Helper()
	for _, p := range paths(want) {
		t.Run(p.String(), func(t *testing.T) {
			s := s
			s.dialect, s.secure = p.ep.Dialect(), p.secure
			inScene(t, s, func(w *scene) { f(w, p) })
		})
	}
}

// ask asks by p.
func (w *scene) ask(p path, headers ...string) *got {
	w.Helper()
	return w.call(p.ep.ClientPath(), p.body(), headers...)
}

// answered checks that g is the whole answer of who, and nothing else.
func (w *scene) answered(p path, g *got, who string) {
	w.Helper()
	a := p.reply(who)
	want := a.whole
	if p.stream {
		want = a.preamble + a.first + a.rest
	}
	if g.status != 200 || g.err != nil || g.body != want {
		w.Errorf("%d, %v:\n%s\nnot %s's\n%s", g.status, g.err, g.body, who, want)
	}
}

// broken checks that g is what A's answer began with, then one error event in
// the dialect of p, and an end that no client takes for a whole answer.
func (w *scene) broken(p path, g *got, began string) {
	w.Helper()
	errs := g.errorFrames()
	switch {
	case g.status != 200 || !strings.HasPrefix(g.body, began):
		w.Errorf("%d %q does not begin with %q", g.status, g.body, began)
	case len(errs) != 1 || g.frames[len(g.frames)-1] != errs[0]:
		w.Errorf("errors %q, last %q", errs, g.frames[len(g.frames)-1])
	case g.err == nil:
		w.Error("the connection ended in order")
	case g.body != began+errs[0]+"\n\n":
		w.Errorf("%q is more than %q and one error", g.body, began)
	}
	for _, end := range []string{"[DONE]", "message_stop", "response.completed"} {
		if strings.Contains(strings.TrimPrefix(g.body, began), end) {
			w.Errorf("%q ends with %s", g.body, end)
		}
	}
	named := len(errs) > 0 && strings.HasPrefix(errs[0], "event: error")
	if want := p.ep == wire.Messages || p.ep == wire.Responses; named != want {
		w.Errorf("the error event is %q", errs)
	}
}
