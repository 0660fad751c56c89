// Package evidence owns what speaks for and against a step of a failback: it
// counts an upstream's own requests (Window), remembers what is usual for it
// (History, Baseline) and gives the verdict pass, fail or no data (Judge).
//
// It never changes a share, never sends a request or a probe, and reads no
// clock: time passed is given to it. It takes nobody's word for a pass: what
// was not measured is no data.
package evidence
