// Package gateway owns the gateway as a process: it builds the rooms below it
// from one configuration, serves clients, and starts, reloads, drains and
// stops the whole. It is the one place where rooms that do not know each other
// are wired together: probes and attempts become facts, packages health and
// evidence judge them once a second, and what they wish is done to the share
// table, if nobody was faster.
//
// It makes no routing decision (package router does), judges no upstream, knows
// no wire format beyond what package wire tells it, and never touches a
// terminal.
package gateway
