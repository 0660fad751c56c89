package config

import (
	"net"
	"slices"
	"strings"
)

// domains are the kinds of fault domain that every upstream has, known or not.
var domains = []string{"dns", "egress", "identity", "billing", "gateway", "state", "quota", "cloud"}

// The kinds of Domain that are read off the configuration, not declared in
// fault_domains.
const (
	DomainHost       = "host"       // host and port of base_url: the same endpoint under several names
	DomainCredential = "credential" // the first credential's value
)

// Domain is one kind of fault domain of a model's upstreams: who shares it and
// of whom it is not known.
type Domain struct {
	Model string
	Kind  string // dns, egress, …, a kind of the configuration's own, host or credential
	// Groups are the upstreams by value, each in the order of the candidates.
	Groups []DomainGroup
	// Unknown are the upstreams that do not declare it.
	Unknown []string
	// Accepted is why it is accepted that some share it, empty if it is not.
	Accepted string
}

// DomainGroup are the upstreams of one value.
type DomainGroup struct {
	Value     string // as declared; empty for host and credential
	Upstreams []string
}

// Shared are the groups of more than one upstream: one failure takes them
// together.
func (d Domain) Shared() []DomainGroup {
	return slices.DeleteFunc(slices.Clone(d.Groups), func(g DomainGroup) bool { return len(g.Upstreams) < 2 })
}

// Subject is the finding that sharing it is.
func (d Domain) Subject() string { return "fake-redundancy/" + d.Model + "/" + d.Kind }

// Domains says what the upstreams of each model share, in the order of the
// configuration. Models with one upstream have none: they have no redundancy to
// be wrong about.
func (c *Config) Domains() []Domain {
	var out []Domain
	for i := range c.Models {
		out = append(out, c.domains(&c.Models[i])...)
	}
	return out
}

// upstreamsOf are the upstreams of m, in the order of its candidates.
func (c *Config) upstreamsOf(m *Model) []*Upstream {
	var ups []*Upstream
	for _, k := range m.Candidates {
		if u := c.upstream(k.Upstream); u != nil && !slices.Contains(ups, u) {
			ups = append(ups, u)
		}
	}
	return ups
}

func (c *Config) domains(m *Model) []Domain {
	ups := c.upstreamsOf(m)
	if len(ups) < 2 {
		return nil
	}
	kinds := slices.Clone(domains)
	for _, u := range ups {
		for _, k := range sortedKeys(u.FaultDomains) {
			if !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	var out []Domain
	add := func(kind string, of func(*Upstream) string, secret bool) {
		d := Domain{Model: m.Name, Kind: kind}
		at := map[string]int{} // group by value, counted from 1
		for _, u := range ups {
			v := of(u)
			switch i := at[v]; {
			case v == "":
				d.Unknown = append(d.Unknown, u.Name)
			case i > 0:
				d.Groups[i-1].Upstreams = append(d.Groups[i-1].Upstreams, u.Name)
			default:
				g := DomainGroup{Value: v, Upstreams: []string{u.Name}}
				if secret {
					g.Value = ""
				}
				d.Groups = append(d.Groups, g)
				at[v] = len(d.Groups)
			}
		}
		if len(d.Shared()) > 0 {
			d.Accepted = c.Accepted[d.Subject()]
		}
		out = append(out, d)
	}
	for _, k := range kinds {
		add(k, func(u *Upstream) string { return u.FaultDomains[k] }, false)
	}
	add(DomainHost, endpoint, true)
	add(DomainCredential, func(u *Upstream) string { return u.Keys[0].value }, true)
	return out
}

// endpoint is the host and port that base_url leads to, however it is written.
func endpoint(u *Upstream) string {
	host, port := strings.ToLower(strings.TrimSuffix(u.BaseURL.Hostname(), ".")), u.BaseURL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.BaseURL.Scheme]
	}
	return net.JoinHostPort(host, port)
}

// unknownDomains says for each upstream which of the usual kinds it does not
// declare.
func unknownDomains(ups []*Upstream) []string {
	var out []string
	for _, u := range ups {
		missing := slices.DeleteFunc(slices.Clone(domains), func(k string) bool { return u.FaultDomains[k] != "" })
		switch len(missing) {
		case 0:
		case len(domains):
			out = append(out, "every domain of "+u.Name)
		default:
			out = append(out, strings.Join(missing, ", ")+" of "+u.Name)
		}
	}
	return out
}
