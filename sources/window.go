package sources

import (
	"time"

	"failback/sources/promql"
)

// MinWindow is the least that a rate is taken over.
const MinWindow = 5 * time.Minute

// Window is what a rate is taken over where a sample is taken every period: at
// least four of them, in whole minutes. A rate needs two samples, and one of a
// window of two is lost to the phase of the scrapes, the other to one that
// failed.
func Window(period time.Duration) time.Duration {
	w := 4 * period
	if rest := w % time.Minute; rest > 0 {
		w += time.Minute - rest
	}
	return max(w, MinWindow)
}

func windowText(window time.Duration) string { return promql.Span(window) }
