package text

import (
	"strings"
	"time"

	"failback/gateway/operator/api"
)

// foldFrom is how many tries of a bucket in a row must have failed until they
// are told in one row.
const foldFrom = 2

// Run is one row of a list of changes: an event, or the tries of a bucket that
// failed one after the other.
type Run struct {
	*api.Event // the newest of what it stands for
	// Folded are the events that it stands for, newest first, Event among them;
	// nil: Event alone.
	Folded []*api.Event
	Failed int // tries
	// Least says that more may have failed before: what was there is lost, or no
	// longer kept.
	Least bool
	// Going says that nothing newer is known of the bucket.
	Going bool
}

// First is the oldest event that r stands for.
func (r *Run) First() *api.Event {
	if n := len(r.Folded); n > 0 {
		return r.Folded[n-1]
	}
	return r.Event
}

// LastFailed is the newest event of r that says how a try failed.
func (r *Run) LastFailed() *api.Event {
	if r.Folded != nil && r.To != open {
		return r.Folded[1]
	}
	return r.Event
}

type bucketName struct{ upstream, capability string }

// try reports whether e is a bucket's going from open to half-open or back, by
// the machine: that is repeated for as long as the upstream is down.
func try(e *api.Event) bool {
	return e.Event == api.KindBreaker && ByMachine(e.By) && (e.From == open && e.To == halfOpen || e.From == halfOpen && e.To == open)
}

// Fold makes the rows of a list of changes, newest first, with all numbers that
// the gateway gave them. The tries of a bucket that failed one after the other
// are one row, in the place of the newest, whatever else happened meanwhile. Any
// other state of the bucket ends them and has a row of its own, as the try has
// that led to it. Across events that were lost nothing is folded: a bucket may
// have been closed meanwhile.
func Fold(es []api.Event) []Run {
	runs := make([]Run, 0, 16)
	of := make([]int, len(es)) // index in runs, from 1; 0: none
	under := make(map[bucketName]int)
	later := make(map[bucketName]bool) // something newer is known of it
	lost := false
	for i := range es {
		e := &es[i]
		if i > 0 && es[i-1].Seq != e.Seq+1 {
			for _, r := range under {
				runs[r-1].Least = true
			}
			clear(under)
			lost = true
		}
		if e.Event != api.KindBreaker {
			continue
		}
		b := bucketName{e.Provider, e.Capability}
		r := under[b]
		if r > 0 && try(e) && runs[r-1].First().From != e.To {
			runs[r-1].Least, r = true, 0
			later[b] = true
		}
		if !try(e) || r == 0 && e.To == halfOpen && (later[b] || lost) {
			delete(under, b)
			later[b] = true
			continue
		}
		if r == 0 {
			runs = append(runs, Run{Event: e, Going: !later[b] && !lost})
			r = len(runs)
			under[b] = r
		}
		of[i], later[b] = r, true
		runs[r-1].Folded = append(runs[r-1].Folded, e)
		if e.To == open {
			runs[r-1].Failed++
		}
	}
	for _, r := range under {
		runs[r-1].Least = true
	}
	out := make([]Run, 0, len(es))
	for i := range es {
		switch r := of[i]; {
		case r == 0 || runs[r-1].Failed < foldFrom:
			out = append(out, Run{Event: &es[i]})
		case runs[r-1].Event == &es[i]:
			out = append(out, runs[r-1])
		}
	}
	return out
}

// Change writes r in one line, as Event does, now being the gateway's clock. Of
// an upstream it says name. brief leaves out what goes without saying.
//
//	a text still OPEN, 36 tries failed since 18:41:10Z  server_error
func (r *Run) Change(name string, now time.Time, brief bool) string {
	if r.Folded == nil {
		e := *r.Event
		e.Provider = name
		return Event(&e)
	}
	since := Clock(r.First().Time, now)
	if brief && !r.First().Time.IsZero() {
		since = since[:len(since)-len(":00Z")] + "Z"
	}
	return Visible(api.JoinWords(name, r.Capability, r.Standing()+",", r.failed(brief), "since "+since, " "+Cause(r.LastFailed())))
}

// Standing says how the bucket of tries stands, as far as r tells.
func (r *Run) Standing() string {
	switch {
	case !r.Going:
		return "stayed OPEN"
	case r.To == halfOpen:
		return "again HALF"
	}
	return "still OPEN"
}

func (r *Run) failed(brief bool) string {
	switch {
	case brief && r.Least:
		return Count(uint64(r.Failed)) + "+ failed"
	case brief:
		return Count(uint64(r.Failed)) + " failed"
	}
	return r.Tries() + " failed"
}

// Tries counts those of r that failed.
func (r *Run) Tries() string {
	if r.Least {
		return "at least " + Counted(r.Failed, "try")
	}
	return Counted(r.Failed, "try")
}

// Cause says what a try of a bucket failed with, without how many did.
func Cause(e *api.Event) string {
	_, cause, ok := strings.Cut(e.Detail, "probes failed (")
	switch {
	case ok && strings.HasSuffix(cause, ")"):
		return strings.TrimSuffix(cause, ")")
	case e.Detail != "":
		return e.Detail
	}
	return api.Words(e.Reason)
}
