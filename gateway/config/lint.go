package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"failback/gateway/decision"
)

// Severities of a Finding.
const (
	Warning  = "warning"  // probably a mistake, or a risk that should be known
	Note     = "note"     // worth knowing
	Accepted = "accepted" // a warning or note that the configuration takes on purpose
)

// Finding is something that is allowed but probably not meant.
type Finding struct {
	Severity string
	// Subject names the finding: its kind, and what it is about, with slashes.
	// The accepted section takes it by this name.
	Subject string
	Message string
}

// Lint returns what is allowed but probably not meant, in the order of the
// configuration. A finding that the accepted section names is marked as such.
func (c *Config) Lint() []Finding {
	l := &linter{c: c}
	l.listeners()
	for i := range c.Upstreams {
		l.upstream(&c.Upstreams[i])
	}
	for i := range c.Models {
		l.model(&c.Models[i])
	}
	l.tasks()
	l.dependencies()
	if c.Failback.Owner == "undecided" {
		l.warn("owner/failback", "nobody is named who may call traffic fully back (failback.owner)")
	}
	l.withoutEffect(c.outline())
	l.accept()
	return l.findings
}

type linter struct {
	c        *Config
	findings []Finding
}

func (l *linter) warn(subject, format string, args ...any) { l.add(Warning, subject, format, args...) }
func (l *linter) note(subject, format string, args ...any) { l.add(Note, subject, format, args...) }

func (l *linter) add(severity, subject, format string, args ...any) {
	l.findings = append(l.findings, Finding{severity, subject, fmt.Sprintf(format, args...)})
}

func (l *linter) listeners() {
	c := l.c
	if loopback(c.Listen) {
		return
	}
	if c.AllowAnonymous {
		l.warn("anonymous/listen", "listen is reachable from other machines and clients without a key are let in")
	}
	if c.TLS == nil {
		l.warn("clear-text/listen", "listen is reachable from other machines without TLS: prompts and keys of clients travel in clear text")
	}
}

func (l *linter) upstream(u *Upstream) {
	for _, k := range u.Keys {
		if k.source == fromLiteral {
			l.warn("literal-credential/"+u.Name, "the credential of %s stands in the configuration itself; env:NAME, file:PATH or exec:COMMAND keep it out", u.Name)
			break
		}
	}
	for i, k := range u.Keys {
		if slices.ContainsFunc(u.Keys[:i], func(o Secret) bool { return o.value == k.value }) {
			l.warn("same-credential/"+u.Name, "credential %d of %s is the same as one before it", i+1, u.Name)
		}
	}
	if u.BaseURL.Scheme == "http" && !loopbackHost(u.BaseURL.Hostname()) {
		l.warn("clear-text/"+u.Name, "base_url of %s is http: prompts and the credential travel in clear text", u.Name)
	}
	if u.Owner == "" {
		l.warn("owner/"+u.Name, "%s has no owner", u.Name)
	}
	for _, k := range sortedKeys(u.FaultDomains) {
		if slices.Contains(domains, k) {
			continue
		}
		if near, close := nearest(k, domains); close {
			l.warn("fault-domain/"+u.Name+"/"+k, "%s is not a usual fault domain; %s is", k, near)
		}
	}
	if !slices.ContainsFunc(l.c.Models, func(m Model) bool {
		return slices.ContainsFunc(m.Candidates, func(k Candidate) bool { return k.Upstream == u.Name })
	}) {
		l.warn("unused/"+u.Name, "%s is a candidate of no model", u.Name)
		return // nothing of it is probed
	}
	l.probes(u)
}

// probes reports probes that come too late for what hangs on them.
func (l *linter) probes(u *Upstream) {
	h := &l.c.Health
	if u.Probe.Every >= h.ProbeMaxAge {
		l.warn("probe-age/"+u.Name, "%s is probed every %s and a result is too old after %s (health.probe_max_age): between two probes the signal is unknown",
			u.Name, durationText(u.Probe.Every), durationText(h.ProbeMaxAge))
	}
	switch cooldown := durationText(u.Breaker.Cooldown); {
	case u.Breaker.Cooldown > h.SuspectWindow:
		l.warn("probe-pace/"+u.Name, "while suspect %s is probed every %s (breaker.cooldown), which is longer than health.suspect_window, %s: it may be degraded before a probe says anything",
			u.Name, cooldown, durationText(h.SuspectWindow))
	case u.Breaker.Cooldown > redFor:
		l.warn("probe-pace/"+u.Name, "while suspect %s is probed every %s (breaker.cooldown), but a failed probe speaks against it for %s only: probes alone never degrade it",
			u.Name, cooldown, durationText(redFor))
	}
}

// redFor is how long a red signal counts; see health.RedMaxAge.
const redFor = 30 * time.Second

// dependencies reports what is watched for nobody.
func (l *linter) dependencies() {
	for _, d := range l.c.SharedDependencies {
		if !slices.ContainsFunc(l.c.Upstreams, func(u Upstream) bool {
			kind, value, _ := strings.Cut(d.Domain, "/")
			return u.FaultDomains[kind] == value
		}) {
			l.warn("dependency/"+d.Name, "no upstream names the domain of %s, %s, in fault_domains: that it fails explains no failure", d.Name, d.Domain)
		}
	}
}

