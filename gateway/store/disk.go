package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// diskProbe is how much must fit before a full disk counts as one with room:
// less would be full again with the next write.
const diskProbe = 256 << 10

// probeDisk reports whether dir can be written, by writing to it.
func probeDisk(dir string) (err error) {
	path := filepath.Join(dir, "probe")
	defer func() { err = errors.Join(err, ignoreMissing(os.Remove(path))) }()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(make([]byte, diskProbe)); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// diskError says what is wrong with dir and what to do about it.
func diskError(dir string, err error) error {
	switch {
	case isDiskFull(err):
		return fmt.Errorf("the disk of %s is full: make room there, writing then goes on by itself: %w", dir, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s must not be written: give this user its permissions, writing then goes on by itself: %w", dir, err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s is gone: put it back, writing then goes on by itself; a start without it begins with nothing: %w", dir, err)
	default:
		return fmt.Errorf("%s cannot be written: %w", dir, err)
	}
}
