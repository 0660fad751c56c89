package traffic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	fileVersion = 1
	idLayout    = "2006-01-02T15"
)

// file is the share table as it is stored.
type file struct {
	Version   int              `json:"version"`
	Upstreams map[string]saved `json:"upstreams"`
}

type saved struct {
	Share      int       `json:"share"`
	Revision   uint64    `json:"revision"`
	Since      time.Time `json:"since"`
	By         string    `json:"by"`
	Why        string    `json:"why,omitempty"`
	FailbackID string    `json:"failback_id,omitempty"`
	// Heavy are keys of conversations, in hexadecimal: JSON numbers lose bits.
	Heavy   []string   `json:"split_by_request,omitempty"`
	Undo    *savedUndo `json:"undo,omitempty"`
	Removed time.Time  `json:"removed,omitzero"`
}

type savedUndo struct {
	Share int       `json:"share"`
	By    string    `json:"by"`
	Until time.Time `json:"until"`
}

// readFile reads the table at path. A file that is not there is an empty
// table; one that is not whole is an error that names it, never an empty
// table: that would give every upstream its full share.
func readFile(path string) (map[string]*entry, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]*entry{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("share table: %w", err)
	}
	entries, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("share table %s: %w; restore the file, or move it away to start every upstream at %d%%", path, err, Full)
	}
	return entries, nil
}

func parse(data []byte) (map[string]*entry, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("not readable: %w", err)
	}
	if f.Version != fileVersion {
		return nil, fmt.Errorf("version %d, this program knows %d", f.Version, fileVersion)
	}
	entries := make(map[string]*entry, len(f.Upstreams))
	for name, s := range f.Upstreams {
		e, err := s.entry()
		if err != nil {
			return nil, fmt.Errorf("upstream %q: %w", name, err)
		}
		entries[name] = e
	}
	return entries, nil
}

func (s saved) entry() (*entry, error) {
	e := &entry{
		share: s.Share, revision: s.Revision, since: s.Since, by: s.By, why: s.Why,
		id: s.FailbackID, removed: s.Removed,
	}
	if !isStep(s.Share) {
		return nil, fmt.Errorf("share %d is none of %s", s.Share, stepList())
	}
	if s.Revision == 0 {
		return nil, errors.New("revision missing")
	}
	if s.Share < Full {
		if _, err := time.Parse(idLayout, s.FailbackID); err != nil {
			return nil, fmt.Errorf("failback_id: %w", err)
		}
	}
	for _, h := range s.Heavy {
		key, err := strconv.ParseUint(h, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("split_by_request: %w", err)
		}
		e.heavy = append(e.heavy, key)
	}
	if u := s.Undo; u != nil {
		if !isStep(u.Share) || u.Share <= s.Share {
			return nil, fmt.Errorf("undo to share %d from %d", u.Share, s.Share)
		}
		e.undo = &Undo{Share: u.Share, By: u.By, Until: u.Until}
	}
	return e, nil
}

func (e *entry) saved() saved {
	s := saved{
		Share: e.share, Revision: e.revision, Since: e.since.UTC(), By: e.by, Why: e.why,
		FailbackID: e.id, Removed: e.removed.UTC(),
	}
	for _, key := range e.heavy {
		s.Heavy = append(s.Heavy, strconv.FormatUint(key, 16))
	}
	if e.undo != nil {
		s.Undo = &savedUndo{Share: e.undo.Share, By: e.undo.By, Until: e.undo.Until.UTC()}
	}
	return s
}

// replaceFile writes the table to path so that a crash at any moment leaves
// the old or the new one, whole, and never neither.
func replaceFile(path string, f file) error {
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	// One name for the unfinished file: what a crash leaves is overwritten.
	unfinished := path + ".new"
	if err := writeSynced(unfinished, append(data, '\n')); err != nil {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return closeAfter(d, d.Sync())
}

func closeAfter(c io.Closer, err error) error {
	return errors.Join(err, c.Close())
}
