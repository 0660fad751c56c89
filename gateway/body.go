package gateway

import (
	"errors"
	"io"
	"net/http"
)

var (
	errTooLarge = errors.New("the request body is larger than max_request_bytes")
	errNoMemory = errors.New("the gateway holds as many bytes as it may (max_buffered_bytes)")
)

const (
	// firstBlock is what a body of unknown or large size begins with: what a
	// client says it will send is not yet a reason to hold memory for it.
	firstBlock = 256 << 10
	// growth is how many times as much as has come may be held for what was
	// announced, so that few bytes are copied from block to block.
	growth = 4
)

// heldBody is a request's body in memory. The zero value is none.
type heldBody struct {
	bytes []byte
	block *[]byte // what bytes is part of
	taken int     // from a memory, for it
}

// readBody reads a request's body whole, at most limit bytes. What it holds is
// taken from m; the caller gives it back by free when done.
func readBody(r *http.Request, limit int64, m *memory) (heldBody, error) {
	if r.ContentLength > limit {
		return heldBody{}, errTooLarge
	}
	size := int64(firstBlock)
	if n := r.ContentLength; n >= 0 && n < size {
		size = n
	}
	var b heldBody
	if r.ContentLength > size {
		// Memory that is there and idle need not be proven worth having.
		b.block = idleBlock(int(r.ContentLength))
	}
	err := b.grow(size, m)
	if err == nil {
		err = b.read(r, limit, m)
	}
	if err != nil {
		b.free(m)
		return heldBody{}, err
	}
	return b, nil
}

func (b *heldBody) read(r *http.Request, limit int64, m *memory) error {
	for {
		if int64(len(b.bytes)) == r.ContentLength {
			return nil
		}
		if len(b.bytes) == b.taken {
			size, err := nextSize(int64(b.taken), r.ContentLength, limit)
			if err == nil {
				err = b.grow(size, m)
			}
			if err != nil {
				return err
			}
		}
		n, err := r.Body.Read(b.bytes[len(b.bytes):b.taken])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case err == io.EOF:
			if int64(len(b.bytes)) > limit {
				return errTooLarge
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// nextSize is how much to hold of a body of which size bytes have come.
func nextSize(size, announced, limit int64) (int64, error) {
	next := 2 * size
	if announced > 0 {
		next = min(growth*size, announced)
	}
	if next = min(next, limit+1); next <= size {
		return 0, errTooLarge
	}
	return next, nil
}

// grow makes room for size bytes in all.
func (b *heldBody) grow(size int64, m *memory) error {
	if !m.Grow(int(size) - b.taken) {
		return errNoMemory
	}
	b.taken = int(size)
	if b.block != nil && cap(*b.block) >= b.taken {
		b.bytes = (*b.block)[:len(b.bytes)]
		return nil
	}
	larger := getBlock(b.taken)
	bytes := (*larger)[:len(b.bytes)]
	copy(bytes, b.bytes)
	putBlock(b.block)
	b.bytes, b.block = bytes, larger
	return nil
}

// free gives back what b holds: nobody may look at its bytes any more.
func (b *heldBody) free(m *memory) {
	m.Shrink(b.taken)
	putBlock(b.block)
	*b = heldBody{}
}
