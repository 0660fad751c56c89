// Package upstream owns one attempt against one upstream: the request as that
// upstream is to see it, the one HTTP exchange, its limits in time, what is
// held back and what is released, and the one decision.Outcome it ends in. It
// also owns what belongs to an upstream alone: its connections, its limits,
// its keys and how long a key or a model is left alone after it failed.
//
// It never resends, never follows a redirect, never chooses who is asked next,
// and never writes an error of its own to a client. It never sends a
// credential it was not given for that upstream, and no text it returns holds
// a host, a URL, a key or anything of a request.
//
// Proxies are taken from the environment as http.ProxyFromEnvironment does
// (HTTP_PROXY, HTTPS_PROXY, NO_PROXY), except where Settings bring their own
// DialContext.
package upstream
