package text

import (
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
)

// StatusReport is what `failback status --json` prints: the gateway's state, and
// beside it what is known of the fallback ratio.
type StatusReport struct {
	*api.State
	Fallback Fallback `json:"fallback"`
	// Changes, newest first, tell how long a bucket is not closed; nil where they
	// are not known.
	Changes []api.Event `json:"-"`
}

// Fallback is the fallback ratio as Prometheus knows it, as three facts: the
// ratio alone cannot tell a zero from nothing.
type Fallback struct {
	Window string `json:"window"` // of the rates, as in "5m"
	Ratio  Fact   `json:"ratio"`  // 0 to 1
	// Traffic is requests a second.
	Traffic Fact `json:"traffic"`
	// Series says whether there are counters to take it from.
	Series Series `json:"series"`
	// Limit (0 to 1) is nil where none is configured; OverLimit is nil where there
	// is none, or no ratio to compare.
	Limit     *float64 `json:"limit,omitempty"`
	OverLimit *bool    `json:"over_limit,omitempty"`
	// Prometheus is where it was asked for; empty: the gateway's own.
	Prometheus string `json:"prometheus,omitempty"`
	// Error is why Prometheus gave no answer, empty if it did.
	Error string `json:"error,omitempty"`
	// Warnings, if any, say what of the answer is not whole.
	Warnings []string `json:"warnings,omitempty"`
	// Notes, if any, say more of a whole answer.
	Notes []string `json:"notes,omitempty"`
	// ClockSkewSeconds is how far Prometheus's clock is ahead of this host's.
	ClockSkewSeconds float64 `json:"clock_skew_seconds,omitempty"`
}

// Fact is a number in one of six states: value, ageing, unknown, none, idle,
// waiting.
type Fact struct {
	State string   `json:"state"`
	Value *float64 `json:"value,omitempty"` // of value and ageing
	// At is when the sample was taken, by Prometheus's clock; AgeSeconds is how
	// old it was when it was asked for.
	At         time.Time `json:"at,omitzero"`
	AgeSeconds *float64  `json:"age_seconds,omitempty"`
	Why        string    `json:"why,omitempty"` // it is no value
}

// Series says whether there are series.
type Series string

const (
	SeriesPresent Series = "present"
	SeriesAbsent  Series = "absent"
	SeriesUnknown Series = "unknown"
)

// Status writes r as `failback status` prints it.
func (r *StatusReport) Status() string { return status(r.State, &r.Fallback, r.Changes) }

// write writes a fact with its age where that says something, and why it is no
// value.
func (f *Fact) write(format func(float64) string) string {
	var s string
	switch {
	case f.State == "unknown":
		s = "??"
	case f.Value != nil:
		s = format(*f.Value)
	default:
		s = Visible(f.State)
	}
	if f.State == "ageing" && f.AgeSeconds != nil {
		s += " (" + Age(time.Duration(*f.AgeSeconds*float64(time.Second))) + " old)"
	}
	if f.Why != "" {
		s += " (" + Visible(f.Why) + ")"
	}
	return s
}

// lines are what status prints of it.
func (f *Fallback) lines() string {
	var b strings.Builder
	line := func(label, s string) { paragraph(&b, 0, label, s) }
	from := "the gateway's own Prometheus"
	if f.Prometheus != "" {
		from = Visible(f.Prometheus)
	}
	if f.Error != "" {
		line("ratio", "?? over "+f.Window+", no answer from "+from+": "+Visible(f.Error))
	} else {
		line("ratio", f.Ratio.write(Percent)+" over "+f.Window+f.limit()+", from "+from)
		line("traffic", f.Traffic.write(func(v float64) string { return Rate(v) + " req/s over " + f.Window }))
		line("series", string(f.Series))
	}
	switch {
	case f.Limit == nil:
		line("limit", "none is set")
	default:
		line("limit", RatioPercent(*f.Limit))
	}
	for _, w := range f.Warnings {
		line("partial", Visible(w))
	}
	for _, n := range f.Notes {
		line("note", Visible(n))
	}
	if skew := time.Duration(f.ClockSkewSeconds * float64(time.Second)); skew != 0 {
		way := " ahead of"
		if skew < 0 {
			way = " behind"
		}
		line("clock", "Prometheus's is "+Age(skew.Abs())+way+" this host's")
	}
	return b.String()
}

func (f *Fallback) limit() string {
	switch {
	case f.OverLimit == nil || f.Limit == nil:
		return ""
	case *f.OverLimit:
		return ", over limit " + RatioPercent(*f.Limit)
	}
	return ", within limit " + RatioPercent(*f.Limit)
}

// RatioPercent writes a configured ratio as it was meant: 2%, 0.5%.
func RatioPercent(v float64) string { return strconv.FormatFloat(v*100, 'g', 4, 64) + "%" }
