package operator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"failback/gateway/operator/api"
)

// AuditStore keeps audit entries in the order in which they were appended. Its
// methods are called by one goroutine at a time.
type AuditStore interface {
	// Recent returns the newest entries, at most n, oldest first.
	Recent(ctx context.Context, n int) ([]api.AuditEntry, error)
	// Append appends e and returns nil once it is on disk. An entry whose
	// append failed is appended again; one that got there all the same must
	// not be there twice.
	Append(ctx context.Context, e api.AuditEntry) error
	// Shared reports whether other gateways append to it, too.
	Shared() bool
	// String names it in messages: "audit in /data/store".
	String() string
}

// underWay is how old a command without a result is before it counts as cut
// off, where it may be another gateway's.
const underWay = time.Minute

// storedAudit is an auditLog over an AuditStore.
type storedAudit struct {
	AuditStore
	ctx context.Context
}

func (s storedAudit) append(entries []api.AuditEntry) (int, error) {
	for i, e := range entries {
		if err := s.Append(s.ctx, e); err != nil {
			return i, err
		}
	}
	return len(entries), nil
}

func (s storedAudit) close() {}

// openAudit opens the audit where it is kept.
func (s *Server) openAudit() (*audit, []api.AuditEntry, error) {
	if s.auditIn == nil {
		return openAudit(s.o.AuditPath, s.o.Log)
	}
	return openStoredAudit(s.ctx, s.auditIn, s.o.AuditPath, s.o.Log)
}

// openStoredAudit opens the audit in store, as openAudit does one in a file. The
// newest entries of a file at path are appended first; the file is then renamed
// and stays, with everything in it.
func openStoredAudit(ctx context.Context, store AuditStore, path string, log func(string)) (*audit, []api.AuditEntry, error) {
	to := storedAudit{store, context.WithoutCancel(ctx)}
	recent, err := store.Recent(ctx, keptEntries)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", store, err)
	}
	more, err := importAudit(to, path, recent, log)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", store, err)
	}
	recent = append(recent, more...)
	now := time.Now()
	var until time.Time
	if store.Shared() {
		until = now.Add(-underWay)
	}
	cut := unfinished(recent, until, now)
	if _, err := to.append(cut); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", store, err)
	}
	recent = append(recent, cut...)
	return startAudit(to, recent, log), recent, nil
}

// importAudit appends the newest entries of the file at path that are not in
// recent already, which an import that was cut off has put there, and renames
// the file. It returns what it appended.
func importAudit(to storedAudit, path string, recent []api.AuditEntry, log func(string)) ([]api.AuditEntry, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f, entries, err := openAuditFile(path) // mends its end
	if err != nil {
		return nil, err
	}
	defer f.close()
	there := map[string]bool{}
	for _, e := range recent {
		there[AuditID(e)] = true
	}
	var add []api.AuditEntry
	for _, e := range entries[max(0, len(entries)-keptEntries):] {
		if !there[AuditID(e)] {
			add = append(add, e)
		}
	}
	if n, err := to.append(add); err != nil {
		return nil, fmt.Errorf("importing %s: after %d of %d entries: %w", path, n, len(add), err)
	}
	kept := freeName(path + ".imported")
	if err := os.Rename(path, kept); err != nil {
		return nil, fmt.Errorf("importing %s: %w", path, err)
	}
	log(fmt.Sprintf("the newest %d entries of %s are in the %s now; the file with all of them is %s", len(add), path, to.AuditStore, kept))
	return add, nil
}

// AuditID is the same for the same entry and for no other: it tells a store
// that an entry is one that it has.
func AuditID(e api.AuditEntry) string {
	return e.ID + "/" + e.Phase + "/" + strconv.FormatInt(e.Time.UnixNano(), 36)
}

// freeName returns path, or path with a number where that exists.
func freeName(path string) string {
	name := path
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = path + "." + strconv.Itoa(n)
	}
}
