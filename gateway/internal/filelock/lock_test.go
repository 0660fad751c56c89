package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

func TestLockIsHeldOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if f == nil {
		t.Skip("requires file locks, which there are none of on " + runtime.GOOS)
	}
	_, err = Lock(path)
	if held, ok := errors.AsType[*HeldError](err); !ok || held.PID != strconv.Itoa(os.Getpid()) || held.Path != path {
		t.Errorf("the second one got %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f, err = Lock(path)
	if err != nil || f == nil {
		t.Fatalf("after it was given back: %v", err)
	}
	_ = f.Close()
}

func TestLockNeedsItsDirectory(t *testing.T) {
	if f, err := Lock(filepath.Join(t.TempDir(), "none", "lock")); err == nil && f != nil {
		t.Error("locked where there is no directory")
	}
}
