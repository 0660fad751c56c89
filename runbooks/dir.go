package runbooks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// AgedAfter is the age of a review from which on nobody can rely on it.
const AgedAfter = 180 // days

// Extra are the runbooks of a directory. Its zero value is none.
type Extra struct {
	Runbooks []Runbook
	// Errors are what is wrong with the directory, or with files that are left
	// out, each with file and line. Text from outside.
	Errors []error
}

// ReadDir reads the files *.md of a directory. A file with a mistake is left
// out, the others are not.
func ReadDir(dir string) Extra {
	if i, err := os.Stat(dir); err != nil || !i.IsDir() {
		if err == nil {
			err = errors.New("not a directory")
		}
		return Extra{Errors: []error{fmt.Errorf("runbooks of %s: %w; name a directory of files *.md", dir, err)}}
	}
	return readExtra(os.DirFS(dir), dir)
}

func readExtra(fsys fs.FS, dir string) Extra {
	rs, errs := read(fsys, dir)
	return Extra{rs, errs}
}

// Merge returns base with extra: those with an id of base take its place, the
// others follow.
func Merge(base, extra []Runbook) []Runbook {
	all := slices.Clone(base)
	for _, r := range extra {
		if i := slices.IndexFunc(all, func(b Runbook) bool { return b.ID == r.ID }); i >= 0 {
			all[i] = r
		} else {
			all = append(all, r)
		}
	}
	return all
}

// read reads the files *.md at the root of fsys in the order of their names,
// which are shown with dir before them. Those with a mistake are left out.
func read(fsys fs.FS, dir string) (rs []Runbook, errs []error) {
	names, err := fs.Glob(fsys, "*.md")
	if err != nil {
		return nil, []error{fmt.Errorf("runbooks: %w", err)}
	}
	slices.Sort(names)
	seen := make(map[string]string)
	for _, name := range names {
		p := parser{file: filepath.Join(dir, name)}
		data, err := readFile(fsys, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w; see that it is a file and can be read", p.file, err))
			continue
		}
		r := p.parse(data)
		if first, twice := seen[r.ID]; twice && r.ID != "" {
			p.fail(p.idLine, "id %q is that of %s already: ids are unique", r.ID, first)
		} else {
			seen[r.ID] = p.file
		}
		errs = append(errs, p.errs...)
		if len(p.errs) == 0 {
			rs = append(rs, r)
		}
	}
	return rs, errs
}

// readFile reads no more of a file than parse takes, and a byte.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	if i, err := fs.Stat(fsys, name); err != nil || !i.Mode().IsRegular() {
		if err == nil {
			err = errors.New("not a file") // a pipe would be waited for
		}
		return nil, err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}
