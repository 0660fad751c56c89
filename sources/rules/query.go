package rules

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"failback/sources"
	"failback/sources/promql"
)

// query writes what only rules and dashboard ask.
type query struct{ promql.Query }

// newQuery refuses a selector that is no label matchers, and a scrape interval
// that is none.
func newQuery(selector string, every time.Duration) (query, error) {
	if every <= 0 {
		return query{}, errors.New("how often the gateway is scraped is not known: set sources.every")
	}
	if s := promql.Matchers(selector); s != "" {
		if _, err := parser.NewParser(parser.Options{}).ParseMetricSelector("{" + s + "}"); err != nil {
			return query{}, fmt.Errorf("sources.prometheus.selector: %q is no label matchers: %w", selector, err)
		}
	}
	return query{promql.New(selector, sources.Window(every))}, nil
}

// part is what part of the requests a rate is; empty without requests.
func (q query) part(of string) string {
	return of + " / (" + q.Rate("", promql.RequestsTotal) + " > 0)"
}

// quantile is a quantile of a histogram, by labels unless those are empty.
func (q query) quantile(p float64, by, metric string) string {
	labels := "le"
	if by != "" {
		labels += ", " + by
	}
	return "histogram_quantile(" + number(p) + ", " + q.Rate(labels, metric+"_bucket") + ")"
}

// number is f as PromQL and YAML write it.
func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
