package ui

import (
	"time"

	"failback/gateway/operator/api"
)

// placesState has fault domains, dependencies, error budgets and tasks that ask
// for a queue or for people.
func placesState() api.State {
	s := healthyState()
	s.Upstreams[0].FaultDomains = map[string]string{"dns": "corp", "egress": "nat-a", "identity": "vault", "billing": "org-1", "quota": "org-1", "cloud": "aws-us-east-1"}
	s.Upstreams[1].FaultDomains = map[string]string{"dns": "corp", "egress": "nat-a", "billing": "org-2", "quota": "org-2", "cloud": "gcp-us-central1"}
	s.Upstreams[2].FaultDomains = map[string]string{"dns": "corp", "cloud": "aws-us-west-2"}
	all := []string{"anthropic-us-east-1", "vertex-us-central1", "bedrock-us-west-2"}
	s.Models = []api.Model{{
		Name: "sonnet",
		Domains: []api.Domain{
			{Kind: "dns", Groups: []api.DomainGroup{{Value: "corp", Upstreams: all}}, Accepted: "two resolvers behind one name"},
			{Kind: "egress", Groups: []api.DomainGroup{{Value: "nat-a", Upstreams: all[:2]}}, Unknown: all[2:]},
			{Kind: "cloud", Groups: []api.DomainGroup{{Value: "aws-us-east-1", Upstreams: all[:1]}, {Value: "gcp-us-central1", Upstreams: all[1:2]}, {Value: "aws-us-west-2", Upstreams: all[2:]}}},
			{Kind: "host", Groups: []api.DomainGroup{{Upstreams: all[:2]}}},
		},
		Budgets: []api.Budget{
			{
				Objective: "availability", Target: 0.9995, WindowSeconds: 720 * 3600, CoveredSeconds: 401 * 3600, Good: 18_240_113, Bad: 6_214,
				Spent: val(0.681), BurnFast: val(14.2), BurnSlow: val(3.1),
				By: []api.BudgetSpend{
					{Provider: "anthropic-us-east-1", Reason: "server_error", Bad: 5_120}, {Provider: "anthropic-us-east-1", Reason: "first_output_timeout", Bad: 811},
					{Provider: "vertex-us-central1", Reason: "rate_limited", Bad: 201}, {Provider: "none", Reason: "draining", Bad: 60}, {Provider: "none", Reason: "capacity", Bad: 14}, {Provider: "bedrock-us-west-2", Reason: "tls", Bad: 8},
				},
			},
			{Objective: "first_output", Target: 0.99, UnderSeconds: 5, WindowSeconds: 720 * 3600, CoveredSeconds: 401 * 3600, Spent: idle(), BurnFast: idle(), BurnSlow: idle()},
		},
	}}
	s.Dependencies = []api.Dependency{
		{Name: "corp-dns", Domain: "dns/corp", Kind: "dns", Result: "ok", At: ago(12 * time.Second), Since: ago(50 * time.Hour), Upstreams: all},
		{Name: "vault", Domain: "identity/vault", Kind: "http", Result: "failed", Detail: "status 503", At: ago(3 * time.Second), Since: ago(4 * time.Minute), Upstreams: all[:1]},
		{Name: "nat", Domain: "egress/nat-a", Kind: "tcp", Result: "unknown", Upstreams: all[:2]},
	}
	s.Tasks = []api.Task{
		{Name: "policy_question", Fallback: "any", OnUnavailable: "queue", UserSees: "answer from the backup model, marked", RPS: val(231.5)},
		{Name: "refund", Fallback: "same_model", OnUnavailable: "human", UserSees: "a colleague will finish this", RPS: idle()},
		{Name: "unnamed", Fallback: "same_model", OnUnavailable: "fail", RPS: val(12)},
	}
	return s
}

// fleetState is of a gateway that shares its store with two others, of which one
// has fallen silent.
func fleetState() api.State {
	s := healthyState()
	s.Scope = "all gateways of the store"
	s.Gateways = []api.Peer{
		{Instance: "gw-1", Version: "v1.2.3", Since: ago(50 * time.Hour), LastSeen: ago(2 * time.Second), Answers: true, You: true},
		{Instance: "gw-2", Version: "v1.2.3", Since: ago(50 * time.Hour), LastSeen: ago(4 * time.Second), Answers: true},
		{Instance: "gw-3", Version: "v1.2.2", Since: ago(80 * time.Hour), LastSeen: ago(130 * time.Second)},
	}
	s.Sessions = append(s.Sessions, api.Session{Name: "ben", Instance: "gw-2", LastSeen: ago(3 * time.Minute), Since: ago(time.Hour)})
	s.LastWrite = &api.Event{Event: "traffic_step", Time: ago(41 * time.Second), By: "ben", Revision: 118, Provider: "vertex-us-central1", From: "100", To: "75", Result: "ok"}
	return s
}

func place(key string, state func() api.State) func(m *model) {
	return func(m *model) {
		give(m, state(), nil, nil)
		keys(m, key)
	}
}

func init() {
	situations = append(situations, []situation{
		{"map", place("m", placesState)},
		{"map-bare", place("m", baseState)},
		{"queue", place("w", placesState)},
		{"queue-bare", place("w", baseState)},
		{"money", place("$", placesState)},
		{"money-bare", place("$", baseState)},
		{"fleet", place("o", fleetState)},
	}...)
}
