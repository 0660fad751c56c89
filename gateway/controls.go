package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"failback/gateway/wire"
)

// longestID is what is kept of a word that a client chose.
const longestID = 128

// longestDeadline is more than any request may take: a client that says so has
// no limit of its own.
const longestDeadline = 365 * 24 * time.Hour

// controls is what a client says about its request besides the request, in
// headers or in metadata fields of the same names; a header wins.
type controls struct {
	task         string
	turn         string
	operationID  string
	stateVersion string
	deadline     time.Duration // the shorter of what was said; 0 if nothing was
	silence      time.Duration // how long the client waits without a byte; 0 if it did not say

	// conversation decides on which side of a share the request is.
	conversation string
	// named: the client itself gave the conversation its name, which may be
	// shown; all other sources are user data and shown as a hash.
	named bool
	// ignored are the controls that have no effect, by name.
	ignored []string
}

// clientTimeout is the time there is to answer a client that gives up after so
// many seconds: a little less, since an SDK that gave up before an answer
// reached it sends everything again. 0 if it did not say, or nothing sensible.
func clientTimeout(seconds string) time.Duration {
	if seconds == "" {
		return 0
	}
	s, err := strconv.ParseFloat(seconds, 64)
	if err != nil || !(s > 0 && s < 1e6) {
		return 0
	}
	d := time.Duration(s * float64(time.Second))
	return d - min(d/10, time.Second)
}

func (x *exchange) controls(facts wire.Facts) controls {
	h := x.r.Header
	get := func(name string) string {
		v := h.Get(name)
		if v == "" {
			v = facts.Meta[name]
		}
		return word(v)
	}
	c := controls{
		task:         get("Failback-Task"),
		turn:         get("Failback-Turn"),
		operationID:  get("Idempotency-Key"),
		stateVersion: get("Failback-State-Version"),
	}
	c.ignored = unknownControls(h, facts.MetaUnknown)
	if said := get(deadlineControl); said != "" {
		if ms, err := strconv.ParseInt(said, 10, 64); err == nil && ms > 0 {
			c.deadline = time.Duration(min(ms, int64(longestDeadline/time.Millisecond))) * time.Millisecond
		} else {
			c.ignored = append(c.ignored, deadlineControl)
		}
	}
	if d := clientTimeout(h.Get("X-Stainless-Timeout")); d > 0 && (c.deadline == 0 || d < c.deadline) {
		c.deadline = d
	}
	c.silence = clientTimeout(h.Get("X-Stainless-Read-Timeout"))
	c.conversation = get("Failback-Conversation")
	c.named = c.conversation != ""
	for _, v := range [...]string{facts.PromptCacheKey, facts.User, facts.MetadataUserID} {
		if c.conversation == "" {
			c.conversation = v
		}
	}
	if c.conversation == "" && facts.ConversationHash != 0 {
		c.conversation = strconv.FormatUint(facts.ConversationHash, 16)
	}
	return c
}

const deadlineControl = "Failback-Deadline-Ms"

// unknownControls are the request headers, and metadata fields, that are named
// like ours and are none: a client that relies on one should hear of it. At
// most 8 names are told of each.
func unknownControls(h http.Header, meta []string) (names []string) {
	for name := range h {
		switch name {
		case "Failback-Task", "Failback-Conversation", "Failback-Turn", "Failback-State-Version", deadlineControl:
			continue
		}
		if strings.HasPrefix(name, "Failback-") && len(name) <= longestID {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = names[:min(len(names), 8)]
	for _, name := range meta {
		if word(name) == name {
			names = append(names, name)
		}
	}
	return names
}

// conversationShown is the conversation as it may be logged.
func (c *controls) conversationShown() string {
	if c.named || c.conversation == "" {
		return c.conversation
	}
	sum := sha256.Sum256([]byte(c.conversation))
	return "sha256:" + hex.EncodeToString(sum[:8])
}

// word keeps of a client's word what can be logged and shown: printable ASCII.
func word(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > longestID {
		s = s[:longestID]
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(s)))
		}
	}
	return s
}

// requestID returns the client's own request id if it is one that can be
// logged and sent back, else a new one.
func requestID(h http.Header) string {
	id := h.Get("X-Request-Id")
	if id != "" && len(id) <= longestID && word(id) == id {
		return id
	}
	// As rand.Text, in lower case: 130 bits.
	const prefix, letters = "req_", "abcdefghijklmnopqrstuvwxyz234567"
	var text [len(prefix) + 26]byte
	_, _ = rand.Read(text[:]) // never fails
	for i, b := range text {
		text[i] = letters[b%32]
	}
	copy(text[:], prefix)
	return string(text[:])
}

// clientRetry is which attempt of the client's own this is; 0 is the first.
func clientRetry(h http.Header) int {
	count := h.Get("X-Stainless-Retry-Count")
	if count == "" {
		return 0
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
