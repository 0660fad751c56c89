//go:build !failback_testkeys

package sources

func mayPanic() {}
