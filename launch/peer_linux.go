package launch

import (
	"net"
	"syscall"
)

// listenerPID returns the process that listens on the other end of a unix
// socket: for a client, SO_PEERCRED holds who called listen (man 7 unix).
func listenerPID(c net.Conn) int {
	return socketOption(c, func(fd int) (int, error) {
		cred, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err != nil {
			return 0, err
		}
		return int(cred.Pid), nil
	})
}
