//go:build !unix

package e2e

import (
	"errors"
	"testing"
)

func deafListener(*testing.T) (string, error) { return "", errors.ErrUnsupported }
