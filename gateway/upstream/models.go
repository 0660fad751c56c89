package upstream

import (
	"sync"
	"sync/atomic"
	"time"

	"failback/gateway/decision"
)

// How long a model of an upstream is left alone: as long as was asked for, and
// else modelBusy after a 429 or 529 that named it; a model that is gone cools
// as a credential does, coolFirst and then twice as long each time.
const modelBusy = 15 * time.Second

// models keeps which models of one upstream cool.
type models struct {
	some atomic.Bool // any entry at all: read without mu for every request

	mu sync.Mutex
	// mu guards everything that follows.
	cool map[string]modelState
}

type modelState struct {
	class decision.Class
	fails int
	last  time.Duration
	until time.Time
	// gone: it was not known when it was last asked for, whether it cools or not.
	gone bool
}

// ModelCooling returns the class for which model, by u's own name for it, is
// left alone now, and whether it is.
func (u *Upstream) ModelCooling(model string) (decision.Class, bool) {
	if !u.models.some.Load() {
		return "", false
	}
	u.models.mu.Lock()
	defer u.models.mu.Unlock()
	m, ok := u.models.cool[model]
	if !ok || !time.Now().Before(m.until) {
		return "", false
	}
	return m.class, true
}

// CoolModel leaves model alone for retryAfter, or as long as is usual for
// class if retryAfter is not positive. It never shortens what holds already,
// and says so in an event when it begins.
func (u *Upstream) CoolModel(model string, class decision.Class, retryAfter time.Duration) {
	now := time.Now()
	u.models.mu.Lock()
	m, known := u.models.cool[model]
	cooling := known && now.Before(m.until)
	if !cooling {
		// A failure long after the last one starts over.
		if known && now.Sub(m.until) > m.last {
			m.fails = 0
		}
		m.fails++
	}
	d := retryAfter
	if d <= 0 {
		d = modelBusy
		if class == decision.ModelGone {
			d = min(coolFirst<<min(m.fails-1, 8), coolMost)
		}
	}
	if until := now.Add(d); until.After(m.until) {
		m.until, m.last = until, d
	}
	m.class, m.gone = class, class == decision.ModelGone
	u.models.put(model, m)
	u.models.mu.Unlock()
	if !cooling && u.book.onEvent != nil {
		u.book.onEvent(decision.Event{
			Kind: decision.KindModelCooling, Time: now, Provider: u.name, Region: u.Region(), Model: model,
			From: "ok", To: "cooling", Reason: string(class), Detail: "left alone for " + d.String(), By: decision.Auto,
		})
	}
}

// ModelMissing tells that a probe did not find model. Nothing cools for it, but
// Lacks says so.
func (u *Upstream) ModelMissing(model string) {
	u.models.mu.Lock()
	defer u.models.mu.Unlock()
	m := u.models.cool[model]
	m.gone = true
	u.models.put(model, m)
}

// ModelAnswered tells that one of models answered a request. Of one that cools
// it proves nothing: the request was sent before.
func (u *Upstream) ModelAnswered(models ...string) {
	if !u.models.some.Load() {
		return
	}
	u.models.mu.Lock()
	defer u.models.mu.Unlock()
	for _, model := range models {
		if m, known := u.models.cool[model]; known && m.gone && !time.Now().Before(m.until) {
			m.gone = false
			u.models.cool[model] = m
		}
	}
}

// Lacks reports whether u did not know any of models when it was last asked
// for, by a request or a probe.
func (u *Upstream) Lacks(models ...string) bool {
	u.models.mu.Lock()
	defer u.models.mu.Unlock()
	for _, model := range models {
		if u.models.cool[model].gone {
			return true
		}
	}
	return false
}

// put requires mu.
func (m *models) put(model string, s modelState) {
	if m.cool == nil {
		m.cool = make(map[string]modelState)
	}
	m.cool[model] = s
	m.some.Store(true)
}

// ModelWorks ends the cooling of models that were taken for gone: one of them
// answered. What was asked for by a wait goes on, and one that is soon gone
// again cools as if this had not been.
func (u *Upstream) ModelWorks(models ...string) {
	if !u.models.some.Load() {
		return
	}
	now := time.Now()
	for _, model := range models {
		u.models.mu.Lock()
		m, known := u.models.cool[model]
		works := known && m.class == decision.ModelGone && now.Before(m.until)
		if works {
			m.until = now
		}
		if known {
			m.gone = false
			u.models.cool[model] = m
		}
		u.models.mu.Unlock()
		if works && u.book.onEvent != nil {
			u.book.onEvent(decision.Event{
				Kind: decision.KindModelCooling, Time: now, Provider: u.name, Region: u.Region(), Model: model,
				From: "cooling", To: "ok", Reason: "success", Detail: "it answers again", By: "auto",
			})
		}
	}
}

// ClearModels ends the cooling of every model of u.
func (u *Upstream) ClearModels() {
	u.models.mu.Lock()
	defer u.models.mu.Unlock()
	clear(u.models.cool)
	u.models.some.Store(false)
}
