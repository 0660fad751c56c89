package logs

import (
	"fmt"
	"path/filepath"
	"time"
)

// hold keeps a segment's files until release. It reports whether there was
// still something to keep.
func (s *Store) hold(g *segment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.dropped {
		return false
	}
	g.readers++
	return true
}

// release ends a hold.
func (s *Store) release(g *segment) {
	s.mu.Lock()
	g.readers--
	last := g.dropped && g.readers == 0
	s.mu.Unlock()
	if last {
		s.remove(g)
	}
}

func (s *Store) remove(g *segment) {
	if err := g.remove(); err != nil {
		s.o.Log(fmt.Sprintf("embedded log: %s is too old but cannot be deleted: %v", filepath.Base(g.path), err))
	}
}

// retain drops the oldest segments until there is room for more bytes, and
// those whose lines are all too old. The segment that is written to stays; a
// segment that is being read is no longer found but goes when it is released.
func (s *Store) retain(now time.Time, more int64) {
	oldest := now.Add(-s.o.MaxAge).UnixNano()
	var gone []*segment
	s.mu.Lock()
	total := more
	for _, g := range s.segs {
		total += g.size + g.sideSize
	}
	for len(s.segs) > 0 && s.segs[0].live == nil {
		g := s.segs[0]
		_, high := g.bounds()
		if total <= s.o.MaxBytes && (g.sum == nil || high >= oldest) {
			break
		}
		total -= g.size + g.sideSize
		s.segs = s.segs[1:]
		if g.dropped = true; g.readers == 0 {
			gone = append(gone, g)
		}
	}
	s.mu.Unlock()
	for _, g := range gone {
		s.remove(g)
	}
}
