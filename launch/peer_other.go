//go:build !linux && !darwin

package launch

import "net"

// listenerPID is not known on this platform.
func listenerPID(net.Conn) int { return 0 }
