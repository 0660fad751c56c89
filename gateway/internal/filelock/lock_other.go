//go:build !unix

package filelock

import "os"

// Lock returns nil: nothing is locked on this platform.
func Lock(string) (*os.File, error) { return nil, nil }
