package ui

import (
	"context"
	"time"
)

// leaveWait bounds taking leave of the gateway: nobody waits for a console that
// they have left.
const leaveWait = 500 * time.Millisecond

// presence is a client that tells its gateway whether anybody sits here: that a
// key was pressed, and that the console ends. An *api.Client is one.
type presence interface {
	Active()
	Leave(ctx context.Context) error
}

// present notes that the operator is here now.
func (m *model) present() {
	if p, ok := m.o.Client.(presence); ok {
		p.Active()
	}
}

// goodbye takes leave of the gateway, which forgets a console that does not by
// itself.
func goodbye(ctx context.Context, o Options) {
	p, ok := o.Client.(presence)
	if !ok {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), leaveWait)
	defer done()
	_ = p.Leave(ctx)
}
