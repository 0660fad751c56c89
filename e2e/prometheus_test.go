package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
)

// promServer is Debian's Prometheus as a process.
type promServer struct{ url string }

// startPrometheus scrapes target every second.
func startPrometheus(t *testing.T, target string) *promServer {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("prometheus is missing: apt-get install prometheus")
		}
		t.Skip("requires prometheus, which is missing here: apt-get install prometheus")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: failback
    static_configs: [{targets: [%q]}]
`, target), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := freePort(t)
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--log.level=warn")
	out := &buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("prometheus: %s", out)
		}
	})
	p := &promServer{url: "http://" + addr}
	until(t, "prometheus is ready", func() bool {
		resp, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// series asks an instant query and returns the values by the series' labels,
// without job and instance, as /metrics writes them.
func (p *promServer) series(t *testing.T, query string) map[string]float64 {
	t.Helper()
	resp, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var a struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", query, resp.StatusCode, err)
	}
	values := map[string]float64{}
	for _, r := range a.Data.Result {
		delete(r.Metric, "job")
		delete(r.Metric, "instance")
		v, err := strconv.ParseFloat(r.Value[1].(string), 64)
		if err != nil {
			t.Fatal(err)
		}
		values[fmt.Sprint(r.Metric)] = v
	}
	return values
}

// counted reads a family of the gateway's own /metrics in the same form.
func (r *running) counted(t *testing.T, family string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for sc := bufio.NewScanner(strings.NewReader(r.scrape(t))); sc.Scan(); {
		rest, ok := strings.CutPrefix(sc.Text(), family+"{")
		if !ok {
			continue
		}
		labels, number, ok := strings.Cut(rest, "} ")
		if !ok {
			t.Fatalf("not understood: %s", sc.Text())
		}
		metric := map[string]string{"__name__": family}
		for l := range strings.SplitSeq(labels, ",") {
			k, v, _ := strings.Cut(l, "=")
			metric[k] = strings.Trim(v, `"`)
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		values[fmt.Sprint(metric)] = v
	}
	if len(values) == 0 {
		t.Fatalf("no series of %s", family)
	}
	return values
}

// families are what the ratio, the traffic and the shares are made of.
var families = []string{
	"ai_model_requests_total", "ai_fallback_triggered_total",
	"failback_upstream_own_requests_total", "failback_upstream_share_ratio",
}

// agrees waits until Prometheus has every series of the gateway with its value.
func (p *promServer) agrees(t *testing.T, g *running) {
	t.Helper()
	for _, family := range families {
		until(t, "prometheus has what the gateway counted of "+family, func() bool {
			want := g.counted(t, family) // a request is counted behind its answer
			got := p.series(t, family)
			if len(got) != len(want) {
				return false
			}
			for k, v := range want {
				if got[k] != v {
					return false
				}
			}
			return true
		})
	}
}

