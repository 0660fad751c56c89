package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Names of the demo's upstreams.
const (
	East   = "anthropic-us-east-1" // primary of sonnet; the one that fails
	West   = "anthropic-us-west-2" // the same model elsewhere
	OpenAI = "openai-global"       // primary of gpt and embed, substitute of sonnet
)

// The credentials of the demo's upstreams. They open nothing but a Fake.
const (
	keyEast   = "fake-demo-key-east-not-a-secret"
	keyWest   = "fake-demo-key-west-not-a-secret"
	keyOpenAI = "fake-demo-key-openai-not-a-secret"
)

// The upstreams' own names of the models.
const (
	upstreamSonnet = "claude-sonnet-4-5"
	upstreamGPT    = "gpt-5-mini"
	upstreamEmbed  = "text-embedding-3-small"
)

// The windows of the demo, far shorter than the defaults; its first phase says so.
const (
	suspectWindow = 10 * time.Second
	observe       = 10 * time.Second
)

// Addrs are the addresses that a demo's configuration joins.
type Addrs struct {
	// Listen is where the gateway accepts clients, host:port.
	Listen string
	// East, West and OpenAI are the base_url of each upstream.
	East, West, OpenAI string
}

// ConfigYAML returns a complete failback.yaml for the demo's upstreams at a,
// with dir as the gateway's data directory.
func ConfigYAML(dir string, a Addrs) []byte {
	r := strings.NewReplacer(
		"{{dir}}", quote(dir), "{{listen}}", quote(a.Listen),
		"{{east}}", East, "{{east_url}}", quote(a.East), "{{east_key}}", keyEast,
		"{{west}}", West, "{{west_url}}", quote(a.West), "{{west_key}}", keyWest,
		"{{openai}}", OpenAI, "{{openai_url}}", quote(a.OpenAI), "{{openai_key}}", keyOpenAI,
		"{{sonnet}}", upstreamSonnet, "{{gpt}}", upstreamGPT, "{{embed}}", upstreamEmbed,
		"{{suspect}}", suspectWindow.String(), "{{observe}}", observe.String(),
	)
	return []byte(r.Replace(configTemplate))
}

// quote writes s as a YAML string; YAML reads JSON's strings.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Sprintf("%q", s)
	}
	return string(b)
}

const configTemplate = `# Written by failback demo. The upstreams are fakes inside the demo, the keys
# open nothing else. In a real file api_key is env:NAME, file:PATH or exec:COMMAND.
listen: {{listen}}
data_dir: {{dir}}
environment: DEMO

upstreams:
  {{east}}:
    dialect: anthropic
    base_url: {{east_url}}
    region: us-east-1
    api_key: {{east_key}}
    owner: demo
    signal: breaker
    state_boundary: none
    probe: {every: 2s}
    fault_domains: {cloud: aws-us-east-1}
  {{west}}:
    dialect: anthropic
    base_url: {{west_url}}
    region: us-west-2
    api_key: {{west_key}}
    owner: demo
    signal: breaker
    state_boundary: none
    probe: {every: 2s}
    fault_domains: {cloud: aws-us-west-2}
  {{openai}}:
    dialect: openai
    base_url: {{openai_url}}
    region: global
    api_key: {{openai_key}}
    owner: demo
    signal: breaker
    state_boundary: none
    probe: {every: 2s}
    fault_domains: {cloud: azure-global}

models:
  sonnet:
    slo: {availability: 0.95, first_output: {under: 5s, ratio: 0.95}}
    candidates:
      - {upstream: {{east}}, model: {{sonnet}}, weight: 100, capabilities: [text, stream, tools]}
      - {upstream: {{west}}, model: {{sonnet}}, weight: 80, capabilities: [text, stream, tools]}
      - {upstream: {{openai}}, model: {{gpt}}, weight: 10, substitute: true, capabilities: [text, stream]}
  gpt:
    candidates:
      - {upstream: {{openai}}, model: {{gpt}}, weight: 100, capabilities: [text, stream, tools]}
  embed:
    candidates:
      - {upstream: {{openai}}, model: {{embed}}, weight: 100, capabilities: [embeddings]}

tasks:
  policy_question:
    fallback: any
    on_unavailable: fail
    deadline: 20s
    user_sees: "answer from the backup model, marked"
  document_summary:
    fallback: any
    on_unavailable: fail
    release: complete
    user_sees: "summary, a few seconds later"
  refund:
    fallback: same_model
    side_effects: true
    on_unavailable: human
    user_sees: "a colleague will finish this"
  permission_change:
    fallback: never
    on_unavailable: human
    user_sees: "not possible right now"
default_task: {fallback: same_model, on_unavailable: fail}

# All that follows is shorter than the defaults, so that three minutes show an
# upstream lose its traffic and get it back. In a real file minutes suit.
deadline: {first_output: 20s, unary: 30s}
unary_attempt: {floor: 5s}
breaker: {cooldown: 2s, cooldown_max: 6s}
health: {suspect_window: {{suspect}}, recovery_window: 15s}
failback:
  steps:
    - {share: 5, observe: {{observe}}}
    - {share: 25, observe: {{observe}}}
    - {share: 75, observe: {{observe}}}
    - {share: 100}
  min_requests: 20
  owner: demo
drain_delay: 1s
shutdown_grace: 5s

limit: {fallback_ratio: 0.02}
sources: {every: 2s}
telemetry: {sample: {primary_completed: 0.1}}
`
