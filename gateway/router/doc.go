// Package router owns the only loop of the gateway: it takes one request and
// the plan in force, asks candidates in order, one attempt at a time, within
// one deadline and one retry budget, and ends in one Decision. It gives back
// every permit and every reservation on every path.
//
// It decides nothing that package policy can decide, judges no bytes (wire
// does), speaks to no upstream itself (package upstream does), and renders
// nothing: not the client's errors, not log lines, not metrics.
package router
