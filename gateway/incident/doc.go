// Package incident keeps the record of an outage: its timeline, its milestones,
// what it did to requests, and what was answered when it was closed. It never
// acts on traffic, asks no clock and does no I/O: times are passed in, and whoever
// uses it stores the records.
//
// A record changes by ops alone. Each has an identity, and a record knows the last
// one it took of each writer: what was written without anybody knowing is not
// taken twice, and several gateways that share a store take turns with one record
// and lose nothing of each other's.
package incident
