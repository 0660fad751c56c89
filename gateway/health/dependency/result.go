package dependency

import "time"

// State is what the checks of a dependency say of it.
type State string

// The states of a Result.
const (
	OK      State = "ok"
	Failed  State = "failed"
	Unknown State = "unknown" // not checked yet, or not for too long
)

// Result is what is known of one dependency. It holds no host and no secret.
type Result struct {
	Name   string
	Domain string
	Kind   Kind
	State  State
	// Detail says for people what was found: why it failed, or what there is to
	// say of a success.
	Detail string
	At     time.Time // of the last check, zero if there was none
	Since  time.Time // of the state, zero before the first check
	// NotAfter is the end of the certificate of a TLS check as it was last
	// shown, also where the last check failed; zero if none was seen.
	NotAfter   time.Time
	NotAfterAt time.Time // when it was seen
}

// staleAfter is how many checks may fail to take place before the last one
// says nothing any more.
const staleAfter = 3

// as returns r as it is to be taken at now: what was checked too long ago is
// unknown.
func (r Result) as(now time.Time, every time.Duration) Result {
	age := now.Sub(r.At)
	if r.At.IsZero() || age <= staleAfter*every+maxTimeout {
		return r
	}
	r.Detail = "last checked " + ago(age) + ": " + string(r.State)
	r.State, r.Since = Unknown, r.At
	return r
}

// after is r after a check at now.
func (r Result) after(f finding, now time.Time) Result {
	state, detail := OK, f.note
	if f.err != nil {
		state, detail = Failed, f.err.Error()
	}
	if state != r.State {
		r.Since = now
	}
	r.State, r.Detail, r.At = state, detail, now
	if !f.notAfter.IsZero() {
		r.NotAfter, r.NotAfterAt = f.notAfter, now
	}
	return r
}
