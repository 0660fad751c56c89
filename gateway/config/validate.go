package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"failback/gateway/decision"
)

// derive sets what follows from other keys.
func (d *decoder) derive() {
	c := d.cfg
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if u.Auth == "" {
			u.Auth = defaultAuth(u.Dialect)
		}
	}
	for i := range c.Models {
		m := &c.Models[i]
		for j := range m.Candidates {
			if k := &m.Candidates[j]; k.Model == "" {
				k.Model = m.Name
			}
		}
	}
	c.DefaultTask.Name = decision.TaskUnnamed
	if c.Telemetry.Sample == nil {
		c.Telemetry.Sample = map[string]float64{}
	}
	if _, ok := c.Telemetry.Sample[string(decision.PrimaryCompleted)]; !ok {
		c.Telemetry.Sample[string(decision.PrimaryCompleted)] = 1
	}
}

// defaultAuth is how the dialect's own SDKs send a credential.
func defaultAuth(dialect decision.Dialect) string {
	if dialect == decision.Anthropic {
		return "x-api-key"
	}
	return "bearer"
}

// check reports a problem of path unless one of its keys was refused already.
func (d *decoder) check(ok bool, path, message, hint string, also ...string) {
	if ok || d.bad[path] || slices.ContainsFunc(also, func(p string) bool { return d.bad[p] }) {
		return
	}
	d.add(path, message, hint)
}

// validate checks what no key can be judged by alone.
func (d *decoder) validate() {
	c := d.cfg
	d.validateListeners()
	d.order("max_held_bytes", "max_buffered_bytes", c.MaxHeldBytes <= c.MaxBufferedBytes, bytesText(c.MaxHeldBytes), bytesText(c.MaxBufferedBytes))
	d.order("max_request_bytes", "max_buffered_bytes", c.MaxRequestBytes <= c.MaxBufferedBytes, bytesText(c.MaxRequestBytes), bytesText(c.MaxBufferedBytes))
	d.validateTimes("", c.Breaker, c.FirstOutput, c.Stream, c.Retry)
	for i := range c.Upstreams {
		d.validateUpstream(&c.Upstreams[i])
	}
	for i := range c.Models {
		d.validateModel(&c.Models[i])
	}
	d.validateSteps()
	d.validateDependencies()
	d.validateTokensAndKeys()
	for _, reason := range sortedKeys(c.Telemetry.Sample) {
		path := child("telemetry.sample", reason)
		d.check(reason == string(decision.PrimaryCompleted), path, "only primary_completed can be thinned", "all other lines are always kept")
	}
	for _, subject := range sortedKeys(c.Accepted) {
		path := child("accepted", subject)
		d.check(strings.TrimSpace(c.Accepted[subject]) != "", path, "says not why the finding is accepted", "write the reason")
	}
}

// order reports that the value of path is above that of limit. Where only the
// limit was given, the problem is there.
func (d *decoder) order(path, limit string, ok bool, value, bound string) {
	where, message := path, fmt.Sprintf("%s is more than %s, which is %s%s", value, limit, bound, d.byDefault(limit))
	if !d.given(path) && d.given(limit) {
		where, message = limit, fmt.Sprintf("%s is less than %s, which is %s%s", bound, path, value, d.byDefault(path))
	}
	d.check(ok, where, message, "", path, limit)
}

func (d *decoder) byDefault(path string) string {
	if d.given(path) {
		return ""
	}
	return " by default"
}

// validateTimes checks the sections that an upstream may override, at path
// with a dot at its end, or empty.
func (d *decoder) validateTimes(path string, b Breaker, f FirstOutput, s Stream, r Retry) {
	own := func(keys ...string) bool {
		return path == "" || slices.ContainsFunc(keys, func(k string) bool { return d.given(path + k) })
	}
	if own("breaker.cooldown", "breaker.cooldown_max") {
		d.order(path+"breaker.cooldown", path+"breaker.cooldown_max", b.Cooldown <= b.CooldownMax, durationText(b.Cooldown), durationText(b.CooldownMax))
	}
	if own("first_output.floor", "first_output.ceiling") {
		d.order(path+"first_output.floor", path+"first_output.ceiling", f.Floor <= f.Ceiling, durationText(f.Floor), durationText(f.Ceiling))
	}
	if own("stream.idle", "stream.max") {
		d.order(path+"stream.idle", path+"stream.max", s.Idle <= s.Max, durationText(s.Idle), durationText(s.Max))
	}
	if own("retry.base", "retry.cap") {
		d.order(path+"retry.base", path+"retry.cap", r.Base <= r.Cap, durationText(r.Base), durationText(r.Cap))
	}
}

