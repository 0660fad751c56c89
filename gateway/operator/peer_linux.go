package operator

import (
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// peerUID is the uid of the process that opened the other end of c, as it was
// then. It is false if the system does not tell, and for the overflow uid: that
// stands for everybody in a user namespace this process knows nothing of.
func peerUID(c *net.UnixConn) (uint32, bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || credErr != nil || cred.Uid == overflowUID() {
		return 0, false
	}
	return cred.Uid, true
}

var overflowUID = sync.OnceValue(func() uint32 {
	b, _ := os.ReadFile("/proc/sys/kernel/overflowuid")
	if n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32); err == nil {
		return uint32(n)
	}
	return 65534
})
