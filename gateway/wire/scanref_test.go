package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// What is read eight bytes at a time must come out as it does byte by byte.

func plainByByte(data []byte, i int) int {
	for ; i < len(data); i++ {
		if c := data[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// numberByByte follows the grammar: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
// It returns where the number ends, or where it is at fault.
func numberByByte(data []byte, i int) (at int, fault string) {
	digits := func() bool {
		start := i
		for i < len(data) && '0' <= data[i] && data[i] <= '9' {
			i++
		}
		return i > start
	}
	is := func(set string) bool { return i < len(data) && strings.IndexByte(set, data[i]) >= 0 }
	if is("-") {
		i++
	}
	if is("0") {
		i++
	} else if !digits() {
		return i, "expected a value"
	}
	if is(".") {
		i++
		if !digits() {
			return i, "expected a digit in a number"
		}
	}
	if is("eE") {
		i++
		if is("+-") {
			i++
		}
		if !digits() {
			return i, "expected a digit in a number"
		}
	}
	return i, ""
}

func hashByWord(h textHash, b []byte) textHash {
	x := uint64(h) ^ uint64(len(b))*0x9e3779b97f4a7c15
	for ; len(b) >= 8; b = b[8:] {
		x = fold(x^binary.LittleEndian.Uint64(b), 0x9e3779b97f4a7c15)
	}
	var tail [8]byte
	copy(tail[:], b)
	return textHash(fold(x^binary.LittleEndian.Uint64(tail[:]), 0xd6e8feb86659fd93))
}

func checkScan(t *testing.T, data []byte) {
	t.Helper()
	for i := range len(data) + 1 {
		if got, want := plain(data, i), plainByByte(data, i); got != want {
			t.Fatalf("%q from %d: stops at %d, not at %d", data, i, got, want)
		}
		s := scanner{data: data, pos: i}
		ok := s.number()
		at, fault := numberByByte(data, i)
		if at >= len(data) && fault != "" {
			fault = "unexpected end"
		}
		if !ok {
			s.pos = s.at
		}
		if s.fault != fault || s.pos != at {
			t.Fatalf("%q from %d: number ends at %d, %q; want %d, %q", data, i, s.pos, s.fault, at, fault)
		}
	}

	quoted := append(append([]byte{'"'}, data...), '"', ' ')
	plainly := scanner{data: quoted}
	tok, ok := plainly.str()
	want := textHash(7)
	if ok {
		want = hashByWord(want, quoted[tok.start:tok.end])
	}
	h := textHash(7)
	q := request{scanner: scanner{data: quoted}}
	q.words(&h)
	if q.fault != plainly.fault || q.at != plainly.at || q.cut != plainly.cut || q.pos != plainly.pos || ok && h != want {
		t.Fatalf("%q: %q at %d, pos %d, hash %x; want %q at %d, pos %d, hash %x",
			quoted, q.fault, q.at, q.pos, h, plainly.fault, plainly.at, plainly.pos, want)
	}
	if got := textHash(7).text(data); got != hashByWord(7, data) {
		t.Fatalf("%q hashes to %x", data, got)
	}
}

var scanSeeds = []string{
	"", "a", "-0.5e+10,", "01", "1.", "-", "1e", "1E-", "0e0", "12345678901234567890.5]",
	strings.Repeat("hello ", 40), strings.Repeat(`say \"no\" \\ `, 20), strings.Repeat("\u00e9\u20ac\U0001f600", 20),
	strings.Repeat("x", 70) + "\n" + strings.Repeat("y", 70), strings.Repeat("x", 95) + `\u12`, strings.Repeat(`\u00e9`, 40),
	strings.Repeat("x", 63) + `\`, strings.Repeat("x", 80) + `\\\`, strings.Repeat("!#[]\x7f\x80\xff", 20), strings.Repeat("x", 40) + `"` + strings.Repeat("x", 40),
}

func TestScansAsByByte(t *testing.T) {
	for _, s := range scanSeeds {
		checkScan(t, []byte(s))
	}
	// Every byte at every place of a long text.
	for at := range 72 {
		for c := range 256 {
			data := bytes.Repeat([]byte{'a'}, 80)
			data[at] = byte(c)
			checkScan(t, data)
			data[at+1], data[at+2] = 0x1f, '"' // a borrow must hide nothing
			if got, want := plain(data, 0), plainByByte(data, 0); got != want {
				t.Fatalf("%q: stops at %d, not at %d", data, got, want)
			}
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 2000 {
			checkScan(t, data)
		}
	})
}

func BenchmarkSkip(b *testing.B) {
	for _, shape := range []string{"turns", "prose", "image", "tokens"} {
		body := benchBody(shape, 1<<20)
		b.Run(fmt.Sprintf("%s/%dKB", shape, len(body)>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if s := (scanner{data: body}); !s.skip() || !s.end() {
					b.Fatal(s.fault)
				}
			}
		})
	}
}
