// Package traffic owns the share table: what percent of its own traffic each
// upstream may get (0, 5, 25, 75 or 100), under which revision, set by whom and
// why, and which conversations are inside a share. It keeps the table in one
// file, so that a restart changes neither a share nor its members.
//
// Lowering a share is never refused and never waits for the disk. Raising goes
// one step at a time and is on disk before it takes effect.
//
// It never decides whether an upstream is well enough for more traffic: the
// objection of whoever judges that comes with the command (Command.BlockedBy).
// It never sends a request and never reads one.
package traffic
