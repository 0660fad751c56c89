package gateway

import "sync/atomic"

// memory bounds the bytes of requests and answers that the gateway holds. Its
// zero value grants nothing. Safe for concurrent use.
type memory struct {
	limit atomic.Int64
	used  atomic.Int64
}

// Grow takes n bytes more, or reports false and takes none.
func (m *memory) Grow(n int) bool {
	if m.used.Add(int64(n)) > m.limit.Load() {
		m.used.Add(-int64(n))
		return false
	}
	return true
}

// Shrink gives n bytes back.
func (m *memory) Shrink(n int) { m.used.Add(-int64(n)) }
