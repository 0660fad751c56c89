package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// smallDisk returns a directory on a disk of its own, and what fills it.
func smallDisk(t *testing.T) (dir string, fill, free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,mode=0700"); err != nil {
		t.Skipf("requires the right to mount a tmpfs, as a disk that fills: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	fill = func() {
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for size := 1 << 16; size > 0; size /= 2 {
			for {
				if _, err := f.Write(make([]byte, size)); err != nil {
					break
				}
			}
		}
	}
	free = func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	return dir, fill, free
}

// states collects what OnState was told.
type states struct{ logs }

func (s *states) on(err error) {
	if err == nil {
		s.add("well")
	} else {
		s.add(err.Error())
	}
}

func TestFullDiskAndBack(t *testing.T) {
	dir, fill, free := smallDisk(t)
	var told states
	s := open(t, Options{Dir: filepath.Join(dir, "store"), OnState: told.on})
	b, st := bucket(t, s, BucketOptions{Name: "things"}), stream(t, s, StreamOptions{Name: "lines"})
	changes, _ := watchAll(t, b)
	mustPut(t, b, "a", thing{N: 1})
	next(t, changes)
	var acked []int
	for round := range 2 {
		fill()
		began := time.Now()
		var err error
		for n := 0; err == nil; n++ {
			if _, err = st.Append(t.Context(), "", thing{N: round*1000 + n, Text: strings.Repeat("x", 500)}); err == nil {
				acked = append(acked, round*1000+n)
			}
			if n == 900 {
				t.Fatal("the disk does not get full")
			}
		}
		if !isUnavailable(err) || time.Since(began) > defaultTimeout*9/10 {
			t.Fatalf("a full disk, after %v: %v", time.Since(began), err)
		}
		eventually(t, "the disk is named", func() bool {
			err := s.Status().Err
			return err != nil && errors.Is(err, unix.ENOSPC) && strings.Contains(err.Error(), dir) && strings.Contains(err.Error(), "make room")
		})
		since := s.Status().Since
		if time.Since(since) > time.Minute {
			t.Errorf("since %v", since)
		}
		// Writing fails at once, reading goes on.
		began = time.Now()
		if _, err := b.Put(t.Context(), "a", thing{N: 9}); !isUnavailable(err) || !errors.Is(err, unix.ENOSPC) || time.Since(began) > defaultTimeout*9/10 {
			t.Errorf("a put after %v: %v", time.Since(began), err)
		}
		if e, err := b.Get(t.Context(), "a"); err != nil || e.Value.N != 1+round {
			t.Errorf("reading: %+v, %v", e, err)
		}
		if got := s.Status().Since; !got.Equal(since) {
			t.Errorf("since %v, then since %v", since, got)
		}
		free()
		eventually(t, "writing again", func() bool { return s.Status().Err == nil })
		mustPut(t, b, "a", thing{N: 2 + round})
		if c := next(t, changes); c.Value.N != 2+round {
			t.Fatalf("%+v", c)
		}
		mustAppend(t, st, round*1000+999)
		acked = append(acked, round*1000+999)
		items, err := st.Read(t.Context(), 0, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		there := map[int]bool{}
		for _, item := range items {
			there[item.Value.N] = true
		}
		for _, n := range acked {
			if !there[n] {
				t.Errorf("value %d was acknowledged and is not there", n)
			}
		}
	}
	if text := told.text(); !strings.HasSuffix(text, "well") || strings.Count(text, "well") != 2 || strings.Count(text, "is full") < 2 {
		t.Errorf("told:\n%s", text)
	}
}

func TestOpenOnFullDisk(t *testing.T) {
	dir, fill, free := smallDisk(t)
	path := filepath.Join(dir, "store")
	s := openDir(t, path)
	mustPut(t, bucket(t, s, BucketOptions{Name: "things"}), "a", thing{N: 1})
	closeStore(t, s)
	fill()
	s = openDir(t, path)
	b := bucket(t, s, BucketOptions{Name: "things"})
	if e := mustGet(t, b, "a"); e.Value.N != 1 {
		t.Fatalf("%+v", e)
	}
	var err error
	for n := 0; err == nil && n < 900; n++ {
		_, err = b.Put(t.Context(), "a", thing{N: 1, Text: strings.Repeat("x", 500)})
	}
	if !isUnavailable(err) {
		t.Fatal(err)
	}
	fresh := bucket(t, s, BucketOptions{Name: "fresh"})
	free()
	eventually(t, "writing again", func() bool { return s.Status().Err == nil })
	mustPut(t, fresh, "b", thing{N: 2})
	mustPut(t, b, "a", thing{N: 3})
}

// The first start on a disk without a byte of room is no failure either.
func TestFirstOpenOnFullDisk(t *testing.T) {
	dir, fill, free := smallDisk(t)
	path := filepath.Join(dir, "store")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	fill()
	s := openDir(t, path)
	b := bucket(t, s, BucketOptions{Name: "things"})
	if _, err := b.Put(t.Context(), "a", thing{}); !isUnavailable(err) {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "a"); !isUnavailable(err) {
		t.Fatal(err)
	}
	free()
	eventually(t, "writing", func() bool {
		_, err := b.Put(t.Context(), "a", thing{N: 1})
		return err == nil
	})
	if err := s.Status().Err; err != nil {
		t.Error(err)
	}
}

// Whoever closes does not wait for the disk.
func TestCloseWhileFull(t *testing.T) {
	dir, fill, _ := smallDisk(t)
	s := openDir(t, filepath.Join(dir, "store"))
	st := stream(t, s, StreamOptions{Name: "lines"})
	fill()
	var err error
	for n := 0; err == nil && n < 900; n++ {
		_, err = st.Append(context.Background(), "", thing{Text: strings.Repeat("x", 500)})
	}
	closeStore(t, s)
	if _, err := st.Append(context.Background(), "", thing{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
