package wire

import (
	"fmt"
	"math"
	"strconv"
)

// Facts is what routing must know of a request body. Strings are copies: they
// stay valid when the body is reused.
type Facts struct {
	Model string
	// ModelStart and ModelEnd span the model's JSON string in the body, quotes
	// included: body[ModelStart:ModelEnd] is what is replaced to ask an
	// upstream for its own model name.
	ModelStart, ModelEnd int
	// Stream says that the client wants an event stream; always false where
	// the endpoint cannot give one.
	Stream bool
	// Tools says that the request offers at least one tool or function.
	Tools bool
	// MaxTokens is the answer's limit in tokens, -1 if not given.
	MaxTokens int
	// Choices is how many answers a completion asks for at once, 0 if it does
	// not say.
	Choices int

	PromptCacheKey string
	User           string
	MetadataUserID string
	// Meta holds the metadata fields that are named like one of our request
	// headers: canonical header name to value. Nil if there are none.
	Meta map[string]string
	// MetaUnknown are the metadata fields that are named like a request header
	// of ours and are none. At most the first 8 are kept.
	MetaUnknown []string

	// PreviousResponseID names a response that only one upstream has.
	PreviousResponseID string
	// BoundIDs are further ids of things only one upstream has: files,
	// containers, vector stores, conversations, stored items and prompts. A
	// request with any of them, or with a PreviousResponseID, cannot be
	// answered elsewhere. At most the first 64 are kept.
	BoundIDs []string

	// ConversationHash is a hash of the system prompt and the first user
	// message, the same in every process; 0 if there is neither. It looks at
	// their texts alone, so that a moved cache_control, or a text given once as
	// a string and once as a list of one part, leaves it unchanged.
	ConversationHash uint64
}

// Bound reports whether the request refers to state only one upstream has.
func (f *Facts) Bound() bool { return f.PreviousResponseID != "" || len(f.BoundIDs) > 0 }

// RequestError says why a request body cannot be routed. It is the caller's
// mistake; Message and Param may be shown to the caller and repeat nothing of
// the body but the names of its top-level keys.
type RequestError struct {
	Message string
	Param   string // top-level key at fault, empty if none
	Offset  int    // byte offset in the body
}

func (e *RequestError) Error() string {
	return fmt.Sprintf("request body, byte %d: %s", e.Offset, e.Message)
}

// metaHeaders are the request headers that may stand in metadata instead, in
// canonical form.
var metaHeaders = [...]string{
	"Failback-Task", "Failback-Conversation", "Failback-Turn", "Failback-State-Version",
	"Idempotency-Key", "Failback-Deadline-Ms", "X-Request-Id",
}

// ScanRequest reads what routing must know from body in one pass, without
// copying it. The whole body must be one valid JSON object without duplicate
// top-level keys (compared after unescaping and, since some readers of JSON do
// so, regardless of case) and with a model that is a non-empty string;
// otherwise the error is a *RequestError.
func ScanRequest(ep Endpoint, body []byte) (Facts, error) {
	q := request{ep: ep, scanner: scanner{data: body}, facts: Facts{MaxTokens: -1}}
	if q.peek() != '{' && q.skip() {
		q.pos = 0
		q.peek()
		q.refuse("", q.pos, "the body must be a JSON object")
	}
	for more := q.object(); more && q.err == nil; more = q.next('}') {
		q.topLevel(q.key())
	}
	switch {
	case q.err != nil:
	case !q.end():
		q.refuse("", q.at, "invalid JSON: "+q.fault)
	case !q.hasModel:
		q.refuse("model", 0, "model is missing")
	}
	if q.err != nil {
		return Facts{MaxTokens: -1}, q.err
	}
	if q.hasSystem || q.hasUser {
		q.facts.ConversationHash = max(1, uint64(q.system.text(nil))^uint64(q.user)*hashSpread)
	}
	return q.facts, nil
}

// request is one scan's state.
type request struct {
	scanner
	ep    Endpoint
	facts Facts
	keys  keySet
	err   *RequestError // the first reason to refuse

	hasModel     bool
	maxTokensKey int // rank of the key MaxTokens came from
	system, user textHash
	hasSystem    bool
	hasUser      bool
}

func (q *request) refuse(param string, at int, message string) {
	if q.err == nil {
		q.err = &RequestError{Message: message, Param: param, Offset: at}
	}
}

