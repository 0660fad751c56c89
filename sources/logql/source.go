package logql

import "context"

// Source is where log lines come from. It must be safe for concurrent use.
type Source interface {
	// Select yields every entry of the streams that fulfil all s.Matchers and
	// whose time is in [s.Start, s.End): in time order, from the newest when not
	// s.Forward. Entries of equal time come in order of arrival, and in exactly
	// the reverse order backward. It stops when yield returns false, which is no
	// error, and with the context's error when the context ends.
	Select(ctx context.Context, s Selection, yield func(Entry) bool) error
}

// Partitioned is a Source that can be read in several places at once.
type Partitioned interface {
	Source
	// Partitions cuts what Select would yield into at most n sources which,
	// read one after the other with the same selection, yield the same.
	Partitions(s Selection, n int) []Source
}

// Entry is one log line.
type Entry struct {
	TS     int64  // Unix nanoseconds
	Labels Labels // of the stream
	Line   []byte // valid until yield returns, never changed by whoever reads it
}

// Selection says which entries a query needs.
type Selection struct {
	Matchers   []Matcher // of the stream's labels; an absent label is ""
	Start, End int64     // Unix nanoseconds: from Start, before End
	Forward    bool      // oldest first

	// Where and Contains are hints, always safe to ignore: a line that surely
	// fails one of them is not in the answer and may be left out.

	// Where speaks of the labels that `json` makes of a line, "" for one that is
	// absent; FieldReader says which they are, and whether that is certain. Of
	// the lines of a stream that itself has a label of the condition's name it
	// says nothing: there the name is that label, not the field.
	Where []Condition
	// Contains holds substrings of the line.
	Contains [][]byte
}
