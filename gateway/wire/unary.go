package wire

import (
	"bytes"

	"failback/gateway/decision"
)

// JudgeUnary judges the whole body of a 2xx answer that is no event stream: it
// is ok, or bad_response, or of the class an error in it has.
func JudgeUnary(ep Endpoint, body []byte) Verdict {
	u := unary{ep: ep, scanner: scanner{data: body}}
	first := u.peek()
	whole := false
	var f finding
	if first == '{' {
		f, whole = u.answer()
	} else {
		u.skip()
	}
	bad := func(detail string) Verdict {
		v := u.said.verdict(decision.BadResponse)
		v.Detail = detail
		return v
	}
	switch {
	case first == 0 && len(bytes.TrimSpace(body)) == 0:
		return bad("an empty answer")
	case first == '<':
		return bad("HTML or XML instead of JSON")
	case !u.end() && u.cut:
		return bad("the answer's JSON is cut off")
	case u.fault != "":
		return bad("the answer is no JSON")
	case f.failed, first != '{':
		v := u.said.verdict("")
		inBand(&v, readComplaint(body))
		if f.class != "" && v.Class == decision.BadResponse {
			v.Class = f.class
		}
		if v.Code == "" {
			v.Code = f.code
		}
		v.Detail = "an error inside a successful answer"
		if first != '{' {
			v.Detail = "the answer is no JSON object"
		}
		return v
	case !whole:
		return bad(missing[ep])
	}
	return u.said.verdict(decision.OK)
}

var missing = [...]string{
	ChatCompletions: "an answer without choices",
	Completions:     "an answer without choices",
	Embeddings:      "an answer without embeddings",
	Responses:       "an answer that is no response",
	Messages:        "an answer without content",
	CountTokens:     "an answer without a count",
}

type unary struct {
	scanner
	ep   Endpoint
	said reported
}

// answer reads an answer and reports whether it has what makes it one.
func (u *unary) answer() (f finding, whole bool) {
	s := &u.scanner
	if u.ep == Responses {
		return u.response()
	}
	var flat bool
	for more := s.object(); more; more = s.next('}') {
		switch string(s.key()) {
		case "choices":
			if u.ep != ChatCompletions && u.ep != Completions {
				s.skip()
				break
			}
			for more := s.array(); more; more = s.next(']') {
				whole = u.choice(&f) || whole
			}
		case "data":
			if u.ep != Embeddings {
				s.skip()
				break
			}
			for more := s.array(); more; more = s.next(']') {
				whole = true
				s.skip()
			}
		case "content":
			whole = s.peek() == '[' && u.ep == Messages || whole
			s.skip()
		case "input_tokens":
			if u.ep != CountTokens {
				s.skip()
				break
			}
			_, ok := s.count() // a count that was asked for, nothing that was used
			whole = whole || ok
		case "error", "errors":
			f.failed = s.complains(0) || f.failed
		case "model":
			u.said.name(s, &u.said.model)
		case "usage":
			u.said.usage(s)
		case "object", "type":
			if t, ok := s.text(); ok && s.is(t, "error") {
				f.failed = true
			}
		case "message", "detail":
			flat = s.complains(0) || flat
		default:
			s.skip()
		}
	}
	f.failed = f.failed || flat && !whole
	return f, whole
}

// choice reads a completion's choice and reports whether it is one.
func (u *unary) choice(f *finding) bool {
	s := &u.scanner
	whole := false
	if s.peek() != '{' {
		s.skip()
		return false
	}
	for more := s.object(); more; more = s.next('}') {
		switch string(s.key()) {
		case "message":
			whole = s.peek() == '{' || whole
			s.skip()
		case "text":
			whole = s.peek() == '"' || whole
			s.skip()
		case "finish_reason":
			if t, ok := s.text(); ok && !t.empty() {
				whole = true
				failedFinish(s, t, f)
			}
		case "error":
			f.failed = s.complains(0) || f.failed
		default:
			s.skip()
		}
	}
	return whole
}

// response reads an answer of the Responses API, one in the background
// included.
func (u *unary) response() (f finding, whole bool) {
	s := &u.scanner
	var object, flat bool
	for more := s.object(); more; more = s.next('}') {
		switch string(s.key()) {
		case "object":
			if t, ok := s.text(); ok {
				object = s.is(t, "response")
				f.failed = f.failed || s.is(t, "error")
			}
		case "type":
			if t, ok := s.text(); ok && s.is(t, "error") {
				f.failed = true
			}
		case "id":
			u.said.name(s, &u.said.id)
		case "model":
			u.said.name(s, &u.said.model)
		case "usage":
			u.said.usage(s)
		case "status":
			if t, ok := s.text(); ok && (s.is(t, "failed") || s.is(t, "cancelled")) {
				f.failed, f.class, f.code = true, decision.ServerError, s.string(t)
			}
		case "output":
			whole = s.peek() == '[' || whole
			s.skip()
		case "error", "errors":
			f.failed = s.complains(0) || f.failed
		case "message", "detail":
			flat = s.complains(0) || flat
		default:
			s.skip()
		}
	}
	whole = whole || object
	f.failed = f.failed || flat && !whole
	return f, whole
}
