package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A directory that was named is made, and kept; one of the demo's own goes.
func TestDemoDir(t *testing.T) {
	t.Chdir(t.TempDir())
	in := &invocation{dir: filepath.Join("a", "b")}
	dir, remove, err := in.demoDir()
	if err != nil || !filepath.IsAbs(dir) || !strings.HasSuffix(dir, in.dir) {
		t.Fatalf("%q, %v", dir, err)
	}
	remove()
	if f, err := os.Stat(in.dir); err != nil || !f.IsDir() {
		t.Errorf("the directory that was named: %v", err)
	}
	if err := os.WriteFile("f", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&invocation{dir: filepath.Join("f", "d")}).demoDir(); err == nil || !strings.Contains(err.Error(), "--dir: ") {
		t.Errorf("below a file: %v", err)
	}
	dir, remove, err = (&invocation{}).demoDir()
	if err != nil {
		t.Fatal(err)
	}
	if f, err := os.Stat(dir); err != nil || !f.IsDir() {
		t.Errorf("a new one: %v", err)
	}
	remove()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it stays: %v", err)
	}
}

func TestDemoHelpNamesItsSocket(t *testing.T) {
	if out, _, code := runLine("demo", "--help"); code != exitDone || !strings.Contains(out, "failback.sock") {
		t.Errorf("exit %d: %s", code, out)
	}
}
