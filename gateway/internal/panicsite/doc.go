// Package panicsite owns the name of the line that a panic came from, which is
// what of a stack fits into an alarm. It never recovers, and writes nothing.
package panicsite
