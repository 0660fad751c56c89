package filelock

import "fmt"

// A HeldError says that another process holds the lock.
type HeldError struct {
	Path string
	PID  string // what the holder wrote of itself; "unknown" if nothing
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is locked by another process (%s)", e.Path, e.PID)
}
