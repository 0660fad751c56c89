package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"failback/gateway/operator/api"
)

// statusOf is the HTTP status of an error code.
func statusOf(code string) int {
	switch code {
	case api.CodeUnauthorized:
		return http.StatusUnauthorized
	case api.CodeForbidden:
		return http.StatusForbidden
	case api.CodeNotFound:
		return http.StatusNotFound
	case api.CodeStaleRevision, api.CodeBlocked:
		return http.StatusConflict
	case api.CodeInvalid:
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// asError is err as the API answers it.
func asError(err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		c := *e
		if c.Code == "" {
			c.Code = api.CodeFailed
		}
		return &c
	}
	return &api.Error{Code: api.CodeFailed, Message: err.Error()}
}

// invalid is a refusal of what the caller wrote.
func invalid(format string, args ...any) *api.Error {
	return &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// answer writes v as JSON. Nothing of a half-encoded answer is sent.
func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.o.Log(fmt.Sprintf("operator API: an answer cannot be encoded: %v", err))
		status = http.StatusInternalServerError
		b, _ = json.Marshal(&api.Error{Code: api.CodeFailed, Message: "the answer cannot be encoded: " + err.Error()})
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	s.limitWrite(w)
	w.WriteHeader(status)
	_, _ = w.Write(append(api.VisibleJSON(b), '\n'))
}

// limitWrite bounds how long the reader of an answer may take. ServeHTTP takes
// the limit off again for the next request on the connection.
func (s *Server) limitWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.pace.answerTimeout))
}

// refuse answers e with the status of its code, or e.HTTPStatus if the server
// set one.
func (s *Server) refuse(w http.ResponseWriter, e *api.Error) {
	status := e.HTTPStatus
	if status == 0 {
		status = statusOf(e.Code)
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	s.answer(w, status, e)
}
