package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// heldAudit is an AuditStore in memory. It keeps an entry once, as it must.
type heldAudit struct {
	mu      sync.Mutex
	entries []api.AuditEntry
	room    int // entries that fit; further ones fail
	shared  bool
}

func (h *heldAudit) Recent(_ context.Context, n int) ([]api.AuditEntry, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.entries[max(0, len(h.entries)-n):]), nil
}

func (h *heldAudit) Append(_ context.Context, e api.AuditEntry) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.entries) >= h.room {
		return errors.New("no room")
	}
	h.entries = append(h.entries, e)
	return nil
}

func (h *heldAudit) Shared() bool   { return h.shared }
func (h *heldAudit) String() string { return "audit in memory" }

func (h *heldAudit) ids() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var l []string
	for _, e := range h.entries {
		l = append(l, e.ID+" "+e.Phase)
	}
	return strings.Join(l, ", ")
}

func mustOpenStored(t *testing.T, h *heldAudit, path string) (*audit, []api.AuditEntry) {
	t.Helper()
	a, recent, err := openStoredAudit(t.Context(), h, path, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return a, recent
}

func TestAuditInAStore(t *testing.T) {
	h := &heldAudit{room: 2}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, recent := mustOpenStored(t, h, path)
	if len(recent) != 0 {
		t.Errorf("a new store has %v", recent)
	}
	mustAppend(t, a, entry("1", api.PhaseAsked))
	mustAppend(t, a, entry("1", api.PhaseDone))
	if err := a.append(entry("2", api.PhaseAsked), time.Minute); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("without room: %v", err)
	}
	if s := a.stat(); s.Pending != 1 || s.Error == "" {
		t.Errorf("%+v", s)
	}
	h.mu.Lock()
	h.room = 100
	h.mu.Unlock()
	mustAppend(t, a, entry("3", api.PhaseDone))
	mustClose(t, a)
	if got := h.ids(); got != "1 asked, 1 done, 2 asked, 3 done" {
		t.Errorf("the store has %s", got)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made")
	}
	a, recent = mustOpenStored(t, h, path)
	mustClose(t, a)
	if len(recent) != 5 || recent[4].ID != "2" || recent[4].Result != api.ResultUnknown {
		t.Errorf("a command without a result: %+v", recent)
	}
}

// Of a batch that ends halfway, the first part is not written again.
func TestHalfABatchIsKept(t *testing.T) {
	h := &heldAudit{room: 2}
	a, _ := mustOpenStored(t, h, filepath.Join(t.TempDir(), "audit.jsonl"))
	answers := make([]chan error, 3)
	a.mu.Lock()
	for i := range answers {
		answers[i] = make(chan error, 1)
		a.queue = append(a.queue, queued{entry: entry(fmt.Sprint(i), api.PhaseDone), done: answers[i]})
	}
	a.mu.Unlock()
	a.wake <- struct{}{}
	for i, c := range answers {
		if err := <-c; (err != nil) != (i == 2) {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	h.mu.Lock()
	h.room = 100
	h.mu.Unlock()
	mustClose(t, a)
	if got := h.ids(); got != "0 done, 1 done, 2 done" {
		t.Errorf("the store has %s", got)
	}
}

func TestSharedAuditLeavesOthersCommandsAlone(t *testing.T) {
	old, now := entry("old", api.PhaseAsked), entry("now", api.PhaseAsked)
	old.Time = old.Time.Add(-time.Hour)
	h := &heldAudit{room: 100, shared: true, entries: []api.AuditEntry{old, now}}
	a, _ := mustOpenStored(t, h, filepath.Join(t.TempDir(), "audit.jsonl"))
	mustClose(t, a)
	if got := h.ids(); got != "old asked, now asked, old done" {
		t.Errorf("the store has %s", got)
	}
}

// A file is imported once, whenever the import is cut off, and stays.
func TestImportOfTheFile(t *testing.T) {
	for room := range 5 {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		var lines []byte
		for i := range 3 {
			lines = appendLine(lines, entry(fmt.Sprint(i), api.PhaseDone))
		}
		lines = append(lines, `{"torn`...)
		if err := os.WriteFile(path, lines, 0o600); err != nil {
			t.Fatal(err)
		}
		h := &heldAudit{room: room}
		a, _, err := openStoredAudit(t.Context(), h, path, func(string) {})
		if (err == nil) != (room >= 4) {
			t.Fatalf("room for %d: %v", room, err)
		}
		if err != nil {
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprintf("%d of 4", room)) {
				t.Errorf("%v", err)
			}
			h.room = 100
			a, _ = mustOpenStored(t, h, path)
		}
		if l, _ := a.newest(10); len(l) != 4 {
			t.Errorf("%d entries are shown", len(l))
		}
		mustClose(t, a)
		if len(h.entries) != 4 || !strings.HasPrefix(h.ids(), "0 done, 1 done, 2 done, ") || h.entries[3].Phase != api.PhaseMended {
			t.Errorf("room for %d: the store has %s", room, h.ids())
		}
		if l := readAudit(t, path+".imported"); len(l) != 4 {
			t.Errorf("the file has %d entries", len(l))
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the file is still in its place")
		}

		// A second file, of an older program that ran in between.
		if err := os.WriteFile(path, appendLine(nil, entry("later", api.PhaseDone)), 0o600); err != nil {
			t.Fatal(err)
		}
		h.room = 100
		a, _ = mustOpenStored(t, h, path)
		mustClose(t, a)
		if !strings.HasSuffix(h.ids(), ", later done") || len(h.entries) != 5 {
			t.Errorf("the store has %s", h.ids())
		}
		if l := readAudit(t, path+".imported.2"); len(l) != 1 {
			t.Errorf("the second file has %d entries", len(l))
		}
	}
}

func TestServerWithAStore(t *testing.T) {
	h := &heldAudit{room: 100}
	ts := start(t, func(s *Server) {
		s.KeepAuditIn(h)
		if err := os.WriteFile(s.o.AuditPath, appendLine(nil, entry("before", api.PhaseDone)), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	c := ts.client(t, "unix", "", "")
	if _, err := c.SetShare(t.Context(), "a", api.Command{Share: new(0), Reason: "it fails"}); err != nil {
		t.Fatal(err)
	}
	trail, err := c.Audit(t.Context(), 10)
	if err != nil || len(trail.Entries) != 2 || trail.Entries[0].Why != "it fails" || trail.Entries[1].ID != "before" {
		t.Fatalf("%+v, %v", trail, err)
	}
	if got := h.ids(); got != "before done, "+trail.Entries[0].ID+" done" {
		t.Errorf("the store has %s", got)
	}
}
