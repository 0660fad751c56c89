package logs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestADiskThatIsReallyFull fills a file system. It needs the right to mount one.
func TestADiskThatIsReallyFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("requires the right to mount a tmpfs, as a disk that fills: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	said := make(chan string, 100)
	s := open(t, Options{Dir: filepath.Join(dir, "logs"), MaxBytes: 64 << 20, Log: func(m string) { said <- m }})
	first := at(1, `"n":1`)
	store(t, s, first)
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling: %v", err)
	}
	sent := 0
	pad := at(2, `"pad":"`+strings.Repeat("x", 9000)+`"`)
	await(t, "the full disk in Stats", func() bool {
		sent++
		if _, err := s.Write([]byte(pad)); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.Stats()
		return errors.Is(err, syscall.ENOSPC)
	})
	began := time.Now()
	if _, err := s.Write([]byte(first)); err != nil || time.Since(began) > 10*time.Second {
		t.Errorf("a line is kept waiting: %v, %v", time.Since(began), err)
	}
	if got := lines(t, s); len(got) == 0 || got[0] != first {
		t.Errorf("%d lines can be read", len(got))
	}
	<-said
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	await(t, "the lines that waited", func() bool {
		w, lost, err := s.Stats()
		return err == nil && w+lost == uint64(sent+2)
	})
	<-said
	if got := lines(t, s); len(got) != sent+2 {
		t.Errorf("%d lines of %d", len(got), sent+2)
	}
	shut(t, s)
}
