package rules

import (
	"fmt"
	"math"
	"strings"
	"time"

	"failback/sources/promql"
)

// Proposal is a value for a key of the configuration.
type Proposal struct {
	Key, Value string
	// Why says from what it follows; with an empty Value, why there is none.
	Why string
}

// facts are what proposals follow from.
type facts struct {
	past                  time.Duration
	firstOutput, duration Distribution
	failures              Distribution // of the worst upstream with enough points
	pace                  float64      // its attempts a second, p50
	outages, relapses     Distribution
}

// propose says what the configuration might be. What the facts do not carry is
// not proposed, and says so.
func propose(f facts) []Proposal {
	var all []Proposal
	not := func(key, why string) { all = append(all, Proposal{Key: key, Why: why}) }
	is := func(key, value, why string) { all = append(all, Proposal{key, value, why}) }

	if f.outages.Count < MinOutages {
		not("health.suspect_window", fmt.Sprintf("%d outages of known length, %d are needed", f.outages.Count, MinOutages))
	} else {
		// Above 5m one red group of signals degrades by itself.
		w := min(max(f.outages.P50, 30), 300)
		is("health.suspect_window", seconds(w), "the p50 of outages, from 30s to 5m: half of them end by themselves before anybody is degraded")
	}
	if f.relapses.Count < MinOutages {
		not("health.recovery_window", fmt.Sprintf("%d relapses within %s, %d are needed", f.relapses.Count, promql.Span(relapse), MinOutages))
	} else {
		is("health.recovery_window", seconds(f.relapses.P90), "the p90 of the time to a relapse: nine in ten come before 100% counts as recovered")
	}

	if f.failures.Count < MinPoints {
		not("breaker.failure_rate", fmt.Sprintf("%d points of an upstream, %d are needed", f.failures.Count, MinPoints))
	} else {
		rate, n := breakerOf(f.failures.P99, f.past)
		is("breaker.failure_rate", number(rate), "half way from the p99 of the worst upstream's failures, "+number(round(f.failures.P99))+", to all of them")
		if n == 0 {
			not("breaker.min_samples", "at that usual failure rate no number of attempts tells chance from an outage")
		} else {
			why := "the least with which the usual failures open it by chance at most once in " + promql.Span(f.past.Round(time.Hour))
			if in := f.pace * breakerWindow.Seconds(); float64(n) > in {
				why += fmt.Sprintf("; its usual traffic is %.1f attempts in %s, so breaker.window would have to be longer", in, promql.Span(breakerWindow))
			}
			is("breaker.min_samples", fmt.Sprint(n), why)
		}
	}

	for _, d := range []struct {
		key, of string
		Distribution
	}{
		{"deadline.first_output", "first outputs", f.firstOutput},
		{"deadline.unary", "durations of all requests, streams included: the metric does not tell them apart", f.duration},
	} {
		switch {
		case d.Count < MinObserved:
			not(d.key, fmt.Sprintf("%d observations, %d are needed", d.Count, MinObserved))
		case math.IsInf(d.P99, 1):
			not(d.key, "the p99 lies beyond the last bound of the histogram")
		default:
			is(d.key, seconds(d.P99*1.5), "one and a half times the p99 of "+d.of)
		}
	}
	return all
}

// mostSamples is the highest breaker.min_samples that is thought of.
const mostSamples = 1000

// breakerOf is the failure rate half way from the usual one to all, and the
// least number of samples from which on so many fail by chance at most once in
// the past; 0 if that is above mostSamples.
func breakerOf(usual float64, past time.Duration) (rate float64, samples int) {
	rate = math.Round((usual+1)/2*100) / 100
	rate = min(max(rate, 0.01), 1)
	chance := 1.0
	if windows := float64(past) / float64(breakerWindow); windows > 1 {
		chance = 1 / windows
	}
	// Chance does not fall with each sample more: so many must fail in whole ones.
	n := mostSamples
	for n > 0 && tail(n, int(math.Ceil(rate*float64(n)-1e-9)), usual) <= chance {
		n--
	}
	if n == mostSamples {
		return rate, 0
	}
	return rate, n + 1
}

// tail is the probability of k or more of n, each with probability p.
func tail(n, k int, p float64) float64 {
	switch {
	case k <= 0:
		return 1
	case p <= 0:
		return 0
	case p >= 1:
		return 1
	}
	whole, _ := math.Lgamma(float64(n + 1))
	sum := 0.0
	for i := k; i <= n; i++ {
		a, _ := math.Lgamma(float64(i + 1))
		b, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(whole - a - b + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return min(sum, 1)
}

// Note is what was measured, as lines of text.
func (m *Measured) Note() []string {
	n := []string{
		"",
		fmt.Sprintf("Measured from %s to %s, a point every %s.", stamp(m.Start), stamp(m.End), promql.Span(Step)),
		"Percentiles are by nearest rank: the least measured value that so many do not exceed; of a histogram the bound of its bucket.",
		"A threshold that was not given is the p99, rounded up to two digits. Fewer than " + fmt.Sprint(MinPoints) + " points give none, nor does a p99 of 0 or of all requests.",
	}
	for _, r := range m.Remarks {
		n = append(n, "Prometheus remarks: "+r)
	}
	n = append(n,
		"",
		fmt.Sprintf("%-44s %9s %9s %9s %9s %9s %9s", "what", "count", "p50", "p90", "p99", "max", "coverage"),
	)
	for _, r := range m.Rows {
		text := func(f float64) string {
			switch {
			case r.Count == 0:
				return "none"
			case r.Seconds && !math.IsInf(f, 0):
				return seconds(f)
			}
			return number(round(f))
		}
		coverage := ""
		if !math.IsNaN(r.Coverage) {
			coverage = fmt.Sprintf("%.1f%%", math.Floor(r.Coverage*1000)/10)
		}
		n = append(n, strings.TrimRight(fmt.Sprintf("%-44s %9d %9s %9s %9s %9s %9s", r.What, r.Count, text(r.P50), text(r.P90), text(r.P99), text(r.Max), coverage), " "))
	}
	n = append(n, "", "What follows from it for failback.yaml:", "")
	section := ""
	for _, p := range m.Proposals {
		s, key, _ := strings.Cut(p.Key, ".")
		if s != section {
			section = s
			n = append(n, s+":")
		}
		if p.Value == "" {
			n = append(n, "  # "+key+": not proposed: "+p.Why)
		} else {
			n = append(n, "  "+key+": "+p.Value+"  # "+p.Why)
		}
	}
	return append(n, "")
}

// seconds is a time in seconds as the configuration writes it, rounded up to
// two digits below ten seconds and to whole ones above.
func seconds(f float64) string {
	if f < 10 {
		f = roundUp(f, 2)
	} else {
		f = math.Ceil(f - 1e-9)
	}
	return time.Duration(math.Round(f * float64(time.Second))).String()
}

// round leaves three digits.
func round(f float64) float64 {
	if f == 0 || math.IsInf(f, 0) || math.IsNaN(f) {
		return f
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(f))))
	return math.Round(f*scale) / scale
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
