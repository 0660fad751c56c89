package store

import (
	"errors"
	"fmt"
)

// ErrNotFound says that a bucket has no value for a key.
var ErrNotFound = errors.New("store: no such key")

// ErrClosed says that the store was closed.
var ErrClosed = errors.New("store: closed")

// A ConflictError says that a value was not written because it was not based on
// the newest revision, or that a key exists that was to be created. Nothing
// changed.
type ConflictError struct {
	Bucket, Key string
	// Revision is the one the write was based on, 0 for a key to be created.
	Revision uint64
}

func (e *ConflictError) Error() string {
	if e.Revision == 0 {
		return fmt.Sprintf("store: bucket %s: key %q exists already", e.Bucket, e.Key)
	}
	return fmt.Sprintf("store: bucket %s: key %q changed since revision %d: read it again", e.Bucket, e.Key, e.Revision)
}

// A VersionError says that a newer program wrote a value.
type VersionError struct {
	Where       string // bucket and key, or stream and sequence
	Sequence    uint64 // in the stream, or the revision in the bucket
	Have, Known int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("store: %s has version %d, this program knows %d: start the newer program", e.Where, e.Have, e.Known)
}

// A DecodeError says that a stored value cannot be read.
type DecodeError struct {
	Where    string // bucket and key, or stream and sequence
	Sequence uint64 // in the stream, or the revision in the bucket
	Err      error
}

func (e *DecodeError) Error() string { return fmt.Sprintf("store: %s: %v", e.Where, e.Err) }

func (e *DecodeError) Unwrap() error { return e.Err }

// A FullError says that a bucket or stream reached its own limit, or that a
// value is larger than one may be. The disk may have room.
type FullError struct {
	Where string
	Err   error
}

func (e *FullError) Error() string { return fmt.Sprintf("store: %s: %v", e.Where, e.Err) }

func (e *FullError) Unwrap() error { return e.Err }

// An UnavailableError says that the store did not answer or cannot write.
type UnavailableError struct {
	Where string
	// Unknown says that a write was sent and may have happened.
	Unknown bool
	Err     error
}

func (e *UnavailableError) Error() string {
	s := fmt.Sprintf("store: %s: %v", e.Where, e.Err)
	if e.Unknown {
		s += " (it may have been written)"
	}
	return s
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// A DamagedError says that the directory holds something that cannot be read.
type DamagedError struct {
	Dir, Detail string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("store %s is damaged: %s: restore the directory from a copy, or move it away to start with nothing", e.Dir, e.Detail)
}
