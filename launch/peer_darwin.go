package launch

import (
	"net"

	"golang.org/x/sys/unix"
)

// listenerPID returns the process that listens on the other end of a unix
// socket: LOCAL_PEERPID of man 4 unix.
func listenerPID(c net.Conn) int {
	return socketOption(c, func(fd int) (int, error) {
		return unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	})
}
