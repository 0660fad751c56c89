package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"weak"
)

// load returns the index of a segment that nobody writes to any more: from its
// side file or, where that is missing or wrong, from its lines.
func (s *Store) load(g *segment) (*index, error) {
	g.loading.Lock()
	defer g.loading.Unlock()
	if x := g.cached.Value(); x != nil {
		return x, nil
	}
	f, err := os.OpenFile(g.path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	x, err := readSide(g.side(), f, info.Size(), s.o.Indexed)
	made := err != nil
	if made {
		if x, err = s.remake(g, f, info.Size(), err); err != nil {
			return nil, err
		}
	}
	g.cached = weak.Make(x)
	s.mu.Lock()
	defer s.mu.Unlock()
	g.size, g.sum, g.holes = x.size, x.summary(), x.holes
	if made {
		g.spoiled = nil
	}
	return x, nil
}

// remake makes an index from the lines in f, and its side file.
func (s *Store) remake(g *segment, f *os.File, size int64, why error) (*index, error) {
	whole, err := wholeLines(f, size)
	if err != nil {
		return nil, err
	}
	b, err := s.scan(g, f, whole)
	if err != nil {
		return nil, err
	}
	x := b.view()
	if n := x.damaged(); n > 0 {
		s.o.Log(fmt.Sprintf("embedded log: %s: %s", filepath.Base(g.path), damage(n)))
	}
	if whole != size {
		if err := f.Truncate(whole); err != nil {
			return x, nil // it is as good for now; the side file would not fit
		}
	}
	n, err := writeSide(g.side(), x, f)
	if !errors.Is(why, fs.ErrNotExist) {
		s.o.Log(fmt.Sprintf("embedded log: the index of %s was wrong; made again from its %d lines", filepath.Base(g.path), len(x.ts)))
	}
	if err != nil {
		return x, nil // it is made again when it is needed again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.sideSize = n
	return x, nil
}

// scan makes an index of the first size bytes of f, which are g's.
func (s *Store) scan(g *segment, f io.ReaderAt, size int64) (*builder, error) {
	b, err := scanFile(io.NewSectionReader(f, 0, size), s.o.Indexed, s.o.Labels)
	if err != nil {
		return nil, err
	}
	if old, err := oldSummary(g.side()); err == nil {
		b.missed(old)
	}
	return b, nil
}
