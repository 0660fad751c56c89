package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"failback/gateway/config"
	"failback/gateway/operator/api"
)

// What upstreams share is told by kind; of hosts and credentials it is said who
// shares them and not what they are.
func TestStateTellsSharedDomains(t *testing.T) {
	cfg, err := config.Load(t.Context(), config.Source{Data: []byte(`listen: 127.0.0.1:0
upstreams:
  a: {dialect: openai, base_url: "http://same.test/v1", api_key: secret-key, fault_domains: {dns: corp, egress: nat-a}, owner: ml}
  b: {dialect: openai, base_url: "http://same.test/v1", api_key: secret-key, fault_domains: {dns: corp, egress: nat-b}}
models: {m: {candidates: [{upstream: a, model: x}, {upstream: b, model: x}]}}
accepted: {fake-redundancy/m/dns: "one resolver until spring"}
`)})
	if err != nil {
		t.Fatal(err)
	}
	state := api.State{Upstreams: make([]api.Upstream, 2), Models: []api.Model{{Name: "m"}}}
	fillDomains(&state, cfg)
	b, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(b); strings.Contains(s, "same.test") || strings.Contains(s, "secret-key") {
		t.Errorf("it tells a host or a key: %s", s)
	}
	if u := state.Upstreams[0]; u.Owner != "ml" || u.FaultDomains["egress"] != "nat-a" {
		t.Errorf("%+v", u)
	}
	shared := map[string]string{}
	for _, d := range state.Models[0].Domains {
		for _, g := range d.Groups {
			if len(g.Upstreams) == 2 {
				shared[d.Kind] = g.Value + "|" + d.Accepted
			}
		}
	}
	want := map[string]string{"dns": "corp|one resolver until spring", "host": "|", "credential": "|"}
	for k, v := range want {
		if shared[k] != v {
			t.Errorf("%s: %q, want %q", k, shared[k], v)
		}
	}
	if len(shared) != len(want) {
		t.Error(shared)
	}
}
