package runbooks

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"failback/gateway/operator/api"
)

// Cause is what a Condition looks at, the gravest first.
type Cause uint8

const (
	OpenBreaker Cause = iota
	CoolingKeys
	BadHealth
	OverLimit
	LoweredShare
)

// conditionKeys are the keys of the causes in front matter.
var conditionKeys = []string{
	OpenBreaker:  "breaker",
	CoolingKeys:  "credential",
	BadHealth:    "health",
	OverLimit:    "ratio",
	LoweredShare: "share",
}

// The words that conditions may name: the gateway's own.
var (
	Reasons = []string{"failure_rate", "consecutive", "slow", "weight", "retry_budget", "rate_limited", "forced"}
	Classes = []string{"connect", "dns", "tls", "reset", "first_output_timeout", "attempt_timeout", "idle_timeout",
		"server_error", "overloaded", "rate_limited", "bad_response", "interrupted"}
	CredentialClasses = []string{"credential", "quota_exhausted"}
	HealthWords       = []string{"suspect", "degraded", "recovering"}
)

// Condition is one reason to propose a runbook.
type Condition struct {
	Kind Cause
	// Words are the breaker's reasons, the credential's classes or the health
	// words of which any will do; none: any at all.
	Words []string
	// Classes are of OpenBreaker: what attempts may have failed with most. None: any.
	Classes []string
}

// String says what holds when the condition does.
func (c Condition) String() string {
	switch c.Kind {
	case OpenBreaker:
		s := "a breaker opens"
		if len(c.Words) > 0 {
			s += " for " + strings.Join(c.Words, " or ")
		}
		if len(c.Classes) > 0 {
			s += ", most attempts having ended with " + strings.Join(c.Classes, " or ")
		}
		return s
	case CoolingKeys:
		return "the keys of an upstream cool for " + strings.Join(c.Words, " or ")
	case BadHealth:
		return "the health of an upstream is " + strings.Join(c.Words, " or ")
	case OverLimit:
		return "the fallback ratio is over its limit"
	}
	return "a share is below 100%"
}

// Situation is what conditions are matched against.
type Situation struct {
	Upstreams []api.Upstream
	// Ratio is the fallback ratio, 0 to 1; nil: not known, or nothing to measure.
	Ratio *float64
	// Limit is the configured limit of it; nil: none.
	Limit *float64
	// Openings are those of the buckets that are not closed, since each last was,
	// oldest first, by the bucket's name. A bucket's own reason and detail are
	// those of its newest opening and need not be among them.
	Openings map[string][]Opening
	// Passthrough says that a fixed order holds: shares and health have no effect.
	Passthrough bool
}

// Opening is one opening of a bucket: of a closed one, or by a failed probe.
type Opening struct{ Reason, Detail string }

// Match is a runbook that fits.
type Match struct {
	Runbook *Runbook
	Cause   Cause
	// Short says why in two words, Why in a few more ("breaker reason
	// consecutive, class server_error"). Both are made of this package's words.
	Short, Why string
	// Where are the buckets or upstreams for which it matches, in their order, by
	// the gravest cause; none for the ratio. The names are the gateway's.
	Where []string
}

// Propose returns the runbooks that fit, those with the gravest cause first,
// equal ones in the order of rs.
func Propose(rs []Runbook, s Situation) []Match {
	var ms []Match
	for i := range rs {
		m, ok := match(&rs[i], s)
		if ok {
			ms = append(ms, m)
		}
	}
	slices.SortStableFunc(ms, func(a, b Match) int { return int(a.Cause) - int(b.Cause) })
	return ms
}

// match is the gravest cause for r, with all places where it holds.
func match(r *Runbook, s Situation) (best Match, ok bool) {
	for _, c := range r.When {
		m, holds := c.match(s)
		switch {
		case !holds:
		case !ok || m.Cause < best.Cause:
			best, ok = m, true
		case m.Cause == best.Cause:
			for _, w := range m.Where {
				if !slices.Contains(best.Where, w) {
					best.Where = append(best.Where, w)
				}
			}
		}
	}
	best.Runbook = r
	return best, ok
}