func (d *decoder) validateListeners() {
	c := d.cfg
	if c.Listen != "" && !loopback(c.Listen) && !c.AllowAnonymous && len(c.Keys) == 0 {
		d.check(false, "listen", visible(c.Listen)+" is reachable from other machines, and clients need no key",
			"add keys, or say allow_anonymous: true, or listen on 127.0.0.1", "keys", "allow_anonymous")
	}
	o := c.Operator
	if o.Listen == "" {
		return
	}
	d.check(loopback(o.Listen) || o.TLS != nil, "operator.listen",
		visible(o.Listen)+" is reachable from other machines, and tokens would travel in clear text",
		"add operator.tls, or listen on 127.0.0.1", "operator.tls")
	d.check(o.Listen != c.Listen || strings.HasSuffix(o.Listen, ":0"), "operator.listen", "is the same address as listen", "choose another port", "listen")
}

func (d *decoder) validateUpstream(u *Upstream) {
	path := child("upstreams", u.Name)
	if d.bad[path] {
		return
	}
	one, several := d.given(path+".api_key"), d.given(path+".api_keys")
	switch {
	case !one && !several:
		d.check(false, path, "has no credential", "add api_key: env:NAME, file:PATH or exec:COMMAND")
		// Only this is wrong with the upstream, not all of it.
		delete(d.bad, path)
	case one && several:
		d.check(false, path+".api_keys", "api_key is there too", "keep one of them", path+".api_key")
	case len(u.Keys) == 0:
		d.check(false, path+".api_keys", "needs at least one credential", "")
	case len(u.Keys) > 64:
		d.check(false, path+".api_keys", "more than 64 credentials", "")
	}
	d.validateBaseURL(u, path+".base_url")
	d.validateTimes(path+".", u.Breaker, u.FirstOutput, u.Stream, u.Retry)
	for _, k := range sortedKeys(u.FaultDomains) {
		d.check(u.FaultDomains[k] != "", child(path+".fault_domains", k), "is empty", "leave the key out if it is unknown")
	}
}

// callPaths are ends of paths that the gateway appends itself.
var callPaths = []string{"/chat/completions", "/completions", "/responses", "/embeddings", "/messages", "/models"}

// validateBaseURL checks that base_url is what the dialect's SDK takes, and
// drops slashes at its end.
func (d *decoder) validateBaseURL(u *Upstream, path string) {
	b := u.BaseURL
	if b == nil || d.bad[path] {
		return
	}
	rooted := b.Path == "/"
	b.Path = strings.TrimRight(b.Path, "/")
	b.RawPath = strings.TrimRight(b.RawPath, "/")
	base := (&url.URL{Scheme: b.Scheme, Host: b.Host}).String()
	for _, p := range callPaths {
		if rest, ok := strings.CutSuffix(b.Path, p); ok {
			if u.Dialect == decision.Anthropic {
				rest = strings.TrimSuffix(rest, "/v1")
			}
			d.check(false, path, "ends in "+p+", which the gateway appends itself", "write "+base+rest)
			return
		}
	}
	switch u.Dialect {
	case decision.Anthropic:
		if rest, ok := strings.CutSuffix(b.Path, "/v1"); ok {
			d.check(false, path, "ends in /v1; the anthropic dialect has it in its own paths", "write "+base+rest)
		}
	case decision.OpenAI:
		if b.Path == "" && (!rooted || b.Hostname() == "api.openai.com") {
			hint := "write " + base + "/v1"
			if b.Hostname() != "api.openai.com" {
				hint += "; if the provider has no such path, " + base + "/"
			}
			d.check(false, path, "has no path; the openai dialect wants it with /v1, as the SDKs do", hint)
		} else if b.Path == "" {
			d.written[path] = base + "/" // what says that the root is meant
		}
	}
}

