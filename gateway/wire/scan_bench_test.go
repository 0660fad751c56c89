package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// bodies of the shapes clients send, of about the given size.
func benchBody(shape string, size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"gpt-5-mini","stream":true,"max_tokens":1024,"messages":[{"role":"system","content":"You are brief."}`)
	for i := 0; b.Len() < size; i++ {
		room := size - b.Len()
		switch shape {
		case "turns": // a long conversation of short turns
			fmt.Fprintf(&b, `,{"role":"user","content":"Please look at item %d of the list, and say what is wrong with it.\nThanks."}`, i)
		case "prose": // one long text with escapes as in prose and code
			text, _ := json.Marshal(strings.Repeat("The first line says \"no\" and the second one nothing at all.\n\tIt goes on for quite a while.\n", room/95+1))
			fmt.Fprintf(&b, `,{"role":"user","content":%s}`, text)
		case "image": // base64, nothing to escape
			fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]}`,
				base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1, 2, 250}, room/4+1)))
		case "tokens": // numbers
			fmt.Fprintf(&b, `,{"role":"user","content":"x","ids":[%s1]}`, strings.Repeat("101, 2023, ", min(room, 1000)/11))
		}
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func BenchmarkScanRequest(b *testing.B) {
	for _, shape := range []string{"turns", "prose", "image", "tokens"} {
		for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKB", shape, size>>10), func(b *testing.B) {
				body := benchBody(shape, size)
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := ScanRequest(ChatCompletions, body); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
