package ui

import "os"

// CheckTerminal returns ErrNoTerminal, with the reason, if Run could not draw
// on standard input and output: asked before anything is started for a console.
func CheckTerminal() error {
	return checkTerminal(Options{Environ: os.Environ(), Input: os.Stdin, Output: os.Stdout})
}
