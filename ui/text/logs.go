package text

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"failback/sources"
)

// logTime is how the time of a line is written.
const logTime = "2006-01-02T15:04:05.000Z"

// LogAnswer writes what a Loki answered, as `failback query` prints it: lines
// with their times, or numbers as a table. Of an answer without anything it is
// empty; LogNotes says so.
func LogAnswer(a *sources.LogAnswer) string {
	var b strings.Builder
	for _, r := range a.Rows {
		line, _ := LogLine(r.Line)
		b.WriteString(r.Time().Format(logTime) + "  " + line + "\n")
	}
	if len(a.Series) > 0 {
		b.WriteString(Table(LogTable(a)))
	}
	return b.String()
}

// LogNotes says what must be known of an answer beside what is in it: that
// there is nothing, that there is more, and what is missing. Whatever is left
// out is said here.
func LogNotes(a *sources.LogAnswer) []string {
	var notes []string
	over := LogSpan(a.Query)
	searched := ""
	if a.SearchedBytes >= 0 {
		searched = "searched " + Bytes(a.SearchedBytes)
	}
	switch {
	case a.Empty() && searched != "":
		notes = append(notes, "none in "+over+" ("+searched+")")
	case a.Empty():
		notes = append(notes, "none in "+over)
	case a.CutOff:
		end := "newest"
		if a.Query.Forward {
			end = "oldest"
		}
		notes = append(notes, "first "+strconv.Itoa(len(a.Rows))+" only, the "+end+": there are more in "+over)
	}
	if s := between(a.Query); s != "" {
		notes = append(notes, s)
	}
	if a.Unparsed > 0 {
		notes = append(notes, Counted(a.Unparsed, "line")+" not parsed and not in it")
	}
	for _, w := range a.Warnings {
		notes = append(notes, "partial: "+Visible(w))
	}
	return notes
}

// LogSpan writes how far a query looks back: 15m, 6h, 90s.
func LogSpan(q sources.LogQuery) string { return Span(q.End.Sub(q.Start)) }

// Span writes a span of time that somebody chose, exactly: 15m, 1h30m, 24h, 7d.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	d = d.Round(time.Second)
	switch {
	case d > day && d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	case d == 0:
		return "0s"
	}
	s := d.String()
	if d%time.Minute == 0 {
		s = strings.TrimSuffix(s, "0s")
	}
	if d%time.Hour == 0 {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// maxColumns is how many labels get a column of their own.
const maxColumns = 5

// LogTable returns the numbers of an answer as a table for Table: a row for each
// series, the greatest first, or for each point in the order of time that was
// asked for.
func LogTable(a *sources.LogAnswer) (header []string, rows [][]string) {
	names := labelNames(a.Series)
	apart := len(names) <= maxColumns
	times := a.Kind == sources.LogMatrix
	if times {
		header = append(header, "TIME")
	}
	switch {
	case apart:
		for _, n := range names {
			header = append(header, Visible(strings.ToUpper(n)))
		}
	default:
		header = append(header, "LABELS")
	}
	header = append(header, ">VALUE")
	type point struct {
		sources.LogPoint
		series int
	}
	var points []point
	for i, s := range a.Series {
		for _, p := range s.Points {
			points = append(points, point{p, i})
		}
	}
	slices.SortStableFunc(points, func(x, y point) int {
		if times {
			if a.Query.Forward {
				return x.At.Compare(y.At)
			}
			return y.At.Compare(x.At)
		}
		return cmp.Compare(y.Value, x.Value) // NaN is less than any number
	})
	for _, p := range points {
		var row []string
		if times {
			at := p.At
			if end := a.Query.End; !end.IsZero() && at.After(end) {
				at = end // of a step that has begun: nothing is newer than the question
			}
			row = append(row, at.UTC().Format(logTime))
		}
		labels := a.Series[p.series].Labels
		if apart {
			for _, n := range names {
				row = append(row, labels[n])
			}
		} else {
			row = append(row, LogLabels(labels))
		}
		rows = append(rows, append(row, LogValue(p.Value)))
	}
	return header, rows
}

func labelNames(series []sources.LogSeries) []string {
	var names []string
	for _, s := range series {
		for n := range s.Labels {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	slices.Sort(names)
	return names
}

// LogLabels writes labels as LogQL does. It is text from outside.
func LogLabels(labels map[string]string) string {
	names := make([]string, 0, len(labels))
	for n := range labels {
		names = append(names, n)
	}
	slices.Sort(names)
	for i, n := range names {
		names[i] = n + "=" + strconv.Quote(labels[n])
	}
	return "{" + strings.Join(names, ", ") + "}"
}

// LogValue writes a number as it is.
func LogValue(v float64) string {
	if math.Abs(v) >= 1e15 || v != 0 && math.Abs(v) < 1e-6 {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Bytes writes a number of bytes: 1.2 GB.
func Bytes(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n)/1000, 0
	for v >= 999.95 && unit < len(units)-1 {
		v /= 1000
		unit++
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + units[unit:unit+1] + "B"
}

// Mark finds where in a query a parse error is: the line that is meant and the
// text before the position in it. ok is false where message names no place that
// query has.
func Mark(query, message string) (line, before string, ok bool) {
	_, rest, found := strings.Cut(message, "parse error at line ")
	if !found {
		return "", "", false
	}
	l, rest, found := strings.Cut(rest, ", col ")
	if !found {
		return "", "", false
	}
	c, _, _ := strings.Cut(rest, ":")
	n, err := strconv.Atoi(l)
	col, err2 := strconv.Atoi(c)
	lines := strings.Split(query, "\n")
	if err != nil || err2 != nil || n < 1 || n > len(lines) || col < 1 {
		return "", "", false
	}
	runes := []rune(lines[n-1])
	return lines[n-1], string(runes[:min(col-1, len(runes))]), true
}
