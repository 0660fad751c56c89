package operator

import (
	"strconv"
	"strings"
	"sync"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// writes remembers the last command that took effect, in all and by target.
// The zero value is ready.
type writes struct {
	// mu guards everything that follows.
	mu       sync.Mutex
	last     *api.Event
	byTarget map[string]*api.Event
}

// load fills in what the audit says of the time before this process.
func (w *writes) load(oldestFirst []api.AuditEntry, line func(decision.Event) api.Event) {
	for _, e := range oldestFirst {
		if e.Phase == api.PhaseDone && e.Result == api.ResultOK {
			w.add(e.Action, e.Target, line(decisionEvent(e)))
		}
	}
}

// Heard takes in entries of a shared audit, oldest first, so that what was done
// at other gateways counts as the last write here, too. Entries of this gateway
// may be among them.
func (s *Server) Heard(entries []api.AuditEntry) { s.writes.load(entries, s.o.EventLine) }

// add notes e; later calls hold later commands. What is done about an incident
// changes no traffic and is no write in this sense.
func (w *writes) add(action, target string, e api.Event) {
	if strings.HasPrefix(action, incidentAction) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byTarget == nil {
		w.byTarget = make(map[string]*api.Event)
	}
	w.last = &e
	w.byTarget[target] = &e
}

// newest returns the last write, of target if that is not empty; nil if none.
// It is shared and must not be changed.
func (w *writes) newest(target string) *api.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	if target == "" {
		return w.last
	}
	return w.byTarget[target]
}

// lastWrite is command, the last that took effect, or the newest revision of us
// where that came after it, whoever wrote it: most are the machine's. The first
// revision of an upstream is its start, no write. Of one upstream revisions tell what
// is newer, else times do. told finds the event of a revision.
func lastWrite(command *api.Event, us []api.Upstream, told func(upstream string, revision uint64) (api.Event, bool)) *api.Event {
	last := command
	for i := range us {
		u := &us[i]
		if u.Revision <= 1 || u.RevisedBy == "" || !writtenAfter(u, last) {
			continue
		}
		e, ok := told(u.Name, u.Revision)
		if !ok { // of before this process, or of another gateway
			e = api.Event{
				Event: api.KindStep, Action: actionShare, Provider: u.Name, To: strconv.Itoa(u.Share),
				By: u.RevisedBy, Result: api.ResultOK, Revision: u.Revision,
			}
		}
		e.Time = u.RevisedAt
		last = &e
	}
	return last
}

// writtenAfter reports whether the revision of u is newer than last.
func writtenAfter(u *api.Upstream, last *api.Event) bool {
	switch {
	case last == nil:
		return true
	case last.Provider == u.Name && last.Revision != 0:
		return u.Revision > last.Revision
	}
	return u.RevisedAt.After(last.Time)
}

// splitTarget is the upstream, and of a bucket the capability, that target is.
func splitTarget(action, target string) (provider, capability string) {
	if action == actionBreaker {
		if i := strings.LastIndexByte(target, ':'); i >= 0 {
			return target[:i], target[i+1:]
		}
	}
	if action == actionShare || action == actionState || action == actionBreaker {
		return target, ""
	}
	return "", ""
}
