package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"failback/sources"
)

// parseSpan reads a duration: Go's, or with days and weeks.
func parseSpan(s string) (time.Duration, error) { return sources.ParseSpan(s) }

// parseStep reads a duration, or seconds.
func parseStep(s string) (time.Duration, error) {
	d, err := parseSpan(s)
	if err != nil {
		seconds, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || !(seconds < 1e9) {
			return 0, fmt.Errorf("%q is no duration, as 1m, and no seconds", s)
		}
		d = time.Duration(seconds * float64(time.Second))
	}
	if d < time.Millisecond {
		return 0, fmt.Errorf("%q is less than a millisecond", s)
	}
	return d, nil
}

// moment is what the flag of that name says; how a time without a zone was
// understood is told.
func moment(name string, w sources.When, now time.Time, tell io.Writer) time.Time {
	t, note, _ := w.Time(now)
	if note != "" {
		fmt.Fprintf(tell, "failback: --%s: %s\n", name, note)
	}
	return t
}
