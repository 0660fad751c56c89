// Package traffic owns the share table: what percent of its own traffic each
// upstream may get, how far its failback is (condition, steps, passed windows,
// retreats, plan, time served), under which revision, set by whom and why, and
// which conversations are inside a share. One record holds share and condition,
// so that they cannot contradict each other, and a Storage keeps it, so that a
// restart changes neither a share nor its members. What the storage does not take
// is kept in a file beside it (KeepUnsynced) until it does.
//
// Lowering a share is never refused and never waits for the storage. Raising
// goes one step at a time and is stored before it takes effect.
//
// It never decides whether an upstream is well enough for more traffic: the
// objection of whoever judges that comes with the command (Command.BlockedBy),
// and so do a retreat and the end of a failback. It never sends a request and
// never reads one.
package traffic
