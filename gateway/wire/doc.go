// Package wire owns the two wire dialects, OpenAI's and Anthropic's: what
// routing must know of a request, where a stream's frames end, what a frame or
// a whole answer means, which class an error answer has, and how our own
// errors, keep-alives and model lists look to a client of either dialect.
//
// It never does I/O of its own, never decides what happens next, and never
// rewrites what passes through: it reports facts and positions about bytes
// that others relay unchanged. Texts it makes for clients hold no host, no
// key and nothing an upstream wrote.
//
// One JSON scanner reads requests, frames and whole answers alike. It accepts
// exactly what encoding/json accepts.
package wire