func (l *linter) model(m *Model) {
	for _, dialect := range []decision.Dialect{decision.OpenAI, decision.Anthropic} {
		l.dialect(m, dialect)
	}
	l.redundancy(m)
}

// dialect looks at the candidates that the endpoints of one dialect have.
func (l *linter) dialect(m *Model, dialect decision.Dialect) {
	var all, same []Candidate
	at := map[string]bool{}
	for _, k := range m.Candidates {
		if u := l.c.upstream(k.Upstream); u == nil || u.Dialect != dialect {
			continue
		}
		all, at[k.Upstream] = append(all, k), true
		if !k.Substitute {
			same = append(same, k)
		}
	}
	subject := m.Name + "/" + string(dialect)
	switch {
	case len(all) == 0:
		l.note("no-candidate/"+subject, "%s has no candidate for the %s endpoints: it does not exist there (404)", m.Name, dialect)
	case len(same) == 0:
		l.warn("only-substitutes/"+subject, "%s has only substitutes for the %s endpoints: it does not exist there (404)", m.Name, dialect)
	case len(all) == 1:
		l.warn("one-candidate/"+subject, "%s has one candidate for the %s endpoints: nothing can take over from %s", m.Name, dialect, all[0].Upstream)
	case len(at) == 1:
		l.warn("one-upstream/"+subject, "all candidates of %s for the %s endpoints are at %s", m.Name, dialect, all[0].Upstream)
	case len(same) == 1:
		l.note("one-same-model/"+subject, "%s has only substitutes besides %s for the %s endpoints: tasks with fallback: same_model have nowhere to go", m.Name, same[0].Upstream, dialect)
	}
}

// redundancy reports what the upstreams of a model share: a failure there
// takes them together.
func (l *linter) redundancy(m *Model) {
	all := l.c.domains(m)
	if len(all) == 0 {
		return
	}
	for _, d := range all {
		for _, g := range d.Shared() {
			what := d.Kind + " " + g.Value
			switch d.Kind {
			case DomainHost:
				what = "the host of base_url"
			case DomainCredential:
				what = "a credential"
			}
			l.warn(d.Subject(), "candidates %s of %s share %s: one failure takes them together", strings.Join(g.Upstreams, ", "), m.Name, what)
		}
	}
	if unknown := unknownDomains(l.c.upstreamsOf(m)); len(unknown) > 0 {
		l.note("unknown-domains/"+m.Name, "not known whether candidates of %s are independent: unknown are %s", m.Name, strings.Join(unknown, "; "))
	}
}

func (l *linter) tasks() {
	for i := range l.c.Tasks {
		l.task(&l.c.Tasks[i], l.c.Tasks[i].Name)
	}
	l.task(&l.c.DefaultTask, "default_task")
}

func (l *linter) task(t *Task, name string) {
	configured := t != &l.c.DefaultTask
	if t.UserSees == "" && configured {
		l.warn("user-sees/"+name, "task %s does not say what its users see when the primary does not answer", name)
	}
	switch {
	case t.OnUnavailable == "fail":
	case t.Fallback == "never":
		l.warn("on-unavailable/"+name, "%s never falls back and its on_unavailable is %s, which answers 503 until there is a queue: every failure of the primary reaches its users", name, t.OnUnavailable)
	default:
		l.warn("on-unavailable/"+name, "on_unavailable of %s is %s, which answers 503 until there is a queue", name, t.OnUnavailable)
	}
	if t.DataZones == nil {
		return
	}
	for _, m := range l.c.Models {
		if !slices.ContainsFunc(m.Candidates, func(k Candidate) bool {
			u := l.c.upstream(k.Upstream)
			return u != nil && slices.ContainsFunc(t.DataZones, func(z string) bool { return slices.Contains(u.DataZones, z) })
		}) {
			l.warn("data-zone/"+name+"/"+m.Name, "no candidate of %s declares a zone of %s (%s): nothing may answer it there", m.Name, name, strings.Join(t.DataZones, ", "))
		}
	}
}

// withoutEffect reports keys that were given and that nothing acts on. Of a
// section it reports the section.
func (l *linter) withoutEffect(parts []part) {
	for _, p := range parts {
		if p.field != nil && p.field.inert && l.c.meta.given(p.path) {
			l.note("no-effect/"+p.path, "%s is accepted, has no effect in this version", p.path)
			continue
		}
		l.withoutEffect(p.parts)
	}
}

// accept marks the findings that are accepted, and reports acceptances of what
// is not there.
func (l *linter) accept() {
	for i, f := range l.findings {
		if why, ok := l.c.Accepted[f.Subject]; ok {
			l.findings[i].Severity = Accepted
			l.findings[i].Message += " (accepted: " + why + ")"
		}
	}
	var subjects []string
	for _, f := range l.findings {
		subjects = append(subjects, f.Subject)
	}
	for _, s := range sortedKeys(l.c.Accepted) {
		if slices.Contains(subjects, s) {
			continue
		}
		hint := ""
		if len(subjects) > 0 {
			if near, close := nearest(s, subjects); close {
				hint = "; did you mean " + near + "?"
			}
		}
		l.warn("accepted/"+s, "accepted names a finding that is not there%s", hint)
	}
}

// upstream returns the upstream of that name, nil if there is none.
func (c *Config) upstream(name string) *Upstream {
	for i := range c.Upstreams {
		if c.Upstreams[i].Name == name {
			return &c.Upstreams[i]
		}
	}
	return nil
}
