package demo_test

import (
	"testing"
	"time"

	"failback/gateway/config"
	"failback/gateway/demo"
)

// What the demo writes is a configuration that a gateway starts with.
func TestConfigurationLoads(t *testing.T) {
	dir := t.TempDir()
	d, err := demo.Start(t.Context(), demo.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := config.Load(t.Context(), config.Source{Path: "failback.yaml", Data: d.Config()})
	if err != nil {
		t.Fatalf("%v\n%s", err, d.Config())
	}
	if c.Environment != "DEMO" || c.Listen != d.Addrs().Listen || c.DataDir != dir {
		t.Errorf("environment %q, listen %q, data_dir %q", c.Environment, c.Listen, c.DataDir)
	}
	if c.Health.SuspectWindow != 10*time.Second || c.Health.RecoveryWindow > 20*time.Second {
		t.Errorf("windows of health: %+v", c.Health)
	}
	for _, step := range c.Failback.Steps {
		if step.Observe > 10*time.Second {
			t.Errorf("step %d%% is watched for %s", step.Share, step.Observe)
		}
	}
	if slo := c.Models[0].SLO; slo == nil || slo.Availability <= 0 || slo.FirstOutput == nil {
		t.Errorf("%s has no objectives: %+v", c.Models[0].Name, slo)
	}
	if len(c.Upstreams) != len(d.Fakes()) {
		t.Fatalf("%d upstreams", len(c.Upstreams))
	}
	for i, f := range d.Fakes() {
		u := c.Upstreams[i]
		if u.Name != f.Name() || u.BaseURL.String() != f.BaseURL() {
			t.Errorf("upstream %s at %s, the fake is %s at %s", u.Name, u.BaseURL, f.Name(), f.BaseURL())
		}
		if u.Probe.Every != 2*time.Second {
			t.Errorf("%s is probed every %s", u.Name, u.Probe.Every)
		}
		if len(u.Keys) != 1 {
			t.Fatalf("%s has %d keys", u.Name, len(u.Keys))
		}
		if key, err := u.Keys[0].Read(t.Context()); err != nil || key != f.Key() {
			t.Errorf("%s: the fake does not accept the configured key (%v)", u.Name, err)
		}
	}
}
