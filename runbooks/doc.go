// Package runbooks owns the Markdown runbooks of the console: their text, the
// format they are written in, and which of them fit what is going on.
//
// It never changes anything, never asks anybody and never draws: a runbook is
// text with marks, a Situation goes in and proposals come out.
//
// The format is described in docs/runbooks.md. Whatever is not described there
// is an error, with the file and the line.
package runbooks
