package runbooks

import (
	"embed"
	"sync"
)

//go:embed *.md
var files embed.FS

// Embedded returns the runbooks of this program. They are shared: callers
// change nothing of them.
func Embedded() ([]Runbook, error) { return embedded() }

var embedded = sync.OnceValues(func() ([]Runbook, error) { return Load(files) })