func total(values map[string]float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

// Ratio, traffic and shares as the console shows them, from a real Prometheus
// that scrapes the real gateway: without traffic, with it, through a restart,
// and when the gateway is gone.
func TestPrometheusScrapesTheGateway(t *testing.T) {
	a, b := newStub(t), newStub(t)
	path := configure(t, t.TempDir(), a, b, "")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, target, _ := strings.Cut(strings.Split(string(text), "\n")[1], "listen: ")
	prom := startPrometheus(t, strings.TrimSuffix(target, "}"))
	edit(t, path, "data_dir:", "sources: {every: 1s, prometheus: {url: "+prom.url+", selector: 'job=\"failback\"'}}\nlimit: {fallback_ratio: 0.02}\ndata_dir:")
	g := start(t, path)

	state := g.state(t)
	numbers, _, err := sources.Connect(g.client, state.Sources, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	if numbers.Addr() != prom.url {
		t.Fatalf("the console asks %s, want %s", numbers.Addr(), prom.url)
	}
	feed := sources.Feed[sources.Overview]{Period: numbers.Period()}
	look := func() (*sources.Overview, sources.Number) {
		t.Helper()
		gen, ok := feed.Ask(time.Now())
		if !ok {
			t.Fatal("a question is out")
		}
		a := numbers.Overview(context.Background(), gen)
		if a.Err != nil {
			t.Fatalf("prometheus: %v", a.Err)
		}
		feed.Take(a)
		if len(a.Value.Warnings) > 0 {
			t.Errorf("partial: %q", a.Value.Warnings)
		}
		return a.Value, feed.Number(a.Value.Ratio.Number, time.Now())
	}

	// No traffic yet: the series stand still at 0.
	until(t, "the ratio is idle", func() bool {
		_, n := look()
		switch n.State {
		case sources.Idle:
			return true
		case sources.Value, sources.Ageing:
			t.Fatalf("a ratio of %v without a request", n.Value)
		}
		return false
	})

	// A third of the requests meets a broken primary.
	chatAll(t, g.url, users(200))
	a.broken.Store(true)
	chatAll(t, g.url, users(100))
	a.broken.Store(false)
	prom.agrees(t, g)
	requests := total(g.counted(t, "ai_model_requests_total"))
	fallbacks := total(g.counted(t, "ai_fallback_triggered_total"))
	if requests != 300 || fallbacks != 100 {
		t.Fatalf("the gateway counted %v requests and %v fallbacks", requests, fallbacks)
	}
	check := func(want float64) {
		t.Helper()
		o, n := look()
		if n.State != sources.Value || n.Value < want*0.98 || n.Value > want*1.02 {
			t.Errorf("ratio %s %v (%s), want %v", n.State, n.Value, o.Ratio.Why, want)
		}
		if o.Traffic.State != api.StateValue || o.Traffic.Value <= 0 {
			t.Errorf("traffic %+v", o.Traffic)
		}
		// All of it is m's and a's; nobody asks for other models, and b is
		// primary of nothing.
		for _, r := range o.PerModel {
			if value := r.State == api.StateValue; value != (r.Name == "m") || value && r.Value != o.Ratio.Value {
				t.Errorf("model %s: %+v", r.Name, r)
			}
		}
		if len(o.PerUpstream) != 1 || o.PerUpstream[0].Name != "a" || o.PerUpstream[0].Value != o.Ratio.Value {
			t.Errorf("per upstream %+v", o.PerUpstream)
		}
	}
	check(fallbacks / requests)

	// A share of 0 is told by Prometheus too, also through a restart, in which
	// every counter begins again.
	g.step(t, "a", 0)
	chatAll(t, g.url, users(100))
	prom.agrees(t, g)
	check(200.0 / 400)
	if err := g.term(t); err != nil {
		t.Fatal(err)
	}
	g = start(t, path)
	if share := g.upstream(t, "a").Share; share != 0 {
		t.Fatalf("share %d after the restart", share)
	}
	prom.agrees(t, g)
	chatAll(t, g.url, users(100))
	prom.agrees(t, g)
	if n := total(g.counted(t, "ai_model_requests_total")); n != 100 {
		t.Fatalf("%v requests since the restart", n)
	}
	// What was counted between the last scrape and the restart is lost to any
	// Prometheus: here nothing was.
	check(300.0 / 500)

	// The gateway is gone, Prometheus answers: the age grows with the last sample.
	g.kill()
	gone := time.Now()
	until(t, "the number is known to be old", func() bool {
		o, n := look()
		if o.Sampled.After(gone) {
			t.Fatalf("a sample of %s, the gateway was gone at %s", o.Sampled, gone)
		}
		return n.State == sources.Unknown && n.Age > 3*numbers.Period()
	})
	if feed.Failing(time.Now()) {
		t.Error("prometheus answers, only its target is down")
	}
}

// users are n names of callers.
func users(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "u" + strconv.Itoa(i)
	}
	return names
}
