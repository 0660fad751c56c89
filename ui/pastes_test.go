package ui

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// piece is bytes that are read a time after those before them.
type piece struct {
	after time.Duration
	bytes string
}

func pasted(pieces ...piece) string {
	var p pastes
	var out []byte
	now := time.Unix(1796000000, 0)
	for _, x := range pieces {
		now = now.Add(x.after)
		out = p.take(out, []byte(x.bytes), now)
	}
	// What opens a paste twice opens it once.
	return strings.ReplaceAll(string(out), pasteStart+pasteStart, pasteStart)
}

// What comes is the same however it is split over reads.
func TestPastesSplit(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"keys":               {"jk\x1b[A\x1b[1;5Bq", "jk\x1b[A\x1b[1;5Bq"},
		"a paste":            {"j\x1b[200~two\r\nlines\tä世😀\x1b[201~q", "j\x1b[200~two\r\nlines\tä世😀\x1b[201~q"},
		"two":                {"\x1b[200~a\x1b[201~\x1b[200~b\x1b[201~", "\x1b[200~a\x1b[201~\x1b[200~b\x1b[201~"},
		"control in it":      {"\x1b[200~a\x00\x1b[31mb\x7f\x1b]0;t\x07\u009b1mc\x1b[201~q", "\x1b[200~a[31mb]0;t1mc\x1b[201~q"},
		"an end behind esc":  {"\x1b[200~a\x1b\x1b[201~q", "\x1b[200~a\x1b[201~q"},
		"an end in half":     {"\x1b[200~a\x1b[20\x1b[201~q", "\x1b[200~a[20\x1b[201~q"},
		"a broken character": {"\x1b[200~a\xe4\xb8\x1b[201~q", "\x1b[200~a\x1b[201~q"},
		"a start in it":      {"\x1b[200~a\x1b[200~b\x1b[201~q", "\x1b[200~a[200~b\x1b[201~q"},
	} {
		t.Run(name, func(t *testing.T) {
			n := len(tc.in)
			for i := range n + 1 {
				for j := i; j <= n; j++ {
					// Slower than any key, and faster than a stall.
					if got := pasted(piece{0, tc.in[:i]}, piece{time.Second, tc.in[i:j]}, piece{time.Second, tc.in[j:]}); got != tc.want {
						t.Fatalf("split at %d and %d: %q, want %q", i, j, got, tc.want)
					}
				}
			}
			var each []piece
			for i := range n {
				each = append(each, piece{1900 * time.Millisecond, tc.in[i : i+1]})
			}
			if got := pasted(each...); got != tc.want {
				t.Errorf("byte by byte: %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPastesEnd(t *testing.T) {
	const ms = time.Millisecond
	open := piece{0, "\x1b[200~a"}
	long := strings.Repeat("x", pasteMost)
	for name, tc := range map[string]struct {
		in   []piece
		want string
	}{
		"ctrl+c":                     {[]piece{open, {ms, "\x03"}, {ms, "q"}}, "\x1b[200~a\x1b[201~\x03q"},
		"ctrl+c twice":               {[]piece{open, {ms, "\x03\x03"}}, "\x1b[200~a\x1b[201~\x03\x03"},
		"ctrl+c of kitty":            {[]piece{open, {ms, "\x1b[99;5u"}}, "\x1b[200~a\x1b[201~\x1b[99;5u"},
		"ctrl+c of xterm":            {[]piece{open, {ms, "\x1b[27;5;99~"}}, "\x1b[200~a\x1b[201~\x1b[27;5;99~"},
		"ctrl+c behind half an end":  {[]piece{open, {ms, "\x1b[20"}, {ms, "\x03"}}, "\x1b[200~a\x1b[201~\x03"},
		"another key of kitty":       {[]piece{open, {ms, "\x1b[99;1u"}}, "\x1b[200~a[99;1u"},
		"ctrl+c among text":          {[]piece{open, {ms, "b\x03c"}}, "\x1b[200~abc"},
		"a key behind a stall":       {[]piece{open, {pasteStall, "q"}, {pasteQuiet, "j"}, {ms, "k"}}, "\x1b[200~a\x1b[201~qjk"},
		"an arrow behind a stall":    {[]piece{open, {pasteStall, "\x1b[A"}}, "\x1b[200~a\x1b[201~\x1b[A"},
		"a paste behind a stall":     {[]piece{open, {pasteStall, "yes\rq"}, {ms, "y\r"}, {ms, "\x1b[201~"}, {ms, "q"}}, "\x1b[200~a\x1b[201~q"},
		"one slow behind a stall":    {[]piece{open, {pasteStall, "b"}, {ms, "y"}, {ms, "\r"}, {ms, "\x1b[201~"}, {ms, "q"}}, "\x1b[200~a\x1b[201~bq"},
		"its end behind a stall":     {[]piece{open, {pasteStall, "\x1b[201~"}, {ms, "q"}}, "\x1b[200~a\x1b[201~q"},
		"its start behind a stall":   {[]piece{open, {pasteStall, pasteStart}, {pasteStall, "q"}}, "\x1b[200~a\x1b[201~q"},
		"a size":                     {[]piece{{0, pasteStart + long}, {ms, "y\r"}, {pasteStall - ms, "y"}, {ms, pasteEnd + "q"}}, pasteStart + long + pasteEnd + "q"},
		"a size without an end":      {[]piece{{0, pasteStart + long}, {ms, "y"}, {pasteStall, "q"}}, pasteStart + long + pasteEnd + "q"},
		"a size and ctrl+c":          {[]piece{{0, pasteStart + long}, {ms, "y"}, {ms, "\x03"}}, pasteStart + long + pasteEnd + "\x03"},
		"a start that is odd":        {[]piece{{0, "\x1b[0200;7~a"}, {pasteStall, "q"}}, "\x1b[0200;7~" + pasteStart + "a" + pasteEnd + "q"},
		"a start of one byte's":      {[]piece{{0, "\x9b200~a"}, {pasteStall, "q"}}, "\x9b200~" + pasteStart + "a" + pasteEnd + "q"},
		"no key is lost without one": {[]piece{{0, "\x1b[2"}, {time.Hour, "q"}, {0, "\x1b[201~"}, {0, "j"}}, "\x1b[2q\x1b[201~j"},
	} {
		if got := pasted(tc.in...); got != tc.want {
			t.Errorf("%s: %q, want %q", name, clip(got), clip(tc.want))
		}
	}
}

func clip(s string) string {
	if len(s) > 200 {
		return s[:20] + "..." + s[len(s)-40:]
	}
	return s
}

// Whatever came, ctrl+c is heard, and no paste is open then.
func TestPastesNeverKeepTheKeyboard(t *testing.T) {
	parts := []string{"\x1b", "[", "2", "0", "1", "~", pasteStart, pasteEnd, "\x9b", "ä", "\xe4", "\x1b]", "\x1bP", "y", "\r", "\x03", ";", "a"}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		var p pastes
		var out, in []byte
		now := time.Unix(1796000000, 0)
		for range r.IntN(12) {
			piece := parts[r.IntN(len(parts))] + parts[r.IntN(len(parts))]
			in = append(in, piece...)
			now = now.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
			out = p.take(out, []byte(piece), now)
		}
		got := p.take(out, []byte("\x03"), now)
		if p.state != noPaste || !bytes.HasSuffix(got, []byte("\x03")) {
			t.Fatalf("%q: %q", in, got)
		}
		if bytes.LastIndex(got, []byte(pasteStart)) > bytes.LastIndex(got, []byte(pasteEnd)) {
			t.Fatalf("%q leaves a paste open: %q", in, got)
		}
	}
}

// What a read has no room for comes with the next.
func TestHangupRoom(t *testing.T) {
	y := &hangup{rest: []byte("abc")}
	var b [2]byte
	for _, want := range []string{"ab", "c"} {
		if n, err := y.Read(b[:]); err != nil || string(b[:n]) != want {
			t.Errorf("%q, %v, want %q", b[:n], err, want)
		}
	}
}

func FuzzPastes(f *testing.F) {
	f.Add([]byte("\x1b[200~a\x1b[201~q"), uint16(3))
	f.Fuzz(func(t *testing.T, in []byte, at uint16) {
		var p pastes
		now := time.Unix(1796000000, 0)
		i := int(at) % (len(in) + 1)
		one := p.take(nil, in[:i], now)
		out := p.take(one, in[i:], now)
		if len(out) > 2*len(in)+18 {
			t.Errorf("%d bytes of %d", len(out), len(in))
		}
		if p.take(out, []byte("\x03"), now); p.state != noPaste {
			t.Errorf("%q leaves a paste open", in)
		}
	})
}
