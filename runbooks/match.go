package runbooks

import (
	"regexp"
	"slices"
	"strconv"

	"failback/gateway/operator/api"
)

// Match is a runbook that fits.
type Match struct {
	Runbook *Runbook
	Cause   Cause
	// Short says why in two words, Why in a few more ("breaker reason
	// consecutive, class server_error"). A dependency's name in it is text from
	// outside.
	Short, Why string
	// Where are the buckets, upstreams, models, tasks, dependencies or incidents
	// for which it matches, in their order, by the gravest cause; none where it is
	// about the gateway as a whole. The names are the gateway's.
	Where []string

	unhurried bool
}

// rank orders matches, the gravest first.
func (m *Match) rank() int {
	if m.unhurried {
		return 2*int(LoweredShare) + 1
	}
	return 2 * int(m.Cause)
}

// Propose returns the runbooks that fit, those with the gravest cause first,
// equal ones in the order of rs.
func Propose(rs []Runbook, s Situation) []Match {
	var ms []Match
	for i := range rs {
		m, ok := match(&rs[i], &s)
		if ok {
			ms = append(ms, m)
		}
	}
	slices.SortStableFunc(ms, func(a, b Match) int { return a.rank() - b.rank() })
	return ms
}

// match is the gravest cause for r, with all places where it holds.
func match(r *Runbook, s *Situation) (best Match, ok bool) {
	for _, c := range r.When {
		p := c.places(s)
		switch {
		case len(p.where) == 0:
		case !ok || c.Kind < best.Cause:
			best, ok = Match{Cause: c.Kind, Short: p.short, Why: p.why, Where: p.where, unhurried: p.unhurried}, true
		case c.Kind == best.Cause:
			best.unhurried = best.unhurried && p.unhurried
			for _, w := range p.where {
				if !slices.Contains(best.Where, w) {
					best.Where = append(best.Where, w)
				}
			}
		}
	}
	best.Where = slices.DeleteFunc(best.Where, func(w string) bool { return w == "" })
	best.Runbook = r
	return best, ok
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
