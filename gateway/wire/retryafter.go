package wire

import (
	"net/http"
	"time"
)

// MaxRetryAfter bounds every wait an upstream may ask for: a bad value must
// not park it for ever.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter returns how long an answer asks to be left alone, between 0 and
// MaxRetryAfter, and whether it asks at all. Dates are read against the
// answer's own Date header, or now without one.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) { return 0, false }
