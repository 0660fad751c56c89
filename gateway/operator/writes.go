package operator

import (
	"strings"
	"sync"

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

// load fills in what the audit file says of the time before this process.
func (w *writes) load(oldestFirst []api.AuditEntry) {
	for _, e := range oldestFirst {
		if e.Phase == api.PhaseDone && e.Result == api.ResultOK {
			w.add(e.Target, commandEvent(e))
		}
	}
}

// add notes e; later calls hold later commands.
func (w *writes) add(target string, e api.Event) {
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

// commandEvent is e as the operator_command event of the API.
func commandEvent(e api.AuditEntry) api.Event {
	v := api.Event{
		Event:    "operator_command",
		Time:     e.Time,
		From:     e.From,
		To:       e.To,
		Reason:   e.Code,
		Detail:   e.Message,
		By:       e.By,
		Why:      e.Why,
		Action:   e.Action,
		Result:   e.Result,
		Revision: e.NewRevision,
	}
	v.Provider, v.Capability = splitTarget(e.Action, e.Target)
	return v
}

// splitTarget is the upstream, and of a bucket the capability, that target is.
func splitTarget(action, target string) (provider, capability string) {
	if action == actionBreaker {
		if i := strings.LastIndexByte(target, ':'); i >= 0 {
			return target[:i], target[i+1:]
		}
	}
	if action == actionShare || action == actionBreaker {
		return target, ""
	}
	return "", ""
}
