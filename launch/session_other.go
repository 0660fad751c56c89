//go:build !unix

package launch

import (
	"errors"
	"os"
	"os/exec"
)

// detach leaves cmd as it is: this platform has no sessions.
func detach(*exec.Cmd) {}

func terminate(*os.Process) error {
	return errors.New("this platform cannot ask a process to stop: end it by hand")
}
