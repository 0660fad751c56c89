// Package spans owns the traces: it renders a finished Decision as OpenTelemetry
// spans and hands them to a collector by OTLP.
//
// It never makes a request wait, never decides what is traced (Decision.Sampled
// does), and puts no prompt, answer, key or host into a span. Spans for which
// the collector has no ear are dropped and counted.
package spans