func (c Condition) match(s Situation) (Match, bool) {
	m := Match{Cause: c.Kind}
	add := func(where, short, why string) {
		if len(m.Where) == 0 {
			m.Short, m.Why = short, why
		}
		m.Where = append(m.Where, where)
	}
	if c.Kind == OverLimit {
		m.Short, m.Why = "ratio over limit", "fallback ratio over its limit"
		return m, s.Ratio != nil && s.Limit != nil && *s.Ratio > *s.Limit
	}
	if s.Passthrough && (c.Kind == LoweredShare || c.Kind == BadHealth) {
		return m, false // no step has an effect until it ends
	}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		switch c.Kind {
		case OpenBreaker:
			for j := range u.Breakers {
				b := &u.Breakers[j]
				if why, short, ok := c.breaker(b, s.Openings[u.Name+":"+b.Capability]); ok {
					add(u.Name+":"+b.Capability, short, why)
				}
			}
		case CoolingKeys:
			if slices.Contains(c.Words, u.Credential) {
				add(u.Name, "keys cool", "credential state "+u.Credential)
			}
		case BadHealth:
			if slices.Contains(c.Words, u.Health) {
				add(u.Name, "health", "health "+u.Health)
			}
		case LoweredShare:
			if u.Share < 100 {
				add(u.Name, "share below 100%", "share below 100%")
			}
		}
	}
	return m, len(m.Where) > 0
}

// breaker matches a bucket that is not closed, by any of its openings since it
// was, the first before the others: a proposal that came and went with each
// probe would help nobody.
func (c Condition) breaker(b *api.Breaker, openings []Opening) (why, short string, ok bool) {
	switch {
	case b.Forced == "closed" || b.Forced == "" && (b.State == "closed" || b.State == ""):
		return "", "", false
	case b.Forced == "open":
		why, short, ok = c.opening(Opening{Reason: "forced"})
	default:
		for i := 0; i < len(openings) && !ok; i++ {
			why, short, ok = c.opening(openings[i])
		}
		if !ok {
			why, short, ok = c.opening(Opening{b.Reason, b.Detail})
		}
	}
	if ok && b.Mode == "shadow" {
		why += " (shadow: nothing is blocked)"
	}
	return why, short, ok
}

func (c Condition) opening(o Opening) (why, short string, ok bool) {
	if len(c.Words) > 0 {
		if !slices.Contains(c.Words, o.Reason) {
			return "", "", false
		}
		why, short = "breaker reason "+o.Reason, "breaker reason"
	}
	if len(c.Classes) > 0 {
		most := mostFrequent(o.Reason, o.Detail)
		i := slices.IndexFunc(c.Classes, func(w string) bool { return slices.Contains(most, w) })
		if i < 0 {
			return "", "", false
		}
		if why != "" {
			why += ", "
		} else {
			why, short = "breaker ", "breaker class"
		}
		why += "class " + c.Classes[i]
	}
	return why, short, true
}

var (
	countForm  = regexp.MustCompile(`\b([a-z_]+)(?: x([0-9]{1,9}))?\b`)
	statusForm = regexp.MustCompile(`([(,] ?)([45][0-9]{2})( x[0-9]{1,9})?\b`)
)

// classOf is the class of an HTTP status, empty of one that says nothing of the
// upstream's health.
func classOf(status string) string {
	switch {
	case status == "503" || status == "529":
		return "overloaded"
	case status == "429":
		return "rate_limited"
	case status[0] == '5':
		return "server_error"
	}
	return ""
}

// classes writes the statuses in the brackets of a detail as their classes.
func classes(detail string) string {
	return statusForm.ReplaceAllStringFunc(detail, func(s string) string {
		f := statusForm.FindStringSubmatch(s)
		return f[1] + classOf(f[2]) + f[3]
	})
}

// mostFrequent are the classes that an opening's detail counts most of ("12/20
// failed (server_error x11, reset x1)", "1/1 probes failed (500)"), and the
// reason where it is a class.
func mostFrequent(reason, detail string) []string {
	var most []string
	if slices.Contains(Classes, reason) {
		most = append(most, reason)
	}
	top := 0
	for _, f := range countForm.FindAllStringSubmatch(classes(detail[:min(len(detail), 1000)]), -1) {
		if !slices.Contains(Classes, f[1]) {
			continue
		}
		n := 1
		if f[2] != "" {
			n, _ = strconv.Atoi(f[2])
		}
		switch {
		case n > top:
			top, most = n, append(most[:0:0], f[1])
			if slices.Contains(Classes, reason) && reason != f[1] {
				most = append(most, reason)
			}
		case n == top:
			most = append(most, f[1])
		}
	}
	return most
}
