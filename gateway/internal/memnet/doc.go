// Package memnet owns a network in memory for tests: listeners, a dialer and
// buffered connections that behave like TCP where HTTP cares (half close,
// reset, deadlines, a full send buffer that blocks). Everything that waits in
// it waits on a sync.Cond or a channel, so a testing/synctest bubble sees it as
// durably blocked and its clock can move, which a loopback socket does not
// allow.
//
// It never opens a socket, starts no goroutine, and is never used by the
// product itself.
package memnet
