package upstream

import "sync"

// bufferSize is what is read or collected at once, and the first of the sizes
// kept in pools.
const bufferSize = 32 << 10

// buffers are pools of byte slices by capacity. What is larger than the last
// is left to the garbage collector.
var (
	bufferSizes = [...]int{bufferSize, 128 << 10, 512 << 10, 2 << 20}
	buffers     [len(bufferSizes)]sync.Pool
)

// getBuffer returns an empty buffer for at least n bytes.
func getBuffer(n int) *[]byte {
	for i, size := range bufferSizes {
		if n > size {
			continue
		}
		if b, ok := buffers[i].Get().(*[]byte); ok {
			return b
		}
		b := make([]byte, 0, size)
		return &b
	}
	b := make([]byte, 0, n)
	return &b
}

// putBuffer gives a buffer of getBuffer back; nil is none.
func putBuffer(b *[]byte) {
	if b == nil {
		return
	}
	for i, size := range bufferSizes {
		if cap(*b) == size {
			*b = (*b)[:0]
			buffers[i].Put(b)
			return
		}
	}
}

// room returns b, or a larger buffer with b's content, with room for n more
// bytes; b is given back if it was replaced. nil is an empty one.
func room(b *[]byte, n int) *[]byte {
	if b == nil {
		return getBuffer(n)
	}
	if cap(*b)-len(*b) >= n {
		return b
	}
	larger := getBuffer(max(len(*b)+n, 2*cap(*b)))
	*larger = append(*larger, *b...)
	putBuffer(b)
	return larger
}
