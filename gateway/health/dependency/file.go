package dependency

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"failback/gateway/internal/outbound"
)

// stats asks the system about one file. On a mount whose server is gone the
// call does not come back and cannot be ended; so one that is still out is
// waited for and never joined by a second.
type stats struct {
	out chan stat // of the call that is out, nil if there is none
}

type stat struct {
	info fs.FileInfo
	err  error
}

func (s *stats) check(ctx context.Context, path string, maxAge time.Duration, now time.Time) finding {
	if s.out == nil {
		out := make(chan stat, 1)
		s.out = out
		go func() {
			info, err := os.Stat(path)
			out <- stat{info, err}
		}()
	}
	select {
	case <-ctx.Done():
		return failed(ctx.Err())
	case got := <-s.out:
		s.out = nil
		if got.err != nil {
			return finding{err: errors.New(outbound.Cause(got.err))}
		}
		return ageOf(now.Sub(got.info.ModTime()), maxAge)
	}
}

// ageOf judges a file by how long ago it was written. One that was written in
// the future, by a clock that goes ahead, is new.
func ageOf(age, maxAge time.Duration) finding {
	said := "written " + ago(age)
	if maxAge > 0 && age > maxAge {
		return finding{err: fmt.Errorf("%s, at most %s are allowed", said, length(maxAge))}
	}
	return finding{note: said}
}

func ago(age time.Duration) string {
	if age < time.Second {
		return "just now"
	}
	return length(age) + " ago"
}

// length is a duration with one unit.
func length(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
