package incident

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// Situation is what one gateway sees at one moment.
type Situation struct {
	Instance  string
	Upstreams []Upstream
	Fault     *Fault // nil: none
	Ratio     RatioState
	// Silent are the gateways that say nothing any more; see Silence.
	Silent map[string]bool
}

// About are upstreams, those that are named; all of s if none is.
func (s Situation) About(upstreams ...string) []string {
	named := slices.DeleteFunc(slices.Clone(upstreams), func(name string) bool { return name == "" })
	if len(named) > 0 {
		return named
	}
	for _, u := range s.Upstreams {
		named = append(named, u.Name)
	}
	return named
}

// Upstream is what a gateway knows of one upstream.
type Upstream struct {
	Name  string
	State string // api.Healthy, Suspect, Degraded or Recovering
	Share int
	Since time.Time // of Degraded
	Why   string
	// Probed: its probes pass. Failed: they passed since it is degraded, and do
	// not any more.
	Probed, Failed bool
}

// Fault is a shared fault.
type Fault struct {
	Since  time.Time
	Reason string
	Detail string
}

// RatioState is what Ratio says.
type RatioState struct {
	Over  bool
	Since time.Time // of Over
	Value float64
	Limit float64
}

// Finding is a trouble of the situation that the records do not have so.
type Finding struct {
	Incident string // empty: none has it, one is to be opened
	Key      string
	Cause    string
	Upstream string
	Phase    Phase
	Shared   bool
	Since    time.Time
	Title    string // of the incident, where one is to be opened
	Text     string
}

// Observe compares s with records and says what is to be written. It returns
// nothing once all of it has been. A situation that an operator closed an incident
// on does not open another one.
func Observe(now time.Time, s Situation, records []Record) (found []Finding) {
	o := observer{now: now, s: s, records: records}
	configured := map[string]bool{}
	for _, u := range s.Upstreams {
		configured[u.Name] = true
		o.upstream(u)
	}
	o.own(api.CauseSharedFault, s.Fault != nil, func() (time.Time, string, string) {
		return s.Fault.Since, "shared fault: " + s.Fault.Reason, fmt.Sprintf("shared fault (%s): %s", s.Fault.Reason, s.Fault.Detail)
	}, "the shared fault is over")
	o.own(api.CauseRatio, s.Ratio.Over, func() (time.Time, string, string) {
		return s.Ratio.Since, "fallback ratio over its limit",
			fmt.Sprintf("fallback ratio %.1f%%, limit %.1f%%", 100*s.Ratio.Value, 100*s.Ratio.Limit)
	}, "the fallback ratio is below its limit")
	o.orphans(configured)
	return o.found
}

type observer struct {
	now     time.Time
	s       Situation
	records []Record
	found   []Finding
}

func (o *observer) upstream(u Upstream) {
	f := Finding{Key: api.CauseDegraded + "/" + u.Name, Cause: api.CauseDegraded, Upstream: u.Name, Shared: true}
	switch {
	case u.State == api.Degraded && u.Probed && o.hasBegun(f.Key, u.Since):
		f.Phase, f.Since, f.Text = Recovered, u.Since, "probes of "+u.Name+" pass"
	case u.State == api.Degraded:
		f.Phase, f.Since = Ill, u.Since
		f.Title, f.Text = u.Name+" degraded", strings.TrimSuffix(u.Name+" is degraded: "+u.Why, ": ")
	case u.State == api.Recovering && u.Share < 100:
		f.Phase, f.Text = Recovered, u.Name+" is recovering"
	case u.Share < 100:
		f.Phase, f.Text = Recovered, fmt.Sprintf("%s has share %d%%", u.Name, u.Share)
	default:
		f.Phase, f.Text = Back, u.Name+" has share 100%"
	}
	if f.Phase != Ill {
		o.better(f)
		return
	}
	if r, ok := o.having(f.Key); ok {
		t := r.Troubles[f.Key]
		// That this gateway saw no probe pass yet says nothing against another's.
		if t.Phase == Recovered && !u.Failed && !u.Since.After(t.Since) {
			return
		}
	}
	o.worse(f)
}

// hasBegun reports whether a record has the trouble that began then, and it is not
// over.
func (o *observer) hasBegun(key string, since time.Time) bool {
	r, ok := o.having(key)
	t := r.Troubles[key]
	return ok && t.Phase != Back && !since.After(t.Since)
}

// own takes a trouble that each gateway sees for itself.
func (o *observer) own(cause string, is bool, what func() (since time.Time, title, text string), over string) {
	f := Finding{Key: cause + "@" + o.s.Instance, Cause: cause, Phase: Back, Text: over}
	if !is {
		o.better(f)
		return
	}
	f.Phase = Ill
	f.Since, f.Title, f.Text = what()
	o.worse(f)
}

