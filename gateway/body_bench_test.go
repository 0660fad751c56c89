package gateway

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"failback/gateway/wire"
)

// BenchmarkBodyPass is all that happens to a request's body before an upstream
// is chosen: it is read whole, validated, and asked what routing must know.
func BenchmarkBodyPass(b *testing.B) {
	for _, size := range []int{1 << 10, 10 << 10, 100 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			body := []byte(`{"model":"m","max_tokens":16,"messages":[{"role":"user","content":"` + strings.Repeat("hello ", size/6) + `"}]}`)
			m := newMemory(1 << 30)
			r := bodyRequest(nil, int64(len(body)))
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r.Body = bodyRequest(bytes.NewReader(body), 0).Body
				held, err := readBody(r, 32<<20, m)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := wire.ScanRequest(wire.ChatCompletions, held.bytes); err != nil {
					b.Fatal(err)
				}
				held.free(m)
			}
		})
	}
}
