// Package logs owns the decision log that the gateway keeps for its own
// console when there is no Loki: a bounded directory of lines with an index by
// time and by the labels that questions name, and Loki's HTTP API over it.
//
// It never keeps whoever writes a line waiting, never grows beyond its bounds,
// and never evaluates a query itself: that is sources/logql.
package logs