// worse finds the record that f belongs to, or that there is none.
func (o *observer) worse(f Finding) {
	if r, ok := o.having(f.Key); ok {
		if r.Troubles[f.Key].Phase != Ill {
			f.Incident = r.ID
			o.found = append(o.found, f)
		}
		return
	}
	for _, r := range o.records {
		if t, ok := r.Troubles[f.Key]; ok && r.State == api.IncidentClosed && t.Phase != Back && !r.ClosedAt.Before(f.Since) {
			return // it was closed as it is
		}
	}
	if r, ok := Newest(o.records, o.now); ok {
		f.Incident = r.ID
	}
	o.found = append(o.found, f)
}

// better tells every record of f that does not have it so.
func (o *observer) better(f Finding) {
	for _, r := range o.records {
		t, ok := r.Troubles[f.Key]
		if !ok || !r.Open() || t.Phase == f.Phase || t.Phase == Back && !r.Joins(o.now) {
			continue
		}
		f.Incident = r.ID
		o.found = append(o.found, f)
	}
}

// orphans ends what nobody is left to see.
func (o *observer) orphans(configured map[string]bool) {
	for _, r := range o.records {
		if !r.Open() {
			continue
		}
		for _, key := range sortedKeys(r.Troubles) {
			t := r.Troubles[key]
			f := Finding{Incident: r.ID, Key: key, Cause: t.Cause, Upstream: t.Upstream, Phase: Back, Shared: t.Instance == ""}
			switch {
			case t.Phase == Back:
				continue
			case t.Upstream != "" && !configured[t.Upstream]:
				f.Text = t.Upstream + " is no longer configured"
			case t.Instance != "" && t.Instance != o.s.Instance && o.s.Silent[t.Instance]:
				if t.Cause == api.CauseSharedFault && o.s.Fault != nil || t.Cause == api.CauseRatio && o.s.Ratio.Over {
					continue
				}
				f.Text = fmt.Sprintf("%s was seen by %s, which is silent: others do not see it", api.Words(t.Cause), t.Instance)
			default:
				continue
			}
			o.found = append(o.found, f)
		}
	}
}

// having is the newest open record that trouble key, which lasts or is back again,
// belongs to.
func (o *observer) having(key string) (found Record, ok bool) {
	for _, r := range o.records {
		if _, has := r.Troubles[key]; has && r.Joins(o.now) && (!ok || r.OpenedAt.After(found.OpenedAt)) {
			found, ok = r, true
		}
	}
	return found, ok
}

// Newest is the newest record that what happens now belongs to.
func Newest(records []Record, now time.Time) (found Record, ok bool) {
	open := 0
	for _, r := range records {
		if r.Open() {
			open++
		}
	}
	for _, r := range records {
		if (r.Joins(now) || r.Open() && open >= MaxOpen) && (!ok || r.OpenedAt.After(found.OpenedAt)) {
			found, ok = r, true
		}
	}
	return found, ok
}

// Concerned is the record that e belongs to: one about its upstream, else the
// newest.
func Concerned(records []Record, e decision.Event, now time.Time) (found Record, ok bool) {
	for _, r := range records {
		if e.Provider != "" && r.Open() && slices.Contains(r.Upstreams, e.Provider) && (!ok || r.OpenedAt.After(found.OpenedAt)) {
			found, ok = r, true
		}
	}
	if ok {
		return found, true
	}
	return Newest(records, now)
}

// Told reports whether e is of those that a timeline has.
func Told(e decision.Event) bool {
	switch e.Kind {
	case decision.KindBreakerTransition, decision.KindHealthTransition, decision.KindTrafficStep, decision.KindSharedFault,
		decision.KindPassthrough, decision.KindConfigReload, decision.KindCredential, decision.KindEscalation:
		return true
	case decision.KindOperatorCommand:
		return !strings.HasPrefix(e.Action, "incident_") // those have entries of their own
	}
	return false
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

const (
	// ratioHeld is how long the ratio must be over its limit, or below, to be so.
	ratioHeld = 2 * time.Minute
	// ratioRequests in the last minute are the least that a ratio says something by.
	ratioRequests = 20
	// ratioBelow is what part of the limit the ratio must fall to.
	ratioBelow = 0.8
)

// Ratio watches the fallback ratio. Its zero value is ready.
type Ratio struct {
	state RatioState
	since time.Time // of the opposite of state.Over; zero: it is not so
}

// Step takes the ratio over the last minute, in which there were as many requests,
// and says whether it is over limit; limit 0 or less: there is none. Too few
// requests say nothing for or against.
func (r *Ratio) Step(now time.Time, ratio float64, requests int, limit float64) RatioState {
	if limit <= 0 {
		*r = Ratio{}
		return r.state
	}
	r.state.Limit = limit
	turns := ratio > limit
	if r.state.Over {
		turns = ratio <= ratioBelow*limit
	}
	if requests < ratioRequests {
		// A minute without enough of them neither goes on nor is held against it.
		r.since = time.Time{}
		return r.state
	}
	r.state.Value = ratio
	switch {
	case !turns:
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = now
	case now.Sub(r.since) >= ratioHeld:
		r.state.Over, r.state.Since, r.since = !r.state.Over, r.since, time.Time{}
	}
	return r.state
}
