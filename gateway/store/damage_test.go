package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := openDir(t, dir)
	b, st := bucket(t, s, BucketOptions{Name: "things"}), stream(t, s, StreamOptions{Name: "lines"})
	for n := range 20 {
		mustPut(t, b, strings.Repeat("k", n+1), thing{n, "some text that is long enough"})
		mustAppend(t, st, n)
	}
	closeStore(t, s)
	return dir
}

func streamDir(dir, name string) string {
	return filepath.Join(dir, "jetstream", "$G", "streams", name)
}

// A damaged directory is refused, the second time too, until it was moved away.
func TestDamageIsRefused(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir string){
		"meta": func(t *testing.T, dir string) {
			overwrite(t, filepath.Join(streamDir(dir, "KV_failback_things"), "meta.inf"), 10)
		},
		"no meta": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(streamDir(dir, "failback_lines"), "meta.inf")); err != nil {
				t.Fatal(err)
			}
		},
		"a value": func(t *testing.T, dir string) {
			path := find(t, streamDir(dir, "KV_failback_things"), "*.blk")
			overwrite(t, path, int(stat(t, path).Size()/2))
		},
		"half a file": func(t *testing.T, dir string) {
			path := find(t, streamDir(dir, "KV_failback_things"), "*.blk")
			if err := os.Truncate(path, stat(t, path).Size()/2); err != nil {
				t.Fatal(err)
			}
		},
		"no file": func(t *testing.T, dir string) {
			if err := os.Remove(find(t, streamDir(dir, "KV_failback_things"), "*.blk")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t)
			damage(t, dir)
			for range 2 {
				s, err := Open(t.Context(), Options{Dir: dir, Log: func(l string) { t.Log(l) }})
				if d, is := errors.AsType[*DamagedError](err); !is || d.Dir != dir || !strings.Contains(err.Error(), "move it away") {
					if err == nil {
						all, err := bucket(t, s, BucketOptions{Name: "things"}).All(t.Context())
						t.Logf("%d values, %v", len(all), err)
						closeStore(t, s)
					}
					t.Fatalf("opened: %v", err)
				}
			}
			if err := os.Rename(dir, dir+".old"); err != nil {
				t.Fatal(err)
			}
			closeStore(t, openDir(t, dir))
		})
	}
}

func overwrite(t *testing.T, path string, at int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xAA}, 8), int64(at)); err != nil {
		t.Fatal(err)
	}
}

// A last write that a crash tore was never acknowledged: no damage.
func TestTornEndIsNoDamage(t *testing.T) {
	dir := filled(t)
	path := find(t, streamDir(dir, "failback_lines"), "*.blk")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(whole[:40]); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	st := stream(t, openDir(t, dir), StreamOptions{Name: "lines"})
	if b, err := st.Bounds(t.Context()); err != nil || b.Len != 20 {
		t.Fatalf("%+v, %v", b, err)
	}
	if seq := mustAppend(t, st, 20); seq != 21 {
		t.Fatalf("sequence %d", seq)
	}
}

// A directory that is taken away under a running store is named, and its coming
// back is noticed: nothing that was acknowledged is lost.
func TestDirectoryThatIsGoneAndBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := openDir(t, dir)
	b := bucket(t, s, BucketOptions{Name: "things"})
	mustPut(t, b, "a", thing{N: 1})
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	s.broke(errors.New("a write failed")) // as the server says where a file is not open yet
	eventually(t, "the loss is named", func() bool {
		err := s.Status().Err
		return err != nil && strings.Contains(err.Error(), "is gone: put it back")
	})
	if _, err := b.Put(t.Context(), "a", thing{N: 2}); !isUnavailable(err) {
		t.Errorf("stored nowhere: %v", err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it writes again", func() bool { return s.Status().Err == nil })
	if e := mustGet(t, b, "a"); e.Value.N != 1 {
		t.Errorf("%+v", e)
	}
	mustPut(t, b, "a", thing{N: 3})
}