// topLevel reads the value of one of the body's own keys. name is nil after a
// fault; then nothing is read.
func (q *request) topLevel(name []byte) {
	if q.fault != "" {
		return
	}
	if !q.keys.add(name, q.keyEscaped) {
		shown := showName(name)
		q.refuse(shown, q.keyStart-1, "duplicate key "+strconv.Quote(shown))
		return
	}
	if q.keys.n > maxKeys {
		q.refuse("", q.keyStart-1, "more than "+strconv.Itoa(maxKeys)+" top-level keys")
		return
	}
	switch string(name) {
	case "model":
		q.model()
	case "stream":
		q.stream()
	case "max_tokens":
		q.maxTokens(1)
	case "max_completion_tokens", "max_output_tokens":
		q.maxTokens(2)
	case "n":
		q.facts.Choices, _ = q.count()
	case "tools":
		for more := q.array(); more; more = q.next(']') {
			q.facts.Tools = true
			q.block(nil, 1)
		}
	case "functions":
		for more := q.array(); more; more = q.next(']') {
			q.facts.Tools = true
			q.skip()
		}
	case "prompt_cache_key":
		q.copyText(&q.facts.PromptCacheKey)
	case "user":
		q.copyText(&q.facts.User)
	case "metadata":
		for more := q.object(); more; more = q.next('}') {
			q.metadata(q.key())
		}
	case "previous_response_id":
		q.copyText(&q.facts.PreviousResponseID)
	case "system", "instructions":
		q.hasSystem = true
		q.content(&q.system, 1)
	case "messages":
		q.turns()
	case "input":
		switch {
		case q.ep == Embeddings:
			q.hasUser = true
			q.user = q.user.text(q.raw())
		case q.peek() == '[':
			q.turns()
		default:
			q.hasUser = true
			q.content(&q.user, 1)
		}
	case "prompt":
		if q.ep == Responses {
			q.thing()
			return
		}
		q.hasUser = true
		q.content(&q.user, 1)
	case "container", "conversation":
		q.thing()
	default:
		q.skip()
	}
}

func (q *request) model() {
	q.hasModel = true
	q.peek()
	start := q.pos
	t, ok := q.text()
	switch {
	case q.fault != "":
	case !ok, t.empty():
		q.refuse("model", start, "model must be a non-empty string")
	default:
		q.facts.Model = q.string(t)
		q.facts.ModelStart, q.facts.ModelEnd = start, q.pos
	}
}

func (q *request) stream() {
	c, start := q.peek(), q.pos
	if !q.skip() {
		return
	}
	switch c {
	case 't':
		q.facts.Stream = q.ep.Streams()
	case 'f', 'n':
	default:
		q.refuse("stream", start, "stream must be true or false")
	}
}

// maxTokens reads a limit. Of several keys the one of the highest rank holds.
// What is no whole number is the upstream's to refuse.
func (q *request) maxTokens(rank int) {
	c := q.peek()
	v := q.raw()
	if rank < q.maxTokensKey || c-'0' > 9 {
		return
	}
	n, err := strconv.ParseFloat(string(v), 64)
	if n != math.Trunc(n) && err == nil {
		return
	}
	q.maxTokensKey = rank
	q.facts.MaxTokens = int(min(n, math.MaxInt32))
}

func (q *request) copyText(to *string) {
	if t, ok := q.text(); ok {
		*to = q.string(t)
	}
}

// metadata reads one metadata field. Values may be numbers, as people write a
// deadline.
func (q *request) metadata(name []byte) {
	if string(name) == "user_id" {
		q.copyText(&q.facts.MetadataUserID)
		return
	}
	header := ""
	for _, h := range metaHeaders {
		if equalFold(name, h) {
			header = h
			break
		}
	}
	if header == "" {
		const ours, most = "failback-", 8
		if len(name) > len(ours) && equalFold(name[:len(ours)], ours) && len(q.facts.MetaUnknown) < most {
			q.facts.MetaUnknown = append(q.facts.MetaUnknown, showName(name))
		}
		q.skip()
		return
	}
	var v string
	if c := q.peek(); c == '-' || c-'0' <= 9 {
		v = string(q.raw())
	} else if t, ok := q.text(); ok {
		v = q.string(t)
	} else {
		return
	}
	if q.facts.Meta == nil {
		q.facts.Meta = make(map[string]string, len(metaHeaders))
	}
	q.facts.Meta[header] = v
}

// showName returns a key as it may be shown in an error.
func showName(name []byte) string {
	const most = 64
	if len(name) > most {
		return string(name[:most]) + "..."
	}
	return string(name)
}

func equalFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i := range len(s) {
		if lower(b[i]) != lower(s[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c-'A' <= 'Z'-'A' {
		return c | 0x20
	}
	return c
}
