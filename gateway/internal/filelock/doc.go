// Package filelock owns the locks that keep two processes from one directory.
// It never waits for a lock, and knows nothing of what is in the directory.
package filelock
