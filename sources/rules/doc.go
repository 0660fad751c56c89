// Package rules owns what a Prometheus and a Grafana are told about a gateway:
// alert rules, a dashboard, and the thresholds in both, given by people or
// measured from the gateway's own history. The fallback ratio in them is the
// console's.
//
// It never invents a threshold: a rule that needs one and has none is left out
// and says so. It judges no alert itself, and it asks nobody but through the
// client it is given.
package rules
