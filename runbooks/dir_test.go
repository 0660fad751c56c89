//go:build unix

package runbooks_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"failback/runbooks"
)

// What stands in a directory extends the embedded runbooks or replaces them; a
// file with a mistake, a pipe or a directory is left out and takes no other with it.
func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.md", front+body)
	write("b.md", strings.Replace(front, "id: a-b", "id: provider-5xx", 1)+body)
	write("c.md", strings.NewReplacer("contact: owner", "contact: [a]", "id: a-b", "id: c").Replace(front)+body)
	write("d.md", front+body)
	if err := os.Mkdir(filepath.Join(dir, "e.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "f.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := runbooks.ReadDir(dir)
	var ids []string
	for _, r := range x.Runbooks {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, []string{"a-b", "provider-5xx"}) {
		t.Errorf("read %v", ids)
	}
	var said []string
	for _, err := range x.Errors {
		said = append(said, strings.TrimPrefix(err.Error(), dir+"/"))
	}
	for i, want := range []string{"c.md:4: contact is not a text", "d.md:2: id \"a-b\" is that of ", "e.md: not a file", "f.md: not a file"} {
		if i >= len(said) || !strings.HasPrefix(said[i], want) {
			t.Errorf("error %d is not %q: %v", i, want, said)
		}
	}
	base, err := runbooks.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	all := runbooks.Merge(base, x.Runbooks)
	at := slices.IndexFunc(all, func(r runbooks.Runbook) bool { return r.ID == "provider-5xx" })
	if len(all) != len(base)+1 || all[at].File != filepath.Join(dir, "b.md") || all[len(all)-1].ID != "a-b" {
		t.Errorf("merged to %d", len(all))
	}
	if at := slices.IndexFunc(base, func(r runbooks.Runbook) bool { return r.ID == "provider-5xx" }); base[at].File != "provider-5xx.md" {
		t.Error("the embedded one was changed")
	}
	write("g.md", "---\n")
	if x := runbooks.ReadDir(filepath.Join(dir, "g.md")); len(x.Errors) != 1 || !strings.Contains(x.Errors[0].Error(), "not a directory") {
		t.Errorf("a file: %v", x.Errors)
	}
}
