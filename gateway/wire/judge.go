package wire

import (
	"bytes"
	"math/bits"

	"failback/gateway/decision"
)

// Kind says what a frame is good for.
type Kind uint8

const (
	// Preamble: nothing of the answer yet. Hold it back.
	Preamble Kind = iota
	// Output: the frame carries content, reasoning or a tool call.
	Output
	// Other: a frame without output after the first output, or any frame after
	// the end.
	Other
	// Terminal: the provider's own end of the stream. What follows it, if
	// anything, is relayed too.
	Terminal
	// Error: an error inside the stream, or a frame that is none. It is the
	// end of the attempt.
	Error
)

// Mark is the judgement of one frame.
type Mark struct {
	Kind Kind
	// Verdict is set for Terminal and Error only.
	Verdict Verdict
}

// StreamJudge judges the frames of one attempt's stream in their order. It is
// not safe for concurrent use.
type StreamJudge struct {
	ep      Endpoint
	scanner scanner
	joined  []byte
	said    reported

	begun    bool // a frame has come
	spoken   bool // a frame with data has come
	output   bool
	finished bool
	over     bool

	// Of a completion's choices, by index: those seen, and those whose finish
	// reason was.
	choices, ended uint64
}

// NewStreamJudge returns a judge of one stream that answers ep.
func NewStreamJudge(ep Endpoint) *StreamJudge { return &StreamJudge{ep: ep} }

// finding is what one frame's data turned out to hold.
type finding struct {
	output   bool
	terminal bool
	failed   bool           // it holds an error
	class    decision.Class // the error's, where nothing but the kind of event tells
	code     string
}

// Judge says what frame is. It keeps nothing of it.
func (j *StreamJudge) Judge(frame []byte) Mark {
	if !j.begun {
		j.begun = true
		frame = bytes.TrimPrefix(frame, []byte("\ufeff"))
	}
	if j.over {
		return Mark{Kind: Other}
	}
	var e event
	e, j.joined = parseEvent(frame, j.joined)
	data := bytes.TrimSpace(e.data)
	failure := string(e.name) == "error"
	switch {
	case len(data) > 0:
	case failure:
		return j.fail(decision.BadResponse, "an error event without data")
	case len(e.stray) > 0 && !e.has && bytes.IndexByte([]byte("{[<"), e.stray[0]) >= 0:
		return j.error(e.stray, finding{}, "the answer is no event stream")
	default:
		return j.quiet()
	}
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		return j.done()
	}
	j.spoken = true

	s := &j.scanner
	s.reset(data)
	var f finding
	detail := "an error inside a stream"
	switch s.peek() {
	case '{':
		f = j.object(e.name)
	case 'n':
		s.skip()
	default: // in an array there may be an error, as Google has it
		f.failed, detail = true, "a frame that holds no JSON object"
		s.skip()
	}
	f.failed = f.failed || failure
	switch {
	case !s.end():
		switch {
		case failure:
			return j.error(data, f, "an error event that is no JSON")
		case s.cut && !e.whole:
			return j.fail(decision.Interrupted, "the stream ends inside a frame")
		}
		return j.fail(decision.BadResponse, "a frame with malformed JSON")
	case f.failed:
		return j.error(data, f, detail)
	case f.terminal:
		return j.terminal()
	case f.output:
		j.output = true
		return Mark{Kind: Output}
	}
	return j.quiet()
}

func (j *StreamJudge) object(name []byte) finding {
	switch j.ep {
	case Messages:
		return j.message(name)
	case Responses:
		return j.response(name)
	}
	return j.chunk()
}

func (j *StreamJudge) quiet() Mark {
	if j.output {
		return Mark{Kind: Other}
	}
	return Mark{Kind: Preamble}
}

// done judges OpenAI's [DONE]. Other endpoints do not have it; gateways send it
// all the same.
func (j *StreamJudge) done() Mark {
	switch {
	case j.ep == Messages, j.ep == Responses:
		return j.quiet()
	case !j.spoken:
		return j.fail(decision.BadResponse, "an end without an answer")
	}
	return j.terminal()
}

func (j *StreamJudge) terminal() Mark {
	j.finished, j.over = true, true
	return Mark{Kind: Terminal, Verdict: j.End()}
}

