//go:build !unix

package store

import "strings"

func isDiskFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), "not enough space")
}
