package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"failback/gateway/decision"
	"failback/gateway/wire"
)

const (
	// maxErrorBody is how much of an error answer is read to be judged, and
	// then again to use the connection further.
	maxErrorBody = 256 << 10
	// errorBodyFor is how long it is read: its status says most already.
	errorBodyFor = 2 * time.Second
)

// refusal ends the attempt with an answer that is no success by its status.
// known says that the body is in an encoding that can be read.
func (x *exchange) refusal(known bool) {
	if x.resp.StatusCode == http.StatusSwitchingProtocols {
		// There is no body, and reading would wait for one.
		x.judged(wire.JudgeError(x.c.Endpoint.Dialect(), x.resp.StatusCode, x.resp.Header, nil))
		return
	}
	x.watch.atMost(errorBodyFor)
	x.held = getBuffer(bufferSize)
	var err error
	for err == nil && len(*x.held) < maxErrorBody {
		x.held = room(x.held, bufferSize/2)
		b := *x.held
		var n int
		n, err = x.plain.Read(b[len(b):min(cap(b), maxErrorBody)])
		*x.held = b[:len(b)+n]
	}
	if err != nil && err != io.EOF && x.parent.Err() != nil {
		class, detail := x.ended()
		x.fail(class, detail)
		return
	}
	body := *x.held
	if !known {
		body = nil
	}
	status := x.resp.StatusCode
	v := wire.JudgeError(x.c.Endpoint.Dialect(), status, x.resp.Header, body)
	switch status {
	case http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable, 529:
		v.NamesModel = v.NamesModel || v.Class.Blame() != decision.OfCredential && wire.NamesModel(body, x.c.Model)
	}
	x.judged(v)
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, 529:
		x.out.Unprocessed = true
	}
	if err == io.EOF && isCallers(v.Class) {
		delete(x.resp.Header, "Content-Length")
		x.c.ErrorAnswer = &Answer{Status: status, Header: x.resp.Header, Body: bytes.Clone(*x.held)}
	}
	x.drain(drainFailed)
}

// isCallers reports whether the upstream's own words go back to the caller.
func isCallers(c decision.Class) bool {
	switch c {
	case decision.InvalidRequest, decision.ContextLength, decision.ContentFilter:
		return true
	}
	return false
}

// drain reads what is left of the answer, within bounds, so that its
// connection can be used again.
func (x *exchange) drain(most time.Duration) {
	if x.readErr != nil {
		return
	}
	x.watch.atMost(most)
	x.open, x.framing = false, false
	buf := getBuffer(bufferSize)
	defer putBuffer(buf)
	for read := 0; read < maxErrorBody; {
		n, err := x.Read((*buf)[:cap(*buf)])
		read += n
		if err != nil {
			return
		}
	}
}

// answerCaller keeps an error found in a successful answer for the caller, as
// the answer it would have been, if the mistake is the caller's and nothing
// was relayed.
func (x *exchange) answerCaller(body []byte) {
	if !isCallers(x.out.Class) || x.out.Begun {
		return
	}
	body = envelope(x.c.Endpoint.Dialect(), body)
	if body == nil {
		return
	}
	status := http.StatusBadRequest
	switch x.out.Code {
	case "request_too_large":
		status = http.StatusRequestEntityTooLarge
	case "conflict_error":
		status = http.StatusConflict
	}
	h := x.resp.Header.Clone()
	delete(h, "Content-Length")
	h.Set("Content-Type", "application/json")
	x.c.ErrorAnswer = &Answer{Status: status, Header: h, Body: body}
}

// envelope returns the error in body as a whole answer of its dialect, nil if
// it cannot be made out. A body that is one already comes back unchanged; the
// Responses API has its errors in events of other shapes.
func envelope(d decision.Dialect, body []byte) []byte {
	type oneError struct {
		Code    *string `json:"code"`
		Message string  `json:"message"`
		Param   *string `json:"param"`
		Type    string  `json:"type"`
	}
	var found struct {
		oneError
		Error    json.RawMessage `json:"error"`
		Response struct {
			Error *oneError `json:"error"`
		} `json:"response"`
	}
	if json.Unmarshal(body, &found) != nil {
		return nil
	}
	if len(found.Error) > 0 && found.Error[0] == '{' {
		return bytes.Clone(body)
	}
	e := found.Response.Error
	if e == nil {
		e = &found.oneError
	}
	if d != decision.OpenAI || e.Message == "" {
		return nil
	}
	out, err := json.Marshal(map[string]any{"error": map[string]any{
		"message": e.Message, "type": "invalid_request_error", "param": e.Param, "code": e.Code,
	}})
	if err != nil {
		return nil
	}
	return out
}

// eventData joins the data lines of an event.
func eventData(frame []byte) []byte {
	var data []byte
	for line := range bytes.SplitSeq(bytes.ReplaceAll(frame, []byte("\r"), []byte("\n")), []byte("\n")) {
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(rest, []byte(" "))...)
		}
	}
	return data
}
