package sources

import (
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// MinWindow is the least that a rate is taken over.
const MinWindow = 5 * time.Minute

// Window is what a rate is taken over where a sample is taken every period: at
// least four of them, in whole minutes. A rate needs two samples, and one of a
// window of two is lost to the phase of the scrapes, the other to one that
// failed.
func Window(period time.Duration) time.Duration {
	w := 4 * period
	if rest := w % time.Minute; rest > 0 {
		w += time.Minute - rest
	}
	return max(w, MinWindow)
}

// RatioQuery is the whole fallback ratio in PromQL, 0 to 1, of the series that
// selector (label matchers, empty: all) selects, over window. It is 0 where
// there is nothing to divide, also where the series are absent: whether there is
// traffic, and whether there are series, are questions of their own. It is in
// parentheses, so that a comparison binds to all of it.
func RatioQuery(selector string, window time.Duration) string {
	return "(" + newQueries(selector, window).ratio() + ")"
}

// queries writes PromQL with the configured label matchers.
type queries struct {
	selector string
	window   time.Duration
}

func newQueries(selector string, window time.Duration) queries {
	return queries{Matchers(selector), window}
}

// Matchers are the label matchers of a configured selector, which may stand in
// braces and end with a comma.
func Matchers(selector string) string {
	s := strings.TrimSpace(selector)
	s = strings.TrimSuffix(strings.TrimPrefix(s, "{"), "}")
	return strings.Trim(s, " \t,")
}

// Series is PromQL for the series of a metric that matchers select (empty: all)
// and each of more does.
func Series(matchers, metric string, more ...string) string {
	if matchers != "" {
		more = append([]string{matchers}, more...)
	}
	if len(more) == 0 {
		return metric
	}
	return metric + "{" + strings.Join(more, ",") + "}"
}

// series selects the series of a metric, with more matchers.
func (q queries) series(metric string, more ...string) string {
	return Series(q.selector, metric, more...)
}

// rate sums the rate of a metric, by a label unless that is empty. tail is put
// behind the range.
func (q queries) rate(by, metric, tail string, more ...string) string {
	sum := "sum"
	if by != "" {
		sum += " by (" + by + ") "
	}
	return sum + "(rate(" + q.series(metric, more...) + "[" + q.windowText() + "]" + tail + "))"
}

// ratio is the whole fallback ratio as the documents have it.
func (q queries) ratio() string {
	return "( " + q.rate("", fallbacksTotal, "") + " / (" + q.rate("", requestsTotal, "") + " > 0) ) or vector(0)"
}

// windowText is the window as PromQL and people write it.
func (q queries) windowText() string { return windowText(q.window) }

func windowText(window time.Duration) string { return model.Duration(window).String() }
