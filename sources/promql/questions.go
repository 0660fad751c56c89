package promql

import "time"

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
