// Package text owns the plain renderings of what the operator API and the
// sources answer: the tables and sentences that the text commands print, and
// the words, numbers and ages that the console shares with them.
//
// It never asks a gateway or a source, never writes anywhere, and never
// colours. Whatever came from outside goes through Visible, so that no log
// line, upstream error or name can drive the terminal it is printed on.
package text
