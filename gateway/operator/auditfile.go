package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"failback/gateway/operator/api"
)

// auditTail is how much of an existing file is read at start.
const auditTail = 4 << 20

// maxFragment is how much of a torn line is kept in the entry about it.
const maxFragment = 2048

// auditFile is a file of JSON lines. Its methods are called by one goroutine
// at a time.
type auditFile struct {
	path string
	f    *os.File
	sync func(*os.File) error // (*os.File).Sync, but in tests
	// torn says that a write failed halfway and the file is to be cut back to
	// good before the next one.
	torn bool
	good int64
}

// openAuditFile opens or creates path, mends its end, and returns the newest
// entries, oldest first. A last line that a crash tore is taken out of the file
// and put, as text, into an entry: what was torn never took effect, since the
// line is synced first, but somebody asked for it. Commands that have no result
// get the result "unknown".
func openAuditFile(path string) (a *auditFile, recent []api.AuditEntry, err error) {
	a = &auditFile{path: path, sync: (*os.File).Sync}
	defer func() {
		if err != nil {
			a.close()
			err = fmt.Errorf("audit file %s: %w", path, err)
		}
	}()
	if err := a.open(); err != nil {
		return nil, nil, err
	}
	end, err := a.f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, nil, err
	}
	start := max(0, end-auditTail)
	tail := make([]byte, end-start)
	if _, err := a.f.ReadAt(tail, start); err != nil {
		return nil, nil, err
	}
	var mend []api.AuditEntry
	now := time.Now()
	if i := bytes.LastIndexByte(tail, '\n') + 1; i < len(tail) {
		torn := tail[i:]
		switch {
		case json.Valid(torn) && torn[0] == '{', i == 0 && start > 0:
			// Whole but for its end; or longer than any entry, and not ours to cut.
			if _, err := a.f.Write([]byte("\n")); err != nil {
				return nil, nil, err
			}
			tail = append(tail, '\n')
		default:
			if err := a.f.Truncate(start + int64(i)); err != nil {
				return nil, nil, err
			}
			tail = tail[:i]
			mend = append(mend, api.AuditEntry{
				Time: now, ID: newCommandID(), Phase: api.PhaseMended,
				Message: "torn last line: " + strings.ToValidUTF8(string(torn[:min(len(torn), maxFragment)]), "\uFFFD"),
			})
		}
	}
	if start > 0 { // the first line is not whole
		tail = tail[bytes.IndexByte(tail, '\n')+1:]
	}
	for line := range bytes.Lines(tail) {
		var e api.AuditEntry
		if json.Unmarshal(line, &e) != nil || e.Phase == "" {
			continue // a line that is not ours stays where it is
		}
		recent = append(recent, e)
	}
	mend = append(mend, unfinished(recent, time.Time{}, now)...)
	var lines []byte
	for _, e := range mend {
		lines = appendLine(lines, e)
	}
	if err := a.write(lines); err != nil { // syncs what was mended, too
		return nil, nil, err
	}
	return a, append(recent, mend...), nil
}

// unfinished returns, for each command in entries that was asked before until
// and has no result, one that says so. A zero until is no limit.
func unfinished(entries []api.AuditEntry, until, now time.Time) (results []api.AuditEntry) {
	asked := map[string]api.AuditEntry{}
	var order []string
	for _, e := range entries {
		if e.Phase == api.PhaseAsked {
			asked[e.ID] = e
			order = append(order, e.ID)
		} else {
			delete(asked, e.ID)
		}
	}
	for _, id := range order {
		if e, ok := asked[id]; ok && (until.IsZero() || e.Time.Before(until)) {
			e.Time, e.Phase, e.Result = now, api.PhaseDone, api.ResultUnknown
			e.Message = "the gateway stopped before the result was written"
			results = append(results, e)
		}
	}
	return results
}

func (a *auditFile) String() string { return "audit file " + a.path }

// append writes entries as lines: all of them or none.
func (a *auditFile) append(entries []api.AuditEntry) (int, error) {
	var lines []byte
	for _, e := range entries {
		lines = appendLine(lines, e)
	}
	if err := a.write(lines); err != nil {
		return 0, err
	}
	return len(entries), nil
}

func (a *auditFile) open() error {
	f, err := os.OpenFile(a.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	a.f, a.torn = f, false
	// The name of a new file must survive a crash as its lines do.
	if d, err := os.Open(filepath.Dir(a.path)); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
	return nil
}

// write appends whole lines and syncs them. After an error none of them is in
// the file, or they will be cut off before the next write.
func (a *auditFile) write(lines []byte) error {
	if err := a.ready(); err != nil {
		return err
	}
	if len(lines) > 0 {
		if _, err := a.f.Write(lines); err != nil {
			a.cut()
			return err
		}
	}
	if err := a.sync(a.f); err != nil {
		// What the disk holds is not known; the lines are written again.
		a.cut()
		return err
	}
	return nil
}

// ready makes the file one that can be appended to: at its path, and with a
// whole last line. A file that was moved away (rotated) is left to whoever
// moved it.
func (a *auditFile) ready() error {
	if a.f != nil {
		at, err := os.Stat(a.path)
		is, err2 := a.f.Stat()
		if errors.Is(err, os.ErrNotExist) || err == nil && err2 == nil && !os.SameFile(at, is) {
			a.close()
		}
	}
	if a.f == nil {
		if err := a.open(); err != nil {
			return err
		}
	}
	if a.torn {
		if err := a.f.Truncate(a.good); err != nil {
			return err
		}
		a.torn = false
	}
	fi, err := a.f.Stat()
	if err != nil {
		return err
	}
	a.good = fi.Size()
	return nil
}

func (a *auditFile) cut() {
	a.torn = a.f.Truncate(a.good) != nil
}

func (a *auditFile) close() {
	if a.f != nil {
		_ = a.f.Close()
		a.f = nil
	}
}

// appendLine appends e as one line.
func appendLine(b []byte, e api.AuditEntry) []byte {
	j, err := json.Marshal(e)
	if err != nil { // no field of an entry can fail
		panic(err)
	}
	return append(append(b, api.VisibleJSON(j)...), '\n')
}
