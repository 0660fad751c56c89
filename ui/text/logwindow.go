package text

import (
	"regexp"
	"strconv"
	"time"

	"failback/sources"
)

var (
	quoted     = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")
	windowForm = regexp.MustCompile(`\[\s*([0-9][0-9a-z.µ]*)\s*\]`)
	spanForm   = regexp.MustCompile(`([0-9]+)(w|d|y)`)
)

// LogWindow is the narrowest window that a query of numbers counts over, as
// [5m] in it; 0 if it has none.
func LogWindow(query string) time.Duration {
	var narrow time.Duration
	for _, f := range windowForm.FindAllStringSubmatch(quoted.ReplaceAllString(query, `""`), -1) {
		if w := logSpan(f[1]); w > 0 && (narrow == 0 || w < narrow) {
			narrow = w
		}
	}
	return narrow
}

// logSpan reads a duration as LogQL writes it, 0 of what is none.
func logSpan(s string) time.Duration {
	var days time.Duration
	s = spanForm.ReplaceAllStringFunc(s, func(p string) string {
		n, err := strconv.Atoi(p[:len(p)-1])
		if err != nil || n > 10_000 {
			return "?"
		}
		days += time.Duration(n) * map[byte]time.Duration{'d': 24 * time.Hour, 'w': 7 * 24 * time.Hour, 'y': 365 * 24 * time.Hour}[p[len(p)-1]]
		return ""
	})
	if s == "" {
		return days
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0
	}
	return days + d
}

// LogShape says what a query is asked for as: lines or numbers, in which order
// or of which time.
func LogShape(q sources.LogQuery) string {
	end := "newest first"
	if q.Forward {
		end = "oldest first"
	}
	switch w := LogWindow(q.Query); {
	case q.Instant && w == 0:
		return "one number at its end"
	case q.Instant && (w-q.End.Sub(q.Start)).Abs() < time.Second:
		return "one number for all of it"
	case q.Instant:
		return "one number, of its last " + Span(w) + " alone"
	case q.Step > 0:
		return "a number every " + Span(q.Step) + ", " + end
	}
	return end + ", limit " + strconv.Itoa(q.Limit)
}

// between says of an answer with points further apart than the query looks back
// that not all is in it; empty if all is.
func between(q sources.LogQuery) string {
	w := LogWindow(q.Query)
	if q.Instant || w == 0 || q.Step <= w {
		return ""
	}
	return "a number every " + Span(q.Step) + " looks back " + Span(w) + ": what lies between is in none of them"
}

// LogWayOn is the command that answers a query from the decision log itself
// where no Loki does, and what it reads; empty if the gateway writes its lines
// nowhere one can read. name is empty for a query of one's own.
func LogWayOn(name, target string) (says, command string) {
	command = "failback query " + name
	if name == "" {
		command = "failback query --logql '...'"
	}
	switch target {
	case "", "off", "none":
		return "", ""
	case "stdout":
		return "without it: the gateway writes the lines to its standard output, and where they are collected in a file", command + " --file FILE"
	}
	return "without it: the lines are in a file on the gateway's host, and there", command + " --file " + Visible(target)
}
