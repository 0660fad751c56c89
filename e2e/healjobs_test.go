package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// Every job that goes on by itself has a heartbeat, in metrics as in status.
func TestEveryJobHasAHeartbeat(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := startWard(t, admit(t, newPatient(t).url, newPatient(t).url,
		fmt.Sprintf("sources: {every: 1s}\nshared_dependencies: [{name: token, domain: identity/vault, file: %q, every: 1s}]\n", token)))
	names := []string{"health", "store", "probes", "metrics", "configuration", "dependencies", "budgets"}
	until(t, "every job has succeeded", func() bool {
		at := map[string]time.Time{}
		for _, j := range w.state(t).Jobs {
			at[j.Name] = j.LastSuccess
			if j.Late || j.Error != "" {
				t.Fatalf("job %+v", j)
			}
		}
		for _, n := range names {
			if at[n].IsZero() {
				return false
			}
		}
		return len(at) == len(names)
	})
	text := w.scrape(t)
	for _, j := range w.status(t).Jobs {
		at := sum(text, "failback_job_last_success_timestamp_seconds", `job="`+j.Name+`"`)
		if age := float64(time.Now().UnixMilli())/1000 - at; age < 0 || age > 2*j.EverySeconds+5 {
			t.Errorf("%s, every %g s: the metric is %g s old", j.Name, j.EverySeconds, age)
		}
	}
	if n := strings.Count(text, "\nfailback_job_last_success_timestamp_seconds{"); n != len(names) {
		t.Errorf("%d jobs in the metrics, %d in status", n, len(names))
	}
}

// With a full disk the machine still takes traffic away, says that it is not
// written down, and writes it when there is room: a restart then knows it.
func TestTheMachineLowersWithoutADisk(t *testing.T) {
	t.Parallel()
	dir, fill, free := smallDisk(t)
	a, b := newPatient(t), newPatient(t)
	path := admit(t, a.url, b.url, "telemetry: {decision_log: none}\n", "telemetry: {decision_log: decisions.jsonl}\n", "")
	yaml, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Dir(path)
	path = filepath.Join(dir, "failback.yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(string(yaml), "data_dir: "+old, "data_dir: "+dir, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	w := startWard(t, path)
	traffic := newLoad(t, w.url)
	until(t, "there is traffic to judge by", func() bool { return traffic.sent.Load() > 60 })
	fill()
	until(t, "the store is found full", func() bool { return w.state(t).Store.Error != "" })
	if s := w.status(t).Store; !strings.Contains(s.Error, "full") || s.Since.IsZero() {
		t.Errorf("status says of the store %+v", s)
	}
	a.mode.Store(broken)
	u := w.reaches(t, api.Degraded, 0)
	if !u.Unsynced {
		until(t, "it is shown as not written down", func() bool { u = w.upstream(t, "a"); return u.Unsynced })
	}
	if out, _, _ := cli(t, w.dir, "status"); !strings.Contains(out, "UNSYNCED") {
		t.Errorf("status does not say UNSYNCED:\n%s", out)
	}
	traffic.none(t, "with a full disk")
	a.mode.Store(well)
	w.probed(t)
	if out, stderr, code := cli(t, w.dir, "step", "a", "5"); code != 1 || !strings.Contains(stderr, "lowering") {
		t.Errorf("a raise with a full disk: exit %d: %s%s", code, out, stderr)
	}
	free()
	until(t, "it is written down", func() bool { u = w.upstream(t, "a"); return !u.Unsynced && w.state(t).Store.Error == "" })
	before := w.again(t, 0)
	same(t, "degraded without a disk", before, w.upstream(t, "a"))
	if before.Share != 0 || before.Health != api.Degraded {
		t.Errorf("before the kill: %s at %d%%", before.Health, before.Share)
	}
}
