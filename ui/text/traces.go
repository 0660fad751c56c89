package text

import (
	"strings"
	"time"

	"failback/gateway/operator/api"
)

// traces is how the export of traces is doing, "" where there is none.
func traces(t *api.Traces, now time.Time) string {
	if !t.Configured {
		return ""
	}
	line := "traces        " + Counted(t.Exported, "span") + " exported, " + Count(t.Dropped) + " dropped"
	if !t.LastOK.IsZero() {
		line += ", last taken " + Age(now.Sub(t.LastOK)) + " ago"
	}
	if t.Error != "" {
		line += "; the collector " + Age(now.Sub(t.ErrorAt)) + " ago: " + Visible(t.Error)
	}
	return line + "\n"
}

// followed says of d what decided after each attempt that was no answer, where
// that is more than its class, and which trace it is part of; "" where there is
// neither.
func followed(d *api.Decision) string {
	var steps []string
	for i := range d.Attempts {
		a := &d.Attempts[i]
		if a.Next == "" || a.Next == "answered" || a.Why == a.Class {
			continue
		}
		step := Visible(a.Provider) + " " + Visible(api.Words(a.Next)) + ": " + Visible(a.Why)
		if a.WaitMS != nil {
			step += " after " + Milliseconds(a.WaitMS)
		}
		steps = append(steps, step)
	}
	if d.TraceID != "" {
		steps = append(steps, "trace "+Visible(d.TraceID))
	}
	return strings.Join(steps, ", ")
}
