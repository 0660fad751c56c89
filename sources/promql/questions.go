package promql

import (
	"regexp"
	"strings"
	"time"
)

// ViolationsFor is how long a violation of policy is shown after it.
const ViolationsFor = time.Hour

// Ratio is the whole fallback ratio, 0 to 1. It is 0 where there is nothing to
// divide, also where the series are absent: whether there is traffic, and whether
// there are series, are questions of their own. Whoever compares it puts it in
// parentheses, so that the comparison binds to all of it.
func (q Query) Ratio() string {
	return "( " + q.Rate("", FallbacksTotal) + " / (" + q.Rate("", RequestsTotal) + " > 0) ) or vector(0)"
}

// Violations are those of policy within ViolationsFor, by task_type; none where
// there are none.
func (q Query) Violations() string { return q.Grown(ViolationsFor, "task_type", ViolationsTotal) }

// Refuses is 1 for each provider that refused what matchers of the class select
// when it was last asked, on one gateway at least, and 0 for others.
func (q Query) Refuses(class string) string {
	return "max by (provider) (" + q.Series(UpstreamRefuses, class) + ")"
}

// Firing are the alerts of failback's rules that fire, by alertname. Rules have
// the Fixed labels of what they were made for, so that those of other gateways
// are told apart; rules without such a label watch these, too. (What a selector
// matches otherwise the rules' own expressions lose.)
func (q Query) Firing() string {
	of := []string{`alertname=~"Failback.+"`, `alertstate="firing"`}
	for _, l := range q.Fixed() {
		name := l.Name
		if !plain.MatchString(name) {
			name = Quote(name)
		}
		of = append(of, name+"=~"+Quote(regexp.QuoteMeta(l.Value)+"|"))
	}
	return "max by (alertname) (ALERTS{" + strings.Join(of, ",") + "})"
}

// plain is a label name that needs no quotes.
var plain = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
