// Package metrics owns the gateway's own Prometheus: a TSDB and the PromQL
// engine as libraries, fed by scraping the process's registry without a
// network, and the few handlers of Prometheus's HTTP API by which the console,
// Grafana or promtool ask it.
//
// It never scrapes anything else, never evaluates rules or alerts, and never
// stops the gateway: a damaged store is set aside and a full disk is said and
// retried at the next scrape. It knows nothing of the metrics' meaning.
package metrics
