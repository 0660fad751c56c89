package promql

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Query writes PromQL with the label matchers of a configured selector, and
// rates over one window.
type Query struct {
	matchers string
	window   time.Duration
}

// New returns the writer for the series that selector (label matchers, empty:
// all) selects, with rates over window.
func New(selector string, window time.Duration) Query {
	return Query{Matchers(selector), window}
}

// Matchers are the label matchers of a configured selector, which may stand in
// braces and end with a comma.
func Matchers(selector string) string {
	s := strings.TrimSpace(selector)
	s = strings.TrimSuffix(strings.TrimPrefix(s, "{"), "}")
	return strings.Trim(s, " \t,")
}

// Window is what rates are taken over.
func (q Query) Window() time.Duration { return q.window }

// Selects reports whether there is any matcher.
func (q Query) Selects() bool { return q.matchers != "" }

// Series selects the series of a metric, with more matchers.
func (q Query) Series(metric string, more ...string) string {
	if q.Selects() {
		more = append([]string{q.matchers}, more...)
	}
	if len(more) == 0 {
		return metric
	}
	return metric + "{" + strings.Join(more, ",") + "}"
}

// Rate sums the rate of a metric over the window, by labels unless those are
// empty.
func (q Query) Rate(by, metric string, more ...string) string {
	return q.Over("rate", q.window, by, metric, more...)
}

// RateBefore is the Rate of so long ago.
func (q Query) RateBefore(ago time.Duration, by, metric string, more ...string) string {
	return sum(by) + "(rate(" + q.Series(metric, more...) + "[" + Span(q.window) + "] offset " + Span(ago) + "))"
}

// Increase sums the increase of a metric over the window.
func (q Query) Increase(by, metric string, more ...string) string {
	return q.Over("increase", q.window, by, metric, more...)
}

// Over sums a function of a range of a metric.
func (q Query) Over(function string, over time.Duration, by, metric string, more ...string) string {
	return sum(by) + "(" + function + "(" + q.Series(metric, more...) + "[" + Span(over) + "]))"
}

// Remembered is how long before its window Grown looks for what a counter was:
// longer than scrapes are usually missing.
const Remembered = 24 * time.Hour

// Grown sums what counters grew by within a time, where that is above 0. No
// increase tells what a series begins with, nor what happened while nothing was
// scraped; so a counter also grew by
//   - what it is above its last value of before, however long that is ago;
//   - all it counts, where it was not there when its gateway was last seen before;
//   - all it counts, where its gateway started within that time, or since it was
//     last seen before.
//
// Of a gateway that started before and that was not seen within Remembered
// nobody knows when it counted: that is no growth.
func (q Query) Grown(over time.Duration, by, metric string, more ...string) string {
	x, start, of := q.Series(metric, more...), q.Series(StartTime), Span(over)
	before := func(series string) string {
		return "last_over_time(" + series + "[" + Span(Remembered) + "] offset " + of + ")"
	}
	const here = " and on (job, instance) "
	return sum(by) + "(" + strings.Join([]string{
		"(increase(" + x + "[" + of + "]) > 0)",
		"(" + x + " - " + before(x) + " > 0)",
		"((" + x + " > 0 unless " + before(x) + ")" + here + before(start) + ")",
		"(" + x + " > 0" + here + "(" + start + " > time() - " + strconv.FormatFloat(over.Seconds(), 'f', -1, 64) + " or " + start + " != " + before(start) + "))",
	}, " or ") + ") > 0"
}

func sum(by string) string {
	if by == "" {
		return "sum"
	}
	return "sum by (" + by + ") "
}

// Span is a duration as PromQL writes it.
func Span(d time.Duration) string { return model.Duration(d).String() }
