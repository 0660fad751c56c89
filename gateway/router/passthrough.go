package router

import (
	"slices"
	"time"
)

// Passthrough is the break glass: while it lasts, upstreams are asked in a
// fixed order whatever their share, breakers or health. Policy still holds.
type Passthrough struct {
	Order []string
	Until time.Time
	By    string
	Why   string
}

func (p *Passthrough) names(upstream string) bool { return slices.Contains(p.Order, upstream) }

// SetPassthrough begins p; nil ends what there is.
func (r *Router) SetPassthrough(p *Passthrough) { r.passthrough.Store(p) }

// EndPassthrough ends p, if it is what there is, and reports whether it was.
func (r *Router) EndPassthrough(p *Passthrough) bool { return r.passthrough.CompareAndSwap(p, nil) }

// Passthrough returns what is in force, nil if nothing is. It ends by itself.
func (r *Router) Passthrough() *Passthrough {
	p := r.passthrough.Load()
	if p == nil || !time.Now().Before(p.Until) {
		return nil
	}
	return p
}
