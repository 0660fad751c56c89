//go:build linux || darwin

package launch

import "net"

// socketOption reads an option of a unix socket with get; 0 where that is not
// possible.
func socketOption(c net.Conn, get func(fd int) (int, error)) int {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0
	}
	value := 0
	err = raw.Control(func(fd uintptr) {
		if v, err := get(int(fd)); err == nil {
			value = v
		}
	})
	if err != nil {
		return 0
	}
	return value
}
