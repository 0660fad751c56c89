package logs

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	defaultMaxBytes = 1 << 30
	defaultMaxAge   = 7 * 24 * time.Hour
	minBytes        = 1 << 20

	// A store has about segments segments when it is full: dropping the oldest
	// then forgets a small part of it.
	segments       = 32
	maxSegmentSize = 256 << 20
	minSegmentSize = 64 << 10

	// maxFields is how many fields an index may have.
	maxFields = 32
)

// Options say where a store is and how much it keeps.
type Options struct {
	// Dir is the store's own directory; it is made if it does not exist.
	Dir string
	// Labels are those of the stream that lines written from now on belong to.
	Labels map[string]string
	// MaxBytes bounds all files together; 0 means 1 GiB. The oldest lines go
	// first. Less than 1 MiB is refused.
	MaxBytes int64
	// MaxAge is how old lines may get; 0 means 7 days.
	MaxAge time.Duration
	// Indexed are the fields at the top of a line whose values the index holds;
	// nil means Fields.
	Indexed []string
	// Log gets a sentence for the operator when something breaks and when it
	// works again; nil means nobody. It is called from the store's goroutines
	// and must not block.
	Log func(string)
	// Lacks says what is known of lines between start and end that never got
	// here; it goes with the answers as a warning, unless it is empty. nil means
	// that nothing is known. It is called from several goroutines.
	Lacks func(start, end time.Time) string

	// files makes the segments' files; nil means the disk.
	files func(name string) (file, error)
}

// Fields are the fields of a decision line by which the canned queries choose.
var Fields = []string{
	"event", "route", "fallback_triggered", "workflow_status", "reason",
	"task_type", "model", "primary_provider", "selected_provider", "failed_provider",
}

// complete returns o with its defaults, or says what is wrong with it.
func (o Options) complete() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("embedded log: no directory given")
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxBytes < minBytes {
		return o, fmt.Errorf("embedded log: %d bytes are too few: give at least %d", o.MaxBytes, minBytes)
	}
	if o.MaxAge == 0 {
		o.MaxAge = defaultMaxAge
	}
	if o.MaxAge < 0 {
		return o, fmt.Errorf("embedded log: an age of %v keeps nothing: give a positive one", o.MaxAge)
	}
	if o.Indexed == nil {
		o.Indexed = Fields
	}
	if len(o.Indexed) > maxFields {
		return o, fmt.Errorf("embedded log: %d fields to index: at most %d are possible", len(o.Indexed), maxFields)
	}
	o.Indexed = slices.Clone(o.Indexed)
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.files == nil {
		o.files = openFile
	}
	return o, nil
}

// segmentSize is at which size a segment is closed.
func (o Options) segmentSize() int64 {
	return min(max(o.MaxBytes/segments, minSegmentSize), maxSegmentSize)
}
