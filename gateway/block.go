package gateway

import (
	"math/bits"
	"sync"
)

// Blocks are kept for reuse by size: four sizes to each doubling, so that at
// most a quarter of one lies idle. A body's memory is neither cleared nor
// collected per request; for large ones that was most of what they cost. What
// nobody asks for again is left to the garbage collector by the pools.
const (
	smallestBlock = 4 << 10
	largestBlock  = 64 << 20 // what is larger is not kept
	blockSizes    = 1 + 4*14
)

var blocks [blockSizes]sync.Pool

// blockSize returns the smallest size that holds n bytes, and its place in
// blocks; -1 if that is not kept.
func blockSize(n int) (size, place int) {
	if n <= smallestBlock {
		return smallestBlock, 0
	}
	if n > largestBlock {
		return n, -1
	}
	doubling := bits.Len(uint(n - 1)) // 2^(doubling-1) < n ≤ 2^doubling
	step := doubling - 3
	quarters := (n + 1<<step - 1) >> step // 5 to 8
	return quarters << step, (doubling-13)*4 + quarters - 4
}

// getBlock returns an empty block for at least n bytes. Its memory is not
// cleared.
func getBlock(n int) *[]byte {
	if b := idleBlock(n); b != nil {
		return b
	}
	size, _ := blockSize(n)
	b := make([]byte, 0, size)
	return &b
}

// idleBlock is getBlock for who must not make a new one; nil if none is idle.
func idleBlock(n int) *[]byte {
	_, place := blockSize(n)
	if place < 0 {
		return nil
	}
	b, _ := blocks[place].Get().(*[]byte)
	return b
}

// putBlock gives a block of getBlock back: nobody may look at its bytes any
// more. nil is none.
func putBlock(b *[]byte) {
	if b == nil {
		return
	}
	size, place := blockSize(cap(*b))
	if place < 0 || size != cap(*b) {
		return
	}
	*b = (*b)[:0]
	blocks[place].Put(b)
}
