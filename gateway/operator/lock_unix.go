//go:build unix

package operator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile locks path for the life of the process. It returns nil without an
// error where the file system has no locks.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, unix.EWOULDBLOCK):
		b, _ := io.ReadAll(io.LimitReader(f, 32))
		_ = f.Close()
		pid := strings.TrimSpace(string(b))
		if pid == "" {
			pid = "unknown"
		}
		return nil, fmt.Errorf("another gateway (process %s) holds it: stop that one, or choose another data_dir", pid)
	default: // ENOLCK, ENOTSUP: the question whether somebody answers must do
		_ = f.Close()
		return nil, nil
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	return f, nil
}
