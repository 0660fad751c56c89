package sources

import (
	"net/http"
)

// Embedded is the gateway as a way to its own stores; an *api.Client is one.
type Embedded interface {
	// Transport reaches the gateway, and nobody else.
	Transport() http.RoundTripper
	// BaseURL is what the paths of the operator API are appended to.
	BaseURL() string
}
