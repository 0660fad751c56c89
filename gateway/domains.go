package gateway

import (
	"maps"

	"failback/gateway/config"
	"failback/gateway/operator/api"
)

// fillDomains says what upstreams depend on and which of a model share it.
func fillDomains(state *api.State, cfg *config.Config) {
	for i, u := range cfg.Upstreams {
		state.Upstreams[i].FaultDomains, state.Upstreams[i].Owner = maps.Clone(u.FaultDomains), u.Owner
	}
	of := make(map[string]*api.Model, len(state.Models))
	for i := range state.Models {
		of[state.Models[i].Name] = &state.Models[i]
	}
	for _, d := range cfg.Domains() {
		domain := api.Domain{Kind: d.Kind, Unknown: d.Unknown, Accepted: d.Accepted}
		for _, g := range d.Groups {
			domain.Groups = append(domain.Groups, api.DomainGroup(g))
		}
		m := of[d.Model]
		m.Domains = append(m.Domains, domain)
	}
}
