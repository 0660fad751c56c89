package ui

import (
	"errors"
	"net/http"

	"failback/gateway/operator/api"
)

// refused says that the gateway answers and does not let this console in, and
// what to do; empty if it does. That is no silence: asking again changes
// nothing.
func (m *model) refused() string {
	e, ok := errors.AsType[*api.Error](m.live.state.Err())
	if !ok || e.HTTPStatus != http.StatusUnauthorized && e.HTTPStatus != http.StatusForbidden && e.Code != api.CodeUnauthorized {
		return ""
	}
	if m.o.TokenFile == "" {
		return "it wants a token; leave with q and name one with --token-file"
	}
	return "the token in " + m.th.outside(m.o.TokenFile) + " is not accepted; leave with q and name another with --token-file"
}

// mute says of a gateway that gives no answer why.
func (m *model) mute() string {
	if m.refused() != "" {
		return "the gateway refuses this console"
	}
	return "the gateway does not answer"
}

// never is mute of a gateway that gave no answer so far.
func (m *model) never() string {
	if why := m.refused(); why != "" {
		return "the gateway refuses this console: " + why
	}
	return "the gateway has not answered yet"
}
