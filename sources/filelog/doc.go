// Package filelog owns the answers from a file: a sources.Logs over lines that
// were written down, for when no server has them, after an incident for
// example.
//
// It never asks anybody, and keeps the whole file in memory.
package filelog
