package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

func bodyRequest(body io.Reader, length int64) *http.Request {
	return &http.Request{Body: io.NopCloser(body), ContentLength: length}
}

func newMemory(limit int64) *memory {
	m := &memory{}
	m.limit.Store(limit)
	return m
}

func TestReadBody(t *testing.T) {
	const limit = 2 << 20
	for _, size := range []int{0, 1, firstBlock - 1, firstBlock, firstBlock + 1, 1 << 20, limit - 1, limit} {
		want := bytes.Repeat([]byte("x"), size)
		for _, length := range []int64{int64(size), -1} {
			m := newMemory(4 * limit)
			got, err := readBody(bodyRequest(iotest.HalfReader(bytes.NewReader(want)), length), limit, m)
			if err != nil || !bytes.Equal(got.bytes, want) {
				t.Errorf("%d bytes, announced %d: %d bytes, %v", size, length, len(got.bytes), err)
			}
			if n := m.used.Load(); n < int64(size) || length > 0 && n > length {
				t.Errorf("%d bytes, announced %d: %d accounted", size, length, n)
			}
			got.free(m)
			if n := m.used.Load(); n != 0 {
				t.Errorf("%d bytes, announced %d: %d were not given back", size, length, n)
			}
		}
	}
}

func TestReadBodyRefuses(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name   string
		r      *http.Request
		memory int64
		want   error
	}{
		{"announced too large", bodyRequest(strings.NewReader(""), 1001), 1 << 20, errTooLarge},
		{"too large without saying so", bodyRequest(strings.NewReader(strings.Repeat("x", 1001)), -1), 1 << 20, errTooLarge},
		{"no room", bodyRequest(strings.NewReader("xxxx"), 900), 100, errNoMemory},
		{"breaks off", bodyRequest(io.MultiReader(strings.NewReader("xx"), iotest.ErrReader(broken)), 900), 1 << 20, broken},
	} {
		m := newMemory(c.memory)
		body, err := readBody(c.r, 1000, m)
		if !errors.Is(err, c.want) || body.bytes != nil || body.block != nil {
			t.Errorf("%s: %v, %d bytes", c.name, err, len(body.bytes))
		}
		if n := m.used.Load(); n != 0 {
			t.Errorf("%s: %d bytes were not given back", c.name, n)
		}
	}
}

// A client that only says it will send much holds little.
func TestAnAnnouncementHoldsNoMemory(t *testing.T) {
	m := newMemory(1 << 30)
	r, w := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := readBody(bodyRequest(r, 32<<20), 32<<20, m)
		done <- err
	}()
	if _, err := w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n := m.used.Load(); n > firstBlock {
		t.Errorf("%d bytes are held for one", n)
	}
	_ = w.CloseWithError(io.ErrUnexpectedEOF)
	if err := <-done; err == nil {
		t.Error("half a body was taken for a whole one")
	}
}
