package wire

import "fmt"

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

	PromptCacheKey string
	User           string
	MetadataUserID string
	// Meta holds the metadata fields that are named like one of our request
	// headers: canonical header name to value. Nil if there are none.
	Meta map[string]string

	// PreviousResponseID names a response that only one upstream has.
	PreviousResponseID string
	// BoundIDs are further ids of things only one upstream has: files,
	// containers, vector stores, conversations, stored prompts. A request with
	// any of them, or with a PreviousResponseID, cannot be answered elsewhere.
	BoundIDs []string

	// ConversationHash is a hash of the system prompt and the first user
	// message, the same in every process; 0 if there is neither.
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
	return fmt.Sprintf("request body at byte %d: %s", e.Offset, e.Message)
}

// ScanRequest reads what routing must know from body in one pass, without
// copying it. The whole body must be one valid JSON object without duplicate
// top-level keys (compared after unescaping, regardless of case) and with a
// model that is a non-empty string; otherwise the error is a *RequestError.
func ScanRequest(ep Endpoint, body []byte) (Facts, error) {
	return Facts{MaxTokens: -1}, &RequestError{Message: "not implemented"}
}
