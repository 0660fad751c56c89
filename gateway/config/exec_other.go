//go:build !unix

package config

import "os/exec"

// endGroup does nothing where there are no process groups: the end of the
// command's context ends the command alone.
func endGroup(*exec.Cmd) {}
