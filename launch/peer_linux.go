package launch

import (
	"net"
	"syscall"
)

// listenerPID returns the process that listens on the other end of a unix
// socket: for a client, SO_PEERCRED holds who called listen (man 7 unix).
func listenerPID(c net.Conn) int {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	err = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	if err != nil {
		return 0
	}
	return pid
}
