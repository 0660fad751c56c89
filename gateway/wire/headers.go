package wire

import (
	"net/http"
	"strings"

	"failback/gateway/decision"
)

// ForwardHeaders copies to dst what an upstream of dialect d may see of a
// client's request headers, and sets Content-Type to JSON, which the body was
// found to be. Everything not on the allow-list stays here: credentials,
// cookies, addresses, organization and idempotency headers among it, and those
// of tracing: each attempt has its own.
func ForwardHeaders(dst, src http.Header, d decision.Dialect) {
	dst["Content-Type"] = []string{"application/json"}
	pass(dst, src, "Accept")
	pass(dst, src, "User-Agent")
	switch d {
	case decision.OpenAI:
		pass(dst, src, "Openai-Beta")
	case decision.Anthropic:
		pass(dst, src, "Anthropic-Version")
		pass(dst, src, "Anthropic-Beta")
	}
}

// ReturnHeaders copies to dst what a client may see of an upstream's answer
// headers. With fellOver the rate-limit headers stay here, since the next
// request need not go to the same upstream. Request ids, hop-by-hop, server,
// cookie and organization headers never pass.
func ReturnHeaders(dst, src http.Header, fellOver bool) {
	hop := src["Connection"]
	for name := range src {
		switch name {
		case "Content-Type", "Content-Encoding", "Openai-Processing-Ms", "Openai-Version":
		default:
			limit := strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Ratelimit-")
			if !limit || fellOver {
				continue
			}
		}
		if len(hop) > 0 && listed(hop, name) {
			continue
		}
		pass(dst, src, name)
	}
}

// pass copies the values of one header, given in canonical form.
func pass(dst, src http.Header, name string) {
	if v := src[name]; len(v) > 0 {
		dst[name] = append([]string(nil), v...)
	}
}

// listed reports whether a Connection header makes name a hop-by-hop header.
func listed(connection []string, name string) bool {
	for _, line := range connection {
		for field := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(field), name) {
				return true
			}
		}
	}
	return false
}
