//go:build unix

package launch

import (
	"os"
	"os/exec"
	"syscall"
)

// detach makes cmd the leader of a session of its own: it has no controlling
// terminal, so neither a hang-up nor a key of this one's reaches it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
