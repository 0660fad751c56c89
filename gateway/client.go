package gateway

import (
	"fmt"
	"net/http"
	"time"

	"failback/gateway/decision"
	"failback/gateway/wire"
)

// bodyStall is how long a client may take to send its request's body.
const bodyStall = 60 * time.Second

// serveClient handles everything that comes to the client listener.
func (g *Gateway) serveClient(w http.ResponseWriter, r *http.Request) {
	if g.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	switch r.URL.Path {
	case "/healthz":
		plain(w, http.StatusOK, "ok")
		return
	case "/readyz":
		if g.draining.Load() {
			plain(w, http.StatusServiceUnavailable, "draining")
			return
		}
		plain(w, http.StatusOK, "ready")
		return
	}
	id := requestID(r.Header)
	w.Header().Set("X-Request-Id", id)
	s := g.setup.Load()
	if r.URL.Path == "/v1/models" {
		serveModels(s, w, r, id)
		return
	}
	if r.URL.Path == outcomesPath {
		g.serveOutcomes(s, w, r, id)
		return
	}
	ep, ok := wire.EndpointFor(r.URL.Path)
	switch {
	case !ok:
		writeFailure(w, decision.OpenAI, wire.Failure{
			Status: http.StatusNotFound, Code: "not_found", RequestID: id,
			Message: "no such endpoint; the gateway serves /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses, /v1/messages, /v1/messages/count_tokens and /v1/models",
		})
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		writeFailure(w, ep.Dialect(), wire.Failure{
			Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", RequestID: id, Message: "use POST",
		})
	default:
		(&exchange{g: g, s: s, ep: ep, w: w, r: r, id: id}).serve()
	}
}

// serveModels lists the models that the caller's key may use and that exist in
// the caller's dialect, which only Anthropic's clients name.
func serveModels(s *setup, w http.ResponseWriter, r *http.Request, id string) {
	dialect := decision.OpenAI
	if r.Header.Get("Anthropic-Version") != "" {
		dialect = decision.Anthropic
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeFailure(w, dialect, wire.Failure{
			Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", RequestID: id, Message: "use GET",
		})
		return
	}
	key, ok := s.keys.find(r.Header)
	if !ok {
		writeFailure(w, dialect, unknownKey(id))
		return
	}
	var names []string
	for _, name := range s.modelNames {
		if s.plan.Models[name].Lineup(dialect) != nil && key.mayUse(name) {
			names = append(names, name)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(wire.ModelList(dialect, names))
}

// unknownKey is the same for every key that is not known and for none at all.
func unknownKey(id string) wire.Failure {
	return wire.Failure{
		Status: http.StatusUnauthorized, Code: "invalid_api_key", RequestID: id,
		Message: "the API key is missing or not known to this gateway",
	}
}

func writeFailure(w http.ResponseWriter, dialect decision.Dialect, f wire.Failure) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", "false")
	w.WriteHeader(f.Status)
	_, _ = w.Write(wire.ErrorBody(dialect, f))
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
