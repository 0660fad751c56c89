// Package telemetry owns the renderings of a decision: the metrics, the lines of
// the decision log, and the sliding windows behind the operator's live figures.
// One Decision goes into all of them, so they cannot tell different stories.
//
// It never decides anything about a request and never keeps one waiting: what a
// sink cannot take is dropped and counted. It never shows a prompt, an answer,
// a key or a user, and text that a client chose never becomes a label.
package telemetry
