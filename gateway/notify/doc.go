// Package notify owns the webhook: what needs a person is posted there, at least
// once, and is said to have been told only when the receiver confirmed it. It
// decides of nothing that it is worth telling, and nothing waits for it.
//
// A message is confirmed by a 2xx and by nothing else; redirects are not
// followed. Until then it is repeated with growing pauses for an hour, with the
// same id in the header Failback-Message-Id and in the body, so that a receiver
// can drop what it had already. Messages are kept in memory alone: what is not
// confirmed when the gateway stops is lost, counted, and said to be.
//
// The body is one JSON object:
//
//	{
//	  "id": "5f0c…",                           the same in every repetition
//	  "kind": "degraded",                      one of the Kinds
//	  "text": "[PROD] a degraded: …",          one line that chats show as it is
//	  "upstream": "a",                         empty where it is about none
//	  "detail": "two groups red for 60 s",     what happened
//	  "required": "an operator …",             who is needed for what
//	  "at": "2026-11-30T04:00:00Z",
//	  "environment": "PROD",
//	  "instance": "gw-1",
//	  "repeated": 2,                           further ones within the minute, of which this is the last
//	  "fields": {"share": "0"}
//	}
//
// All text has control characters and bidi controls made visible. In "text",
// what Slack and Mattermost would take for markup or a mention is disarmed.
package notify
