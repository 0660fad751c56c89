package text

import (
	"time"

	"failback/gateway/operator/api"
)

// BucketSince says since when a bucket of an upstream is as it is, by its state
// and by the changes, newest first: a closed one since its last change, any
// other since it last was closed, whatever its probes ended with. least says
// that it may be longer: the changes do not go back that far.
func BucketSince(upstream string, b *api.Breaker, changes []api.Event) (since time.Time, least bool) {
	if Severity(b) == 0 {
		return b.Since, false
	}
	since = b.Since
	for i := range changes {
		e := &changes[i]
		if e.Event != api.KindBreaker || e.Provider != upstream || e.Capability != b.Capability {
			continue
		}
		switch {
		case e.From == closed:
			return e.Time, false
		case e.To == closed:
			return since, true // how it left that again was not seen
		case e.Time.Before(since):
			since = e.Time
		}
	}
	return since, true
}

// Since says since when an upstream's buckets are as they are, as BucketSince
// does of one: all closed since the most recent change of any, else not all
// closed since the first of those that are not was closed. It is zero if there
// is no bucket.
func Since(u *api.Upstream, changes []api.Event) (since time.Time, least bool) {
	w := Worst(u.Breakers)
	if w == nil {
		return time.Time{}, false
	}
	calm := Severity(w) == 0
	for i := range u.Breakers {
		b := &u.Breakers[i]
		switch {
		case calm && b.Since.After(since):
			since = b.Since
		case !calm && Severity(b) > 0:
			at, short := BucketSince(u.Name, b, changes)
			if since.IsZero() || at.Before(since) {
				since, least = at, short
			}
		}
	}
	return since, least
}

// For writes how long: with a + where it may be longer, ?? where since is absent.
func For(since time.Time, least bool, now time.Time) string {
	if least && !since.IsZero() {
		return Age(now.Sub(since)) + "+"
	}
	return Age(now.Sub(since))
}
