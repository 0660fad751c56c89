//go:build !unix

package store

import (
	"os"
	"strings"
)

func lockFile(string) (*os.File, error) { return nil, nil }

func isDiskFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), "not enough space")
}
