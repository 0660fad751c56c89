package ui

import (
	"maps"
	"slices"
	"strings"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// domainKinds are the usual kinds of fault domain, in their order on the map.
var domainKinds = []string{"dns", "egress", "identity", "billing", "gateway", "state", "quota", "cloud"}

func (m *model) mapTitle() row {
	return m.placeTitle("MAP", "upstreams and what they depend on")
}

// mapBody is a table of upstreams and fault domains, what of it is shared by the
// candidates of a model, the declared dependencies, and the last drill.
func (m *model) mapBody(w int, f *sieve) []row {
	if rows, yes := m.unanswered(); yes {
		return rows
	}
	d, now := m.d()
	s := d.state.Value()
	out := m.th.outside
	rows := m.stale(w)
	kinds := kindsOf(s)
	g := [][]span{append(heads("UPSTREAM"), heads(upper(kinds, out)...)...)}
	var us []*api.Upstream
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		if !f.pass(domainsText(u)) {
			continue
		}
		us = append(us, u)
		cells := []span{{cutMiddle(out(u.Name), 24, m.gl.cut), normal}}
		for _, kind := range kinds {
			cells = append(cells, domainCell(s, u, kind, out))
		}
		g = append(g, cells)
	}
	if table := grid(g); fits(table, w) {
		rows = append(rows, table...)
	} else {
		rows = append(rows, m.mapLists(s, us, kinds, w)...)
	}
	rows = append(rows, indented(3, "* one fault takes several candidates of a model   + the same, accepted   ? not declared: unknown", w, dim)...)
	rows = append(rows, nil, styled(accent, " SHARED"))
	shared := sharedRows(s, w, out, f)
	if len(shared) == 0 {
		shared = []row{f.without("nothing that is declared; a kind that is not declared is unknown, not safe")}
	}
	rows = append(append(rows, shared...), nil, styled(accent, " DEPENDENCIES"))
	if len(s.Dependencies) == 0 {
		rows = append(rows, styled(dim, "   none is declared: shared_dependencies in the configuration has them checked"))
	}
	n := f.shown
	for i := range s.Dependencies {
		dep := &s.Dependencies[i]
		if !f.pass(dep.Name, dep.Domain, dep.Result, dep.Detail, strings.Join(dep.Upstreams, " ")) {
			continue
		}
		st := map[string]style{"ok": good, "failed": bad}[dep.Result]
		if st == good && d.state.Whole(now).State != sources.Value {
			st = dim // what is stale is never green
		}
		if dep.Result == "unknown" {
			st = warn
		}
		line := out(dep.Result) + " for " + text.Age(d.clock(now).Sub(dep.Since))
		if dep.Since.IsZero() {
			line = out(dep.Result)
		}
		if !dep.At.IsZero() {
			line += ", checked " + text.Age(d.clock(now).Sub(dep.At)) + " ago"
		}
		if dep.Detail != "" {
			line += ": " + out(dep.Detail)
		}
		line += "; named by " + list2(dep.Upstreams, "no upstream", out)
		rows = append(rows, entryBeside(26, "  "+cutRight(out(dep.Name)+" ("+out(dep.Domain)+")", 23, m.gl.cut), line, w, st)...)
	}
	if f.shown == n && len(s.Dependencies) > 0 {
		rows = append(rows, f.without(""))
	}
	return append(rows, nil, styled(accent, " LAST DRILL"), styled(dim, "   none on record: a drill that was run against this configuration fills this"))
}

// domainsText is what a filter looks at of an upstream.
func domainsText(u *api.Upstream) string {
	says := []string{u.Name}
	for _, kind := range slices.Sorted(maps.Keys(u.FaultDomains)) {
		if v := u.FaultDomains[kind]; v != "" {
			says = append(says, kind+"/"+v, v)
		}
	}
	return strings.Join(says, " ")
}

// kindsOf are the usual kinds of fault domain, and behind them those of other
// names that an upstream declares.
func kindsOf(s *api.State) []string {
	other := make(map[string]bool)
	for i := range s.Upstreams {
		for kind := range s.Upstreams[i].FaultDomains {
			if !slices.Contains(domainKinds, kind) {
				other[kind] = true
			}
		}
	}
	return slices.Concat(domainKinds, slices.Sorted(maps.Keys(other)))
}

func upper(ss []string, out func(string) string) []string {
	l := make([]string, len(ss))
	for i := range ss {
		l[i] = out(strings.ToUpper(ss[i]))
	}
	return l
}

func fits(rows []row, w int) bool {
	return !slices.ContainsFunc(rows, func(r row) bool { return r.width() > w })
}

// domainCell is what u declares of a kind, marked if another candidate of one of
// its models has the same.
func domainCell(s *api.State, u *api.Upstream, kind string, out func(string) string) span {
	v := u.FaultDomains[kind]
	if v == "" {
		return span{"?", dim}
	}
	mark, st := "", normal
	for i := range s.Models {
		for _, d := range s.Models[i].Domains {
			if d.Kind != kind {
				continue
			}
			for _, g := range d.Groups {
				switch {
				case len(g.Upstreams) < 2 || !slices.Contains(g.Upstreams, u.Name):
				case d.Accepted == "":
					mark, st = "*", warn
				case mark == "":
					mark = "+"
				}
			}
		}
	}
	return span{cutRight(out(v), 14, "~") + mark, st}
}

// mapLists is the table for a window that is too narrow for it.
func (m *model) mapLists(s *api.State, us []*api.Upstream, kinds []string, w int) []row {
	var rows []row
	for _, u := range us {
		rows = append(rows, plain(" "+cutMiddle(m.th.outside(u.Name), w-1, m.gl.cut)))
		for _, kind := range kinds {
			c := domainCell(s, u, kind, m.th.outside)
			if c.text != "?" {
				rows = append(rows, row{{"   " + left(m.th.outside(kind), 9, m.gl.cut) + " ", dim}, c}.fit(w, m.gl.cut))
			}
		}
		var unknown []string
		for _, kind := range kinds {
			if u.FaultDomains[kind] == "" {
				unknown = append(unknown, m.th.outside(kind))
			}
		}
		if len(unknown) > 0 {
			rows = append(rows, entryBeside(12, "  ?", strings.Join(unknown, ", "), w, dim)...)
		}
	}
	return rows
}

// sharedRows says per model what several of its candidates depend on.
func sharedRows(s *api.State, w int, out func(string) string, f *sieve) []row {
	var rows []row
	for i := range s.Models {
		m := &s.Models[i]
		for _, d := range m.Domains {
			for _, g := range d.Groups {
				if len(g.Upstreams) < 2 {
					continue
				}
				if !f.pass(m.Name, d.Kind, g.Value, strings.Join(g.Upstreams, " "), d.Accepted) {
					continue
				}
				what, st := out(d.Kind), warn
				if g.Value != "" {
					what += " " + out(g.Value)
				}
				line := "one fault takes " + out(strings.Join(g.Upstreams, ", "))
				if d.Accepted != "" {
					line, st = line+`; accepted: "`+out(d.Accepted)+`"`, normal
				}
				rows = append(rows, entryBeside(28, "  "+cutRight(out(m.Name)+" "+what, 26, "~"), line, w, st)...)
			}
		}
	}
	return rows
}
