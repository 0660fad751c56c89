package demo

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"failback/gateway/decision"
)

func TestConfigYAML(t *testing.T) {
	dir := "/tmp/a \"strange\": #dir"
	b := ConfigYAML(dir, Addrs{Listen: "127.0.0.1:1", East: "http://e", West: "http://w", OpenAI: "http://o/v1"})
	if strings.Contains(string(b), "{{") {
		t.Fatalf("unfilled:\n%s", b)
	}
	var c struct {
		Listen      string
		DataDir     string `yaml:"data_dir"`
		Environment string
		Upstreams   map[string]struct {
			Dialect string
			BaseURL string `yaml:"base_url"`
			APIKey  string `yaml:"api_key"`
		}
		Models map[string]struct {
			Candidates []struct{ Upstream string }
		}
		Tasks map[string]any
	}
	if err := yaml.Unmarshal(b, &c); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if c.Listen != "127.0.0.1:1" || c.DataDir != dir || c.Environment != "DEMO" {
		t.Errorf("%+v", c)
	}
	for name, url := range map[string]string{East: "http://e", West: "http://w", OpenAI: "http://o/v1"} {
		u := c.Upstreams[name]
		if u.BaseURL != url || !strings.HasPrefix(u.APIKey, "fake-") {
			t.Errorf("%s: %+v", name, u)
		}
	}
	for _, k := range kinds {
		if len(c.Models[k.model].Candidates) == 0 {
			t.Errorf("clients ask for %s, which is not configured", k.model)
		}
		if _, ok := c.Tasks[k.task]; k.task != "" && !ok {
			t.Errorf("clients name task %s, which is not configured", k.task)
		}
	}
}

func TestDemoPlaysAndStops(t *testing.T) {
	d, err := Start(t.Context(), Options{Dir: t.TempDir(), Rate: 500, Latency: noWait})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if p := d.Phase(Over); p != "starting" {
		t.Errorf("before Play: %q", p)
	}
	_, addr := startRelay(t, map[decision.Dialect]*Fake{decision.Anthropic: d.Fake(East), decision.OpenAI: d.Fake(OpenAI)}, upstreamNames)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	played := make(chan error, 1)
	go func() { played <- d.Play(ctx, addr) }()
	until(t, "traffic completes", func() bool { return d.Stats().ByStatus["completed"] >= 100 })
	if p := d.Phase(Over); !strings.Contains(p, East+" begins to fail in ") {
		t.Errorf("phase %q", p)
	}
	if err := d.Play(ctx, addr); err == nil {
		t.Error("played twice")
	}
	if c := d.Fake(East).Total(); c.Completed == 0 || c.Refused != 0 {
		t.Errorf("%s saw %+v", East, c)
	}
	cancel()
	if err := <-played; err != nil {
		t.Error(err)
	}
	if s := d.Stats(); s.Sent != s.Ended {
		t.Errorf("clients left behind: %+v", s)
	}
	if c := d.Fake(East).Total(); c.Requests == 0 {
		t.Error("the fakes ended with Play")
	}
}

func TestCloseStopsPlay(t *testing.T) {
	d, err := Start(t.Context(), Options{Dir: t.TempDir(), Script: Quiet, Latency: noWait})
	if err != nil {
		t.Fatal(err)
	}
	played := make(chan error, 1)
	go func() { played <- d.Play(t.Context(), "http://127.0.0.1:1") }()
	until(t, "clients get no answer", func() bool { return d.Stats().ByStatus[NoAnswer] > 0 })
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-played:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Play goes on after Close")
	}
	if err := d.Play(t.Context(), "http://127.0.0.1:1"); err == nil {
		t.Error("a closed demo plays")
	}
}

func TestStartChoosesAFreePort(t *testing.T) {
	// Whoever holds 8080 now, the port that was chosen can be listened on.
	d, err := Start(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ln, err := net.Listen("tcp", d.Addrs().Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if d.Addrs().Listen == "127.0.0.1:8080" {
		second, err := Start(t.Context(), Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		if second.Addrs().Listen == "127.0.0.1:8080" {
			t.Error("chose a port that is taken")
		}
	}
	if !strings.Contains(string(d.Config()), d.Addrs().Listen) || d.GatewayURL() != "http://"+d.Addrs().Listen {
		t.Errorf("%s is not in the configuration", d.Addrs().Listen)
	}
}

func TestUnknownScript(t *testing.T) {
	if d, err := Start(t.Context(), Options{Script: "earthquake"}); err == nil {
		d.Close()
		t.Error("started")
	}
}
