package wire

import (
	"net/http"

	"failback/gateway/decision"
)

// ForwardHeaders copies to dst what an upstream of dialect d may see of a
// client's request headers, and sets Content-Type to JSON, which the body was
// found to be. Everything not on the allow-list stays here: credentials,
// cookies, addresses, organization and idempotency headers among it.
func ForwardHeaders(dst, src http.Header, d decision.Dialect) {}

// ReturnHeaders copies to dst what a client may see of an upstream's answer
// headers. With fellOver the rate-limit headers stay here, since the next
// request need not go to the same upstream. Request ids, hop-by-hop, server,
// cookie and organization headers never pass.
func ReturnHeaders(dst, src http.Header, fellOver bool) {}
