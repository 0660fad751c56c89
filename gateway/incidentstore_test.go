package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"failback/gateway/incident"
	"failback/gateway/operator/api"
	"failback/gateway/store"
)

func newTestIncidentStore(t *testing.T) (*incidentStore, *incident.Book) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Dir: t.TempDir(), Log: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	b := incident.NewBook("w", "gw")
	k, err := newIncidentStore(s, b, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return k, b
}

// A record that the store does not take keeps no other one from being written, and
// whoever waits for a turn waits no longer than it may.
func TestOneRecordThatCannotBeWritten(t *testing.T) {
	k, b := newTestIncidentStore(t)
	b.Do("a", incident.Op{Kind: incident.OpOpen, ID: "a", At: time.Now(), Cause: strings.Repeat("x", 8<<20)}, false)
	b.Do("b", incident.Op{Kind: incident.OpOpen, ID: "b", At: time.Now(), Cause: api.CauseOperator}, false)
	if err := k.writeAll(t.Context()); err == nil || !strings.Contains(err.Error(), "incident a") {
		t.Errorf("%v", err)
	}
	if p := b.Pending(); len(p) != 1 || p[0] != "a" {
		t.Errorf("waiting: %v", p)
	}
	if _, unsynced, _ := b.Get("a"); !unsynced {
		t.Error("what could not be written is not shown as unsynced")
	}
	k.writing <- struct{}{} // somebody's write hangs
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.write(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-k.writing
}

// An old incident that was opened again at another gateway is not dropped.
func TestWhatWasReopenedIsNotDropped(t *testing.T) {
	k, b := newTestIncidentStore(t)
	then := time.Now().Add(-100 * 24 * time.Hour)
	for _, id := range []string{"a", "b"} {
		b.Do(id, incident.Op{Kind: incident.OpOpen, ID: id, At: then}, false)
		b.Do(id, incident.Op{Kind: incident.OpClose, At: then}, false)
	}
	if err := k.writeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, err := k.records.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	again := e.Value.Apply(incident.Op{Writer: "other", Seq: 1, Kind: incident.OpReopen, At: time.Now()})
	if _, err := k.records.Update(t.Context(), "a", again, e.Revision); err != nil {
		t.Fatal(err)
	}
	if err := k.prune(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if e, err := k.records.Get(t.Context(), "a"); err != nil || !e.Value.Open() {
		t.Errorf("%+v %v", e.Value.State, err)
	}
	if _, err := k.records.Get(t.Context(), "b"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the other one: %v", err)
	}
}
