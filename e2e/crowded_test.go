//go:build linux

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"failback/gateway/operator/api"
	"failback/sources/embedded/metrics"
)

// keptFor is for figures of a long past; see CONTRIBUTING.md.
var keptFor = flag.Duration("kept", 0, "how much past TestCrowdedRestart has to read again; 0: 30m")

const (
	// crowd is how many series a large gateway has at least.
	crowd = 20_000
	// maxCrowded bounds the gateway's memory at the start: far above what it
	// takes, far below a store that holds every sample unpacked.
	maxCrowded = 1 << 30
	// soon is a store open on a machine so fast that nobody sees who waits for it.
	soon = 300 * time.Millisecond
)

// crowded writes the configuration of a gateway with so many series into dir.
func crowded(t *testing.T, dir string) (path string) {
	t.Helper()
	s := newStub(t)
	const upstreams = 40
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\noperator: {listen: %s}\ndata_dir: %s\nenvironment: TEST\ndrain_delay: 0s\n", freePort(t), freePort(t), dir)
	b.WriteString("sources: {every: 5s}\ntelemetry: {decision_log: decisions.jsonl}\nupstreams:\n")
	for i := range upstreams {
		fmt.Fprintf(&b, "  upstream-%d: {dialect: openai, base_url: %q, api_key: key, region: eu-west-1}\n", i, s.url)
	}
	b.WriteString("models:\n")
	for i := range 26 {
		fmt.Fprintf(&b, "  model-%d: {candidates: [", i)
		for j := range 4 {
			fmt.Fprintf(&b, "{upstream: upstream-%d, weight: %d}, ", (i+10*j)%upstreams, 100-10*j)
		}
		b.WriteString("]}\n")
	}
	b.WriteString("tasks:\n")
	for i := range 4 {
		fmt.Fprintf(&b, "  task-%d: {fallback: any}\n", i)
	}
	path = filepath.Join(dir, "failback.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// families are the metrics of a running gateway, and how many series they are.
func (r *running) families(t *testing.T) (all []*dto.MetricFamily, series int) {
	t.Helper()
	res, err := http.Get(r.metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	byName, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range byName {
		all = append(all, f)
		for _, m := range f.GetMetric() {
			series++
			if h := m.GetHistogram(); h != nil {
				series += len(h.GetBucket()) + 1 // sum and count; one of them is in already
			}
		}
	}
	return all, series
}

// fill gives the store of numbers in dir a past: a scrape every 15 s, in which
// one counter in seven goes on, as in a gateway with some traffic.
func fill(t *testing.T, dir, instance string, past time.Duration, all []*dto.MetricFamily) {
	t.Helper()
	s, err := metrics.Open(metrics.Options{Dir: filepath.Join(dir, "metrics"), Labels: map[string]string{"job": api.ServiceName, "instance": instance}})
	if err != nil {
		t.Fatal(err)
	}
	for ago := past; ago >= 15*time.Second; ago -= 15 * time.Second {
		for _, f := range all {
			for i, m := range f.GetMetric() {
				if c := m.GetCounter(); c != nil && i%7 == 0 {
					c.Value = new(c.GetValue() + 1)
				}
			}
		}
		if err := s.Append(time.Now().Add(-ago), all); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// memoryOf is the resident memory of a process, as it is and as it was at most.
func memoryOf(t *testing.T, pid int) (now, peak int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "VmRSS:" {
			now, _ = strconv.Atoi(f[1])
		} else if len(f) == 3 && f[0] == "VmHWM:" {
			peak, _ = strconv.Atoi(f[1])
		}
	}
	if now == 0 || peak == 0 {
		t.Fatalf("memory of %d: %s", pid, b)
	}
	return now << 10, peak << 10
}

// A gateway with 20,000 series is killed and started again by failback: its first
// frame and its first values do not wait until the numbers of the past were read,
// all of which are there then, and the memory for that is bounded.
func TestCrowdedRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("requires a minute of processor time")
	}
	past := cmp.Or(*keptFor, 30*time.Minute)
	dir := place(t)
	path := crowded(t, dir)
	g := start(t, path)
	all, series := g.families(t)
	if series < crowd {
		t.Fatalf("%d series, not %d", series, crowd)
	}
	instance := g.state(t).Instance
	if err := g.term(t); err != nil {
		t.Fatalf("it ended with %v: %s", err, g.stderr)
	}
	if err := os.RemoveAll(filepath.Join(dir, "metrics")); err != nil {
		t.Fatal(err)
	}
	fill(t, dir, instance, past, all)

	client, err := api.NewClient("unix:"+filepath.Join(dir, "failback.sock"), api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	here := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "failback.sock"))
	}}
	defer here.CloseIdleConnections()
	var frames, values, opened []time.Duration
	var rss, most []int
	for range 3 {
		w := newWire(t, "--config", path)
		pid := gatewayOf(t, client)
		var at time.Time
		within(t, 3*time.Minute, "the numbers of the past were read", func() bool {
			s, err := client.State(t.Context())
			at = time.Now()
			return err == nil && s.Sources.Prometheus.Error == ""
		})
		now, peak := memoryOf(t, pid)
		rss, most = append(rss, now), append(most, peak)
		until(t, "it has drawn values", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return !w.values.IsZero()
		})
		opened, frames, values = append(opened, at.Sub(w.began)), append(frames, w.frame.Sub(w.began)), append(values, w.values.Sub(w.began))
		// A series of every moment of the past is there, and not of an empty store.
		for _, ago := range []time.Duration{past - 15*time.Second, past / 2} {
			if n := countAt(t, here, time.Now().Add(-ago)); n < crowd {
				t.Errorf("%d series of %s ago", n, ago)
			}
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, "the gateway is gone", func() bool { return !alive(pid) })
		w.end()
	}
	before := false // at one start values came clearly before the numbers
	for i := range opened {
		before = before || values[i] < opened[i]*3/4
	}
	if !before && slices.Min(opened) > soon {
		t.Errorf("first frames after %s, first values after %s wait for the store, which was open after %s", frames, values, opened)
	}
	for _, ds := range [][]time.Duration{frames, values, opened} {
		slices.Sort(ds)
	}
	if m := median(frames); m > maxFirstFrame {
		t.Errorf("the first frame took %s", m)
	}
	if m := slices.Max(most); m > maxCrowded {
		t.Errorf("%d MB", m>>20)
	}
	t.Logf("%d series, %s of them: first frame median %s, first values %s, numbers of the past %s; memory %d MB then, at most %d MB",
		series, past, median(frames), median(values), median(opened), slices.Max(rss)>>20, slices.Max(most)>>20)
}

// countAt is how many series the gateway behind transport has of a time.
func countAt(t *testing.T, transport *http.Transport, at time.Time) int {
	t.Helper()
	res, err := (&http.Client{Transport: transport}).Get("http://failback" + api.PrometheusPath + "/api/v1/query?" + url.Values{"query": {"count({job=\"" + api.ServiceName + "\"})"}, "time": {strconv.FormatInt(at.Unix(), 10)}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		Error string `json:"error"`
		Data  struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || answer.Error != "" || len(answer.Data.Result) != 1 {
		t.Fatalf("%s: %v %+v", res.Status, err, answer)
	}
	n, err := strconv.Atoi(fmt.Sprint(answer.Data.Result[0].Value[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
