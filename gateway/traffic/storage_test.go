package traffic

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sampleRecord() Record {
	at := time.Date(2026, 11, 30, 4, 31, 0, 0, time.UTC)
	return Record{
		Version: RecordVersion, Share: 5, Revision: 9, Since: at, By: "ana", Why: "still failing", FailbackID: "2026-11-30T04.2",
		LastID: "2026-11-30T04", Steps: DefaultSteps(), Passed: []int{5, 25}, Retreats: 1, Plan: &Plan{By: "ben", At: at},
		Served: 90 * time.Second, StateSince: at, StateBy: "ana", Reason: "12/20 failed", Epoch: "45541018180acead",
		Split: []Key{1<<63 + 1, 7}, Undo: &UndoRecord{Share: 75, Reason: "x", By: "ana", Until: at.Add(UndoFor)}, Removed: at,
	}
}

func TestRecordSurvivesJSON(t *testing.T) {
	want := sampleRecord()
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseRecord(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRecordsThatCannotBe(t *testing.T) {
	for name, spoil := range map[string]func(*Record){
		"version":            func(r *Record) { r.Version++ },
		"no version":         func(r *Record) { r.Version = 0 },
		"share below":        func(r *Record) { r.Share = -1 },
		"share above":        func(r *Record) { r.Share = 101; r.Undo = nil },
		"no revision":        func(r *Record) { r.Revision = 0 },
		"nobody":             func(r *Record) { r.By = "" },
		"nobody's condition": func(r *Record) { r.StateBy = "" },
		"machine at a step":  func(r *Record) { r.Machine = true },
		"below 0":            func(r *Record) { r.Served = -1 },
		"retreats below 0":   func(r *Record) { r.Retreats = -1 },
		"plan of nobody":     func(r *Record) { r.Plan.By = "" },
		"undo down":          func(r *Record) { r.Undo.Share = 5 },
		"undo above":         func(r *Record) { r.Undo.Share = 101 },
		"undo to whole":      func(r *Record) { r.Undo.Whole = true },
		"no id":              func(r *Record) { r.FailbackID = "" },
		"whole with steps":   func(r *Record) { *r = ended(*r); r.Share, r.Steps = Full, DefaultSteps() },
		"id":                 func(r *Record) { r.FailbackID = "2026-11-30" },
		"hour":               func(r *Record) { r.FailbackID = "2026-11-30T25" },
		"first as second":    func(r *Record) { r.FailbackID = "2026-11-30T04.1" },
		"no steps":           func(r *Record) { r.Steps = nil },
		"steps fall":         func(r *Record) { r.Steps[1].Share = 5 },
		"steps end":          func(r *Record) { r.Steps = r.Steps[:2] },
		"observe":            func(r *Record) { r.Steps[0].Observe = -1 },
		"passed":             func(r *Record) { r.Passed = []int{0} },
	} {
		r := sampleRecord().clone()
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		spoil(&r)
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseRecord(data); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for _, text := range []string{"", "null", "{}", "[]", `{"version":1`} {
		if _, err := ParseRecord([]byte(text)); err == nil {
			t.Errorf("%q: taken", text)
		}
	}
}

// A storage that hands out what cannot be is not opened.
func TestOpenNamesTheRecord(t *testing.T) {
	r := sampleRecord()
	r.Share = 120
	storage := &Memory{records: map[string]Record{"a": sampleRecord(), "vertex": r}}
	_, err := Open(t.Context(), storage, nil)
	if err == nil || !strings.Contains(err.Error(), `"vertex"`) || !strings.Contains(err.Error(), "restore its record") {
		t.Errorf("%v", err)
	}
	if _, err := Open(t.Context(), unloadable{}, nil); err == nil {
		t.Error("a storage that cannot be read was opened")
	}
}

type unloadable struct{}

func (unloadable) Load(context.Context) (map[string]Record, error) { return nil, errDown }

func (unloadable) Save(context.Context, map[string]Record) error { return nil }

// A file of shares, as programs without conditions wrote it.
func TestFileOfSharesIsMigrated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traffic.json")
	const old = `{"version":1,"upstreams":{
		"down":{"share":0,"revision":3,"since":"2026-11-30T04:00:00Z","by":"ana","why":"quota","failback_id":"2026-11-30T04","split_by_request":["8000000000000001"],
			"undo":{"share":100,"by":"ana","until":"2126-11-30T04:05:00Z"}},
		"half":{"share":25,"revision":7,"since":"2026-11-30T04:00:00Z","by":"ben","failback_id":"2026-11-29T23",
			"undo":{"share":75,"by":"ben","until":"2126-11-30T04:05:00Z"}},
		"full":{"share":100,"revision":5,"since":"2026-11-30T04:00:00Z","by":"ana"},
		"gone":{"share":5,"revision":5,"since":"2026-11-30T04:00:00Z","by":"ana","failback_id":"2026-11-29T23","removed":"2020-11-20T04:00:00Z"}}}`
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	table, told := open(t, path, "down", "half", "full")
	if e := told.take(); len(e) != 0 {
		t.Errorf("told %+v", e)
	}
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	down := get(t, table, "down")
	if down.Condition() != Degraded || down.Machine || down.Revision != 3 || down.Reason != "quota" || !down.StateSince.Equal(at) || down.StateBy != "ana" || down.Next() != 5 {
		t.Errorf("down: %+v", down)
	}
	if s := get(t, table, "half"); s.Condition() != Recovering || s.FailbackID != "2026-11-29T23" || s.Next() != 75 {
		t.Errorf("half: %+v", s)
	}
	if s := get(t, table, "full"); s.Condition() != Whole || s.Revision != 5 {
		t.Errorf("full: %+v", s)
	}
	if s := must(t, table, Command{Upstream: "half", Undo: true, By: "ben"}); s.Share != 75 || s.Condition() != Recovering {
		t.Errorf("undo to a step: %+v", s)
	}
	if s := must(t, table, Command{Upstream: "down", Undo: true}); s.Share != Full || s.Condition() != Whole {
		t.Errorf("undo of the beginning: %+v", s)
	}
	closed(t, table)

	// Written anew, each record with its version; what is over is dropped.
	records, err := NewFile(path).Load(t.Context())
	if err != nil || len(records) != 3 || records["half"].Version != RecordVersion {
		t.Errorf("%+v, %v", records, err)
	}
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), `"version": 2`) {
		t.Errorf("%s, %v", data, err)
	}
}
