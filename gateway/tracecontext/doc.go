// Package tracecontext owns the two headers of W3C Trace Context: it reads what
// a client sent and writes what an upstream is told.
//
// It never decides whether a request is traced, and never keeps anything.
package tracecontext