func (j *StreamJudge) fail(c decision.Class, detail string) Mark {
	v := j.said.verdict(c)
	v.Detail = detail
	return Mark{Kind: Error, Verdict: v}
}

// error judges data that is, or should be, an error.
func (j *StreamJudge) error(data []byte, f finding, detail string) Mark {
	v := j.said.verdict(f.class)
	complaint := readComplaint(data)
	inBand(&v, complaint)
	if f.class != "" && (v.Class == decision.BadResponse || v.Class == "") {
		v.Class = f.class
	}
	if v.Code == "" {
		v.Code = f.code
	}
	v.Detail = detail
	return Mark{Kind: Error, Verdict: v}
}

// Finished reports whether the provider has said that the answer is whole: its
// terminal event, or a finish or stop reason, was seen. A stream that breaks
// after that is a success.
func (j *StreamJudge) Finished() bool { return j.finished }

// Settled reports whether the answer is finished and nothing is missing of so
// many choices as were asked for: what may still come is usage and the
// provider's own end. It may become false again if another choice begins.
func (j *StreamJudge) Settled(choices int) bool {
	return j.finished && bits.OnesCount64(j.choices) >= min(choices, 64)
}

// End is the verdict if the stream ends here, cleanly or not: ok if it was
// finished, bad_response if nothing came, else interrupted. It always carries
// the model, id and usage seen so far.
func (j *StreamJudge) End() Verdict {
	switch {
	case j.finished:
		return j.said.verdict(decision.OK)
	case !j.spoken:
		v := j.said.verdict(decision.BadResponse)
		v.Detail = "the stream holds no event"
		return v
	}
	v := j.said.verdict(decision.Interrupted)
	v.Detail = "the stream ends without its terminal event"
	return v
}

// chunk reads a chunk of a chat or text completion.
func (j *StreamJudge) chunk() (f finding) {
	s := &j.scanner
	var flat, answer bool
	for more := s.object(); more; more = s.next('}') {
		switch string(s.key()) {
		case "choices":
			answer = true
			for more := s.array(); more; more = s.next(']') {
				j.choice(&f)
			}
		case "error", "errors":
			f.failed = s.complains(0) || f.failed
		case "usage":
			answer = true
			j.said.usage(s)
		case "model":
			j.said.name(s, &j.said.model)
		case "object":
			if t, ok := s.text(); ok {
				if s.is(t, "error") {
					f.failed = true
				} else if !t.empty() {
					answer = true
				}
			}
		case "message", "detail":
			flat = s.complains(0) || flat
		default:
			s.skip()
		}
	}
	f.failed = f.failed || flat && !answer
	j.finished = j.choices != 0 && j.choices == j.ended
	return f
}

// choice reads one choice of a chunk.
func (j *StreamJudge) choice(f *finding) {
	s := &j.scanner
	if s.peek() != '{' {
		s.skip()
		return
	}
	index, end := 0, false
	for more := s.object(); more; more = s.next('}') {
		switch string(s.key()) {
		case "index":
			index, _ = s.count()
		case "delta", "message":
			f.output = delta(s) || f.output
		case "text":
			f.output = s.says(0) || f.output
		case "finish_reason":
			if t, ok := s.text(); ok && !t.empty() {
				end = !failedFinish(s, t, f)
			}
		case "error":
			f.failed = s.complains(0) || f.failed
		default:
			s.skip()
		}
	}
	bit := uint64(1) << min(index, 63)
	j.choices |= bit
	if end {
		j.ended |= bit
	}
}

// delta reads a chat message or a part of one and reports whether it holds
// anything a model said: an answer, reasoning, or a tool call.
func delta(s *scanner) bool {
	output := false
	for more := s.object(); more; more = s.next('}') {
		switch string(s.key()) {
		case "content", "reasoning_content", "reasoning", "reasoning_details", "thinking", "refusal",
			"audio", "images", "tool_calls", "function_call":
			output = s.says(0) || output
		default:
			s.skip()
		}
	}
	return output
}

// failedFinish finds out whether a finish reason means that the answer could
// not be finished: OpenRouter's "error", vLLM's "abort", DeepSeek's
// "insufficient_system_resource".
func failedFinish(s *scanner, t token, f *finding) bool {
	switch {
	case s.is(t, "error"), s.is(t, "abort"):
		f.class = decision.ServerError
	case s.is(t, "insufficient_system_resource"):
		f.class = decision.Overloaded
	default:
		return false
	}
	f.failed, f.code = true, s.string(t)
	return true
}

