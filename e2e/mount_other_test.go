//go:build !linux

package e2e

import "errors"

func mount(_, _ string) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }
