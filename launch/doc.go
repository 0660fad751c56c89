// Package launch owns how a console starts its gateway: as a process in a
// session of its own, whose output is appended to a file and which lives on
// when the console, its terminal or its job is gone.
//
// It never ends a process that it did not start, never kills one that was not
// asked to stop first, and knows of a gateway only its operator socket and
// that GET /healthz on it answers 200.
package launch
