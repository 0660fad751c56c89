package gateway

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"failback/gateway/config"
)

// checkWidth is how wide a line of `failback check` may be: what is reviewed in
// a terminal of 80 columns, a mail or a diff must not depend on more. Only a
// name that is longer by itself goes beyond.
const checkWidth = 80

// String writes r as `failback check` prints it, with what could drive a
// terminal made visible.
func (r Report) String() string {
	var p page
	p.text(0, r.Path+" is valid, hash "+r.Hash)
	p.heading(fmt.Sprintf("FINDINGS %d", len(r.Findings)))
	for _, f := range r.Findings {
		p.row(0, 10, f.Severity, f.Subject)
		p.text(10, f.Message)
	}
	for i, m := range r.Models {
		if i == 0 || r.Models[i-1].Name != m.Name {
			p.heading("MODEL " + m.Name)
		}
		p.row(2, 13, m.Dialect, m.order())
		if i+1 == len(r.Models) || r.Models[i+1].Name != m.Name {
			p.redundancy(m.Name, r.Domains)
		}
	}
	for _, u := range r.Upstreams {
		p.heading("UPSTREAM " + u.Name)
		p.row(2, 18, "owner", named(u.Owner))
		p.row(2, 18, "signal", named(u.Signal))
		p.row(2, 18, "state boundary", named(u.StateBoundary))
		p.row(2, 18, "fallback", u.fallback()...)
	}
	for i, t := range r.Tasks {
		if i == 0 || r.Tasks[i-1].Task != t.Task {
			p.heading("TASK " + t.Task)
		}
		p.row(2, 22, t.Status, "client: "+t.Client, "user: "+t.UserSees)
	}
	return config.Escaped(p.b.String())
}

func (m ReportModel) order() string {
	if m.Primary == "" {
		return "none: the model does not exist on this dialect's endpoints"
	}
	return "primary " + strings.Join(m.Candidates, ", then ")
}

func (u ReportUpstream) fallback() []string {
	if len(u.Fallback) == 0 {
		return []string{"primary of nothing"}
	}
	var lines []string
	for _, f := range u.Fallback {
		who := "nobody"
		if len(f.Candidates) > 0 {
			who = strings.Join(f.Candidates, ", then ")
		}
		lines = append(lines, f.Model+" ("+f.Dialect+"): "+who)
	}
	return lines
}

func named(s string) string {
	if s == "" {
		return "unnamed"
	}
	return s
}

// redundancy says what the candidates of a model share.
func (p *page) redundancy(model string, all []ReportDomain) {
	var shared, accepted, unknown, apart []string
	missing := map[string][]string{} // domains by upstream
	var ups []string
	declarable := 0 // domains that an upstream may declare
	any := false
	for _, d := range all {
		if d.Model != model {
			continue
		}
		any = true
		if d.Domain != config.DomainHost && d.Domain != config.DomainCredential {
			declarable++
		}
		for _, s := range d.Shared {
			line := strings.TrimSpace(d.label()+" "+s.Value) + ": " + strings.Join(s.Upstreams, ", ")
			if d.Verdict == domainAccepted {
				accepted = append(accepted, line+" ("+d.Accepted+")")
			} else {
				shared = append(shared, line)
			}
		}
		if d.Verdict == domainApart {
			apart = append(apart, d.label())
		}
		for _, u := range d.Unknown {
			if missing[u] == nil {
				ups = append(ups, u)
			}
			missing[u] = append(missing[u], d.Domain)
		}
	}
	if !any {
		return
	}
	for _, u := range ups {
		which := strings.Join(missing[u], ", ")
		if len(missing[u]) == declarable {
			which = "every domain"
		}
		unknown = append(unknown, which+" of "+u)
	}
	p.text(2, "what its candidates share, so that one failure takes them together:")
	for _, part := range []struct {
		name  string
		lines []string
	}{{domainShared, shared}, {domainAccepted, accepted}, {domainUnknown, unknown}} {
		if len(part.lines) > 0 {
			p.row(4, 14, part.name, part.lines...)
		}
	}
	if len(apart) > 0 {
		p.row(4, 14, domainApart, strings.Join(apart, ", "))
	}
}

// label is the domain in words.
func (d ReportDomain) label() string {
	switch d.Domain {
	case config.DomainHost:
		return "same endpoint"
	case config.DomainCredential:
		return "same credential"
	}
	return d.Domain
}

// page is text of checkWidth columns.
type page struct{ b strings.Builder }

func (p *page) heading(s string) {
	p.b.WriteByte('\n')
	p.text(0, s)
}

// row writes a name at column at and lines at column to, below each other.
func (p *page) row(at, to int, name string, lines ...string) {
	for i, line := range lines {
		switch {
		case i > 0:
			p.text(to, line)
		case at+utf8.RuneCountInString(name) < to:
			p.wrap(strings.Repeat(" ", at)+name+strings.Repeat(" ", to-at-utf8.RuneCountInString(name)), to, line)
		default: // the name needs a line of its own
			p.text(at, name)
			p.text(to, line)
		}
	}
}

// text writes s at a column, wrapped.
func (p *page) text(at int, s string) { p.wrap(strings.Repeat(" ", at), at, s) }

// wrap writes s after what stands on its first line already, further lines at
// the same column.
func (p *page) wrap(first string, at int, s string) {
	p.b.WriteString(first)
	column, begun := at, false
	// A text holds no line end of its own: it could begin a heading.
	for _, word := range strings.FieldsFunc(config.Escaped(strings.ReplaceAll(s, "\n", " ")), func(r rune) bool { return r == ' ' }) {
		n := utf8.RuneCountInString(word)
		switch {
		case !begun:
		case column+1+n > checkWidth:
			p.b.WriteString("\n" + strings.Repeat(" ", at))
			column = at
		default:
			p.b.WriteByte(' ')
			column++
		}
		p.b.WriteString(word)
		column, begun = column+n, true
	}
	p.b.WriteByte('\n')
}
