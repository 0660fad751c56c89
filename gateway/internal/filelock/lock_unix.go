//go:build unix

package filelock

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock locks the file at path, which is made if it is not there, until the
// returned one is closed or the process ends, and writes the process's id into
// it. Where somebody else has it that is a *HeldError. It returns nil without an
// error where the file system has no locks: then the caller must find out
// otherwise.
func Lock(path string) (*os.File, error) {
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
		return nil, &HeldError{Path: path, PID: cmp.Or(strings.TrimSpace(string(b)), "unknown")}
	default: // ENOLCK, ENOTSUP
		_ = f.Close()
		return nil, nil
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	return f, nil
}
