package logql

import "fmt"

// ParseError says what is wrong with a query's text.
type ParseError struct {
	// Line and Column are from 1, in characters. Both are 0 for the query as a
	// whole; Line alone in an error of Loki's that does not tell it.
	Line, Column int
	Message      string // as Loki words it
	Unsupported  bool   // it is LogQL, but outside the subset
}

// Error returns the text Loki answers with.
func (e *ParseError) Error() string {
	if e.Line == 0 && e.Column == 0 {
		return "parse error : " + e.Message
	}
	return fmt.Sprintf("parse error at line %d, col %d: %s", e.Line, e.Column, e.Message)
}

// QueryError is a query that cannot be answered: it does not fit the request, or
// a line could not be read on the way to a number.
type QueryError struct {
	Status  int // HTTP status Loki answers with
	Message string
}

// Error returns the text Loki answers with.
func (e *QueryError) Error() string { return e.Message }
