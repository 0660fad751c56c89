// Package promql owns the questions that console, alert rules and dashboard ask
// a Prometheus about a gateway: the names of its metrics and how PromQL is
// written of them, so that all three ask the same. It never sends one.
package promql
