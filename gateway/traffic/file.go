package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// Versions of the file: the first held shares without conditions.
const (
	fileOfShares  = 1
	fileOfRecords = 2
)

// file is the share table as it is stored.
type file struct {
	Version   int                        `json:"version"`
	Upstreams map[string]json.RawMessage `json:"upstreams"`
}

// File keeps records in one JSON file.
type File struct {
	path    string
	records map[string]Record // as they are in the file
}

var _ Storage = (*File)(nil)

// NewFile keeps records at path, which need not exist yet; its directory must.
func NewFile(path string) *File { return &File{path: path, records: map[string]Record{}} }

// Load reads the file. One that is not there holds nothing; one that is not
// whole is an error that names it.
func (f *File) Load(context.Context) (map[string]Record, error) {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]Record{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("share table: %w", err)
	}
	records, err := parseFile(data)
	if err != nil {
		return nil, fmt.Errorf("share table %s: %w; restore the file, or move it away to start every upstream at %d%%", f.path, err, Full)
	}
	f.records = records
	return maps.Clone(records), nil
}

// Save writes the file anew, so that a crash at any moment leaves the old or
// the new one, whole, and never neither.
func (f *File) Save(_ context.Context, records map[string]Record) error {
	next := maps.Clone(f.records)
	maps.Copy(next, records)
	now := time.Now()
	maps.DeleteFunc(next, func(_ string, r Record) bool { return r.Gone(now) })
	if err := replaceFile(f.path, next); err != nil {
		return err
	}
	f.records = next
	return nil
}

func parseFile(data []byte) (map[string]Record, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("not readable: %w", err)
	}
	parse := ParseRecord
	switch f.Version {
	case fileOfShares:
		parse = parseShare
	case fileOfRecords:
	default:
		return nil, fmt.Errorf("version %d, this program knows %d", f.Version, fileOfRecords)
	}
	records := make(map[string]Record, len(f.Upstreams))
	for name, data := range f.Upstreams {
		r, err := parse(data)
		if err != nil {
			return nil, fmt.Errorf("upstream %q: %w", name, err)
		}
		records[name] = r
	}
	return records, nil
}

// parseShare reads the state of an upstream in a file of shares: every failback
// had the same steps, and everybody lowered below 100 % was held back by a person.
func parseShare(data []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("not readable: %w", err)
	}
	if r.Version != 0 {
		return Record{}, fmt.Errorf("version %d in a file of version %d", r.Version, fileOfShares)
	}
	r.Version, r.StateSince, r.StateBy = RecordVersion, r.Since, r.By
	if r.FailbackID != "" {
		r.Steps, r.Reason = DefaultSteps(), r.Why
	}
	if r.Undo != nil {
		r.Undo.Whole = r.Undo.Share == Full
	}
	return r, r.Validate()
}

func replaceFile(path string, records map[string]Record) error {
	f := file{Version: fileOfRecords, Upstreams: make(map[string]json.RawMessage, len(records))}
	for name, r := range records {
		data, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("upstream %q: %w", name, err)
		}
		f.Upstreams[name] = data
	}
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
