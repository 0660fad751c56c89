// Package decision owns the vocabulary of the gateway as types: what an
// attempt's end is called (Class), whose fault it was (Blame), what a client
// request came to (Status, Route, Reason) and the one record of it (Decision).
// Everything that is logged, counted, traced or shown is a rendering of these
// values, so a word exists here once or not at all.
//
// It never decides anything, does no I/O, and imports nothing of this module.
package decision
