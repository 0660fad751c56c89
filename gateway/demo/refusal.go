package demo

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"strconv"

	"failback/gateway/decision"
)

var discard = log.New(io.Discard, "", 0)

// refusal is an answer that is not a success, in both dialects' terms.
type refusal struct {
	status  int
	kind    string // error.type of Anthropic
	openAI  string // error.type of OpenAI; empty: kind
	code    string // error.code of OpenAI; empty: null
	param   string // error.param of OpenAI; empty: null
	message string
}

// Error implements error.
func (r refusal) Error() string { return r.message }

func badRequest(param, message string) refusal {
	return refusal{status: http.StatusBadRequest, kind: "invalid_request_error", param: param, message: message}
}

// errorBody renders r. The OpenAI form keeps param and code as null, since
// clients require the keys.
func (x *exchange) errorBody(r refusal) any {
	if x.fake.opts.Dialect == decision.OpenAI {
		t := r.openAI
		if t == "" {
			t = r.kind
		}
		return map[string]any{"error": map[string]any{"message": r.message, "type": t, "param": orNull(r.param), "code": orNull(r.code)}}
	}
	return map[string]any{
		"type":       "error",
		"error":      map[string]any{"type": r.kind, "message": r.message},
		"request_id": x.w.Header().Get("Request-Id"),
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (x *exchange) refuse(r refusal) {
	x.headers()
	x.writeJSON(r.status, x.errorBody(r))
}

func (x *exchange) writeJSON(status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only values built here are written
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	x.w.WriteHeader(status)
	_, _ = x.w.Write(b)
}
