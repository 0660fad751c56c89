// Package jobs owns the heartbeats of what the gateway does by itself and over
// again: when each job last succeeded and whether it should have since. It never
// runs a job, and it judges none by anything but its silence.
//
// Pinger carries that further, to a dead man's switch outside: it calls only
// while every job is in time, so that its own silence is the alarm, also that
// of a gateway which is gone.
package jobs