// message reads an event of a Messages stream. What event it is stands in the
// data, or else only in the event's name.
func (j *StreamJudge) message(name []byte) (f finding) {
	s := &j.scanner
	var block, part, stop bool
	kind := name
	for more := s.object(); more; more = s.next('}') {
		switch string(s.key()) {
		case "type":
			if t, ok := s.text(); ok {
				kind = s.value(t)
			}
		case "message":
			j.start()
		case "content_block":
			block = s.says(0)
		case "delta":
			for more := s.object(); more; more = s.next('}') {
				switch string(s.key()) {
				case "type":
					s.skip()
				case "stop_reason":
					stop = s.says(0)
				default:
					part = s.says(0) || part
				}
			}
		case "usage":
			j.said.usage(s)
		case "error":
			f.failed = s.complains(0) || f.failed
		default:
			s.skip()
		}
	}
	switch string(kind) {
	case "content_block_start":
		f.output = block
	case "content_block_delta":
		f.output = part
	case "message_delta":
		j.finished = j.finished || stop
	case "message_stop":
		f.terminal = true
	case "error":
		f.failed = true
	}
	return f
}

// start reads the message of a message_start event. Its output tokens are a
// placeholder.
func (j *StreamJudge) start() {
	s := &j.scanner
	for more := s.object(); more; more = s.next('}') {
		switch string(s.key()) {
		case "model":
			j.said.name(s, &j.said.model)
		case "usage":
			j.said.usage(s)
			j.said.output = 0
		default:
			s.skip()
		}
	}
}

// response reads an event of a Responses stream.
func (j *StreamJudge) response(name []byte) (f finding) {
	s := &j.scanner
	var said, item bool
	kind := name
	for more := s.object(); more; more = s.next('}') {
		switch string(s.key()) {
		case "type":
			if t, ok := s.text(); ok {
				kind = s.value(t)
			}
		case "response":
			j.said.response(s, &f)
		case "item":
			item = responseItem(s)
		case "delta", "text", "arguments", "input", "refusal", "part", "annotation", "transcript", "partial_image_b64":
			said = s.says(0) || said
		case "error":
			f.failed = s.complains(0) || f.failed
		default:
			s.skip()
		}
	}
	switch string(kind) {
	case "response.created", "response.in_progress", "response.queued":
	case "response.output_item.added", "response.output_item.done":
		f.output = item
	case "response.completed", "response.incomplete", "response.done":
		f.terminal = true
	case "response.failed", "response.cancelled":
		f.failed = true
		if f.class == "" {
			f.class = decision.ServerError
		}
	case "error":
		f.failed = true
	default:
		f.output = said && bytes.HasPrefix(kind, []byte("response."))
	}
	return f
}

// response reads a response object, whole or as an event carries it.
func (r *reported) response(s *scanner, f *finding) {
	for more := s.object(); more; more = s.next('}') {
		switch string(s.key()) {
		case "id":
			r.name(s, &r.id)
		case "model":
			r.name(s, &r.model)
		case "usage":
			r.usage(s)
		case "status":
			if t, ok := s.text(); ok && (s.is(t, "failed") || s.is(t, "cancelled")) {
				f.failed, f.class, f.code = true, decision.ServerError, s.string(t)
			}
		case "error":
			f.failed = s.complains(0) || f.failed
		case "output":
			for more := s.array(); more; more = s.next(']') {
				f.output = responseItem(s) || f.output
			}
		default:
			s.skip()
		}
	}
}

// responseItem reads an output item and reports whether a model said it. A call
// of one of the provider's own tools says nothing but that it was called.
func responseItem(s *scanner) bool {
	if s.peek() != '{' {
		s.skip()
		return false
	}
	said, called := false, false
	for more := s.object(); more; more = s.next('}') {
		switch string(s.key()) {
		case "type":
			if t, ok := s.text(); ok {
				kind := s.value(t)
				called = bytes.HasSuffix(kind, []byte("_call")) &&
					string(kind) != "function_call" && string(kind) != "custom_tool_call"
			}
		case "id", "status", "role", "phase", "call_id", "encrypted_content":
			s.skip()
		default:
			said = s.says(0) || said
		}
	}
	return said || called
}
