//go:build race

package router

// seasonPart: the race detector makes everything ten times as slow.
const seasonPart = 10
