package traffic

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// kept is the file of what is in force and not stored, so that a lowering
// outlives the process even while the storage is away. Only the writer touches
// the file; the fields are guarded by Table.mu.
type kept struct {
	path string            // empty: none is kept
	in   map[string]uint64 // the revisions that the file holds
	err  error             // why it is not what it should be
}

// KeepUnsynced keeps what is in force and not stored in the file at path, and
// takes up what an earlier process left there: as far as it is stricter than what
// is in force, it is in force again, and stored soon. It is to be called once,
// after Ensure. A file that cannot be read is an error.
func (t *Table) KeepUnsynced(path string) error {
	records, err := readKept(path)
	if err != nil {
		return fmt.Errorf("shares that were not written to the store are kept in %s: %w; restore the file, or move it away to go by the store alone", path, err)
	}
	now := time.Now()
	t.mu.Lock()
	t.kept = kept{path: path, in: revisions(records)}
	for _, name := range slices.Sorted(maps.Keys(records)) {
		t.takeUp(name, records[name].clone(), now)
	}
	if len(records) > 0 {
		t.startWriter()
	}
	t.publish()
	t.mu.Unlock()
	t.tell()
	return nil
}

func readKept(path string) (map[string]Record, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseFile(data)
}

// takeUp puts r, which was in force before the process started, in force again
// unless what is in force is as strict. Requires mu.
func (t *Table) takeUp(name string, r Record, now time.Time) {
	e := t.entries[name]
	if e == nil {
		return // an upstream of neither the storage nor the configuration
	}
	cur := e.record()
	r.Removed = cur.Removed
	r = inEpoch(r, cur.Epoch)
	if same(cur, r) || !stricter(r, cur) {
		return
	}
	r.Revision = max(r.Revision, cur.Revision+1)
	if e.known {
		by, why := r.By, r.Why
		if r.Share == cur.Share {
			by, why = r.StateBy, ""
		}
		t.untold = append(t.untold, eventsOf(name, cur, outcome{
			next: r, step: "merged", cause: "merged", detail: "in force before this start, and not written to the store then",
		}, by, why, now)...)
	}
	e.install(r)
	t.touch(e)
	e.moved, e.unsynced = e.version, true
}

// behindRecords are those in force and not stored. Requires mu.
func (t *Table) behindRecords() map[string]Record {
	records := map[string]Record{}
	for name, e := range t.entries {
		if e.moved > e.saved {
			records[name] = e.record().clone()
		}
	}
	return records
}

// keep makes the file what is in force and not stored, if it is not. It requires
// mu, and gives it up meanwhile. Only the writer calls it.
func (t *Table) keep() {
	if t.kept.path == "" {
		return
	}
	records := t.behindRecords()
	next := revisions(records)
	if maps.Equal(next, t.kept.in) {
		return
	}
	path := t.kept.path
	t.mu.Unlock()
	var err error
	if len(records) > 0 {
		err = replaceFile(path, records)
	} else if err = os.Remove(path); err == nil || errors.Is(err, fs.ErrNotExist) {
		err = syncDir(filepath.Dir(path))
	}
	t.mu.Lock()
	t.kept.err = err
	if err == nil {
		t.kept.in = next
	}
}

func revisions(records map[string]Record) map[string]uint64 {
	m := make(map[string]uint64, len(records))
	for name, r := range records {
		m[name] = r.Revision
	}
	return m
}

// unwritten is the error of a Close that could not store everything: what of it
// the next start takes up, and what it does not. Requires mu.
func (t *Table) unwritten(cause error) error {
	var here, lost []string
	for name, r := range t.behindRecords() {
		what := name + " (" + percent(r.Share) + ")"
		if in, is := t.kept.in[name]; is && in == r.Revision {
			here = append(here, what)
		} else {
			lost = append(lost, what)
		}
	}
	slices.Sort(here)
	slices.Sort(lost)
	text := ""
	if len(here) > 0 {
		text += "; kept in " + t.kept.path + " for the next start: " + strings.Join(here, ", ")
	}
	if len(lost) > 0 {
		text += "; the next start does not know of: " + strings.Join(lost, ", ") + "; set it again then"
		if t.kept.err != nil {
			text += " (" + t.kept.err.Error() + ")"
		}
	}
	return fmt.Errorf("share table not written: %w%s", cause, text)
}
