// Package store owns what must survive a crash or be shared between gateways:
// typed buckets (a value per key, with revisions) and typed streams (values in
// order, appended) over NATS JetStream, and the questions that those who use one
// cluster ask each other, over the same connection. It never decides what a value
// means, and nothing outside it knows NATS.
//
// # Where it is kept
//
// By default JetStream runs inside the process: no listener, no port, no signal
// handler, and each write is synced before it is acknowledged. It keeps its
// files in Options.Dir, which belongs to one process at a time. With
// Options.URL an existing cluster keeps it instead (nats-server 2.11 or newer,
// with JetStream); the calls are the same.
//
// # When it cannot be written
//
// Every call ends, at the latest after Options.Timeout. Status says why writes
// fail, since when, and nil when they do not. Nothing needs a restart:
//
//   - The disk is full or the directory may not be written: the error names the
//     directory. Reading goes on where the server still can. The store looks
//     again every few seconds and writes as soon as there is room.
//   - The cluster does not answer: calls fail at once, and are served again when
//     the connection is back.
//   - A file of the directory is damaged: Open refuses the directory and names
//     the file. Restore it from a copy, or move the directory away to start with
//     nothing. A damaged directory is never started as an empty one.
//
// An *UnavailableError with Unknown set means that the write may have happened.
// Append takes an id for that: the same id is appended once.
//
// # To look at it
//
// Buckets are NATS key-value buckets named PREFIX_NAME, streams are streams of
// that name, so the nats command reads those of a cluster; questions go to the
// subject PREFIX.ask.NAME and are answered to an inbox. Values are JSON,
// {"v":1,"d":…}, v being the version of what d holds. In keys everything but
// letters, digits, "-", "_" and "/" is written "=" and two hexadecimal digits
// per byte.
package store
