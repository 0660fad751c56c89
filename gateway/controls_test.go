package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"failback/gateway/wire"
)

func controlsOf(h http.Header, f wire.Facts) controls {
	return (&exchange{r: &http.Request{Header: h}}).controls(f)
}

func header(kv ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(kv); i += 2 {
		h.Set(kv[i], kv[i+1])
	}
	return h
}

func TestAHeaderWinsOverMetadata(t *testing.T) {
	meta := map[string]string{"Failback-Task": "from_body", "Failback-Turn": "7"}
	c := controlsOf(header("Failback-Task", "from_header"), wire.Facts{Meta: meta})
	if c.task != "from_header" || c.turn != "7" {
		t.Errorf("task %q, turn %q", c.task, c.turn)
	}
}

func TestTheShorterDeadlineHolds(t *testing.T) {
	for _, c := range []struct {
		h    http.Header
		want time.Duration
	}{
		{header(), 0},
		{header("Failback-Deadline-Ms", "1500"), 1500 * time.Millisecond},
		{header("X-Stainless-Timeout", "2"), 1800 * time.Millisecond},
		{header("X-Stainless-Timeout", "600"), 599 * time.Second}, // or the SDK asks again
		{header("Failback-Deadline-Ms", "1500", "X-Stainless-Timeout", "600"), 1500 * time.Millisecond},
		{header("Failback-Deadline-Ms", "9000", "X-Stainless-Timeout", "0.5"), 450 * time.Millisecond},
		{header("Failback-Deadline-Ms", "-1", "X-Stainless-Timeout", "NaN"), 0},
		{header("Failback-Deadline-Ms", "soon"), 0},
		{header("Failback-Deadline-Ms", "18446744073710"), longestDeadline}, // 448 µs, if it overflowed
		{header("Failback-Deadline-Ms", "18446744073710", "X-Stainless-Timeout", "2"), 1800 * time.Millisecond},
	} {
		if got := controlsOf(c.h, wire.Facts{}).deadline; got != c.want {
			t.Errorf("%v: %s, want %s", c.h, got, c.want)
		}
	}
}

// What decides about a share is the client's own name for a conversation, else
// what stays the same from turn to turn; only the former may be shown.
func TestConversationSources(t *testing.T) {
	all := wire.Facts{PromptCacheKey: "cache", User: "user@example.com", MetadataUserID: "u-1", ConversationHash: 255}
	for _, c := range []struct {
		h     http.Header
		f     wire.Facts
		want  string
		shown bool
	}{
		{header("Failback-Conversation", "c-1"), all, "c-1", true},
		{header(), all, "cache", false},
		{header(), wire.Facts{User: "user@example.com", MetadataUserID: "u-1"}, "user@example.com", false},
		{header(), wire.Facts{MetadataUserID: "u-1"}, "u-1", false},
		{header(), wire.Facts{ConversationHash: 255}, "ff", false},
		{header(), wire.Facts{}, "", true},
	} {
		got := controlsOf(c.h, c.f)
		if got.conversation != c.want {
			t.Errorf("%v: %q, want %q", c.h, got.conversation, c.want)
		}
		if shown := got.conversationShown(); (shown == c.want) != c.shown || !c.shown && !strings.HasPrefix(shown, "sha256:") {
			t.Errorf("%v: shown as %q", c.h, shown)
		}
	}
}

func TestWordsOfClientsAreFitToLog(t *testing.T) {
	for in, want := range map[string]string{
		" refund ":               "refund",
		strings.Repeat("a", 200): strings.Repeat("a", longestID),
	} {
		if got := word(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	for _, in := range []string{"a\x1b[31mb", "a\u202eb", "naïve", "a\nb", "\xff"} {
		if got := word(in); !strings.HasPrefix(got, "sha256:") {
			t.Errorf("%q is logged as %q", in, got)
		}
	}
	if id := requestID(header("X-Request-Id", "ok-1")); id != "ok-1" {
		t.Errorf("a good id became %q", id)
	}
	for _, bad := range []string{"", "a b\x1b", strings.Repeat("x", 129)} {
		if id := requestID(header("X-Request-Id", bad)); !strings.HasPrefix(id, "req_") {
			t.Errorf("%q was taken as an id: %q", bad, id)
		}
	}
}
