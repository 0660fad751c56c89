package launch

import (
	"net"

	"golang.org/x/sys/unix"
)

// listenerPID returns the process that listens on the other end of a unix
// socket: LOCAL_PEERPID of man 4 unix.
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
		if n, err := unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID); err == nil {
			pid = n
		}
	})
	if err != nil {
		return 0
	}
	return pid
}