func (d *decoder) validateModel(m *Model) {
	path := child("models", m.Name)
	names := make([]string, len(d.cfg.Upstreams))
	for i, u := range d.cfg.Upstreams {
		names[i] = u.Name
	}
	seen := map[[2]string]bool{}
	same := len(m.Candidates) == 0
	for i, k := range m.Candidates {
		p := item(path+".candidates", i)
		same = same || !k.Substitute
		if d.bad[p] || k.Upstream == "" {
			continue
		}
		if !slices.Contains(names, k.Upstream) && !d.bad["upstreams"] && len(names) > 0 {
			hint := "the upstreams are " + strings.Join(names[:min(len(names), 8)], ", ")
			if near, close := nearest(k.Upstream, names); close {
				hint = "did you mean " + near + "?"
			}
			d.check(false, p+".upstream", "there is no upstream "+guarded(k.Upstream), hint)
		}
		id := [2]string{k.Upstream, k.Model}
		d.check(!seen[id], p, fmt.Sprintf("%s with model %s is a candidate already", visible(k.Upstream), visible(k.Model)), "keep one of them")
		seen[id] = true
	}
	d.check(same, path+".candidates", "all are substitutes, so nobody serves the model itself", "leave out substitute: true for those that do", path)
}

func (d *decoder) validateSteps() {
	const path = "failback.steps"
	steps := d.cfg.Failback.Steps
	if d.bad[path] || d.problemUnder(path) {
		return
	}
	if len(steps) == 0 {
		d.check(false, path, "needs at least one step", "the last is {share: 100}")
		return
	}
	for i, s := range steps {
		p := item(path, i)
		last := i == len(steps)-1
		switch {
		case i > 0 && s.Share <= steps[i-1].Share:
			d.check(false, p+".share", fmt.Sprintf("%d is not more than the step before, which is %d", s.Share, steps[i-1].Share), "steps rise to 100")
		case last && s.Share != 100:
			d.check(false, p+".share", fmt.Sprintf("the last step is %d", s.Share), "add {share: 100}")
		case last && s.Observe != 0:
			d.check(false, p+".observe", "the last step is not observed", "health.recovery_window is how long it must hold")
		case !last && s.Observe == 0:
			d.check(false, p, "observe is required for every step below 100", "write observe: 10m")
		}
	}
}

func (d *decoder) validateDependencies() {
	seen := map[string]bool{}
	for i, s := range d.cfg.SharedDependencies {
		p := item("shared_dependencies", i)
		if d.bad[p] {
			continue
		}
		ways := 0
		for _, key := range []string{"dns", "tcp", "tls", "http", "file"} {
			if d.given(p + "." + key) {
				ways++
			}
		}
		d.check(ways == 1, p, "needs exactly one of dns, tcp, tls, http and file", "")
		d.check(!d.given(p+".max_age") || d.given(p+".file"), p+".max_age", "is for a file", "remove it")
		d.check(!seen[s.Name] || s.Name == "", p+".name", visible(s.Name)+" is here twice", "")
		seen[s.Name] = true
	}
}

func (d *decoder) validateTokensAndKeys() {
	names, hashes := map[string]bool{}, map[string]bool{}
	for i, t := range d.cfg.Operator.Tokens {
		p := item("operator.tokens", i)
		d.check(t.Name == "" || !names[t.Name], p+".name", visible(t.Name)+" is here twice", "")
		d.check(!decision.ByMachine(t.Name), p+".name", visible(t.Name)+" is what the gateway calls itself", "choose another name")
		d.check(t.Hash == "" || !hashes[t.Hash], p+".hash", "is the same as that of another token", "every person has an own token")
		names[t.Name], hashes[t.Hash] = true, true
	}
	models := make([]string, len(d.cfg.Models))
	for i, m := range d.cfg.Models {
		models[i] = m.Name
	}
	names, hashes = map[string]bool{}, map[string]bool{}
	for i, k := range d.cfg.Keys {
		p := item("keys", i)
		d.check(k.Name == "" || !names[k.Name], p+".name", visible(k.Name)+" is here twice", "")
		d.check(k.Hash == "" || !hashes[k.Hash], p+".hash", "is the same as that of another key", "")
		names[k.Name], hashes[k.Hash] = true, true
		if d.bad["models"] || len(models) == 0 {
			continue
		}
		for j, m := range k.Models {
			if slices.Contains(models, m) {
				continue
			}
			hint := ""
			if near, close := nearest(m, models); close {
				hint = "did you mean " + near + "?"
			}
			d.check(false, item(p+".models", j), "there is no model "+guarded(m), hint)
		}
	}
}

// dateText is t as the file has it.
func dateText(t time.Time) string {
	if t.Equal(t.Truncate(24 * time.Hour)) {
		return t.UTC().Format(time.DateOnly)
	}
	return t.Format(time.RFC3339)
}
