package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

func TestSpliceReadsAsOneBody(t *testing.T) {
	body := []byte(`{ "model" : "m" ,"n":1e2,"s":"\u00e9"}`)
	start := bytes.Index(body, []byte(`"m"`))
	for _, model := range []string{"gpt-5-mini", "a/b:c@d", `q"uo\te`, "mödel", "<&>", "\x00"} {
		q, _ := json.Marshal(model)
		var name string
		var s splice
		size := s.set(body, start, start+3, model)
		got, err := io.ReadAll(iotest.OneByteReader(&s))
		if err != nil || int64(len(got)) != size {
			t.Fatalf("%q: read %d of %d bytes, %v", model, len(got), size, err)
		}
		rest, found := bytes.CutPrefix(got, body[:start])
		quoted, tail := bytes.CutSuffix(rest, body[start+3:])
		if !found || !tail || json.Unmarshal(quoted, &name) != nil || name != model {
			t.Errorf("%q became %s (as JSON %s)", model, got, q)
		}
		if !s.handedOver() {
			t.Error("not handed over at the end")
		}
	}
}

func TestSpliceWithoutSpan(t *testing.T) {
	for _, span := range [][2]int{{0, 0}, {3, 2}, {1, 99}} {
		var s splice
		s.set([]byte("{}"), span[0], span[1], "m")
		if got, _ := io.ReadAll(&s); string(got) != "{}" {
			t.Errorf("%v: %q", span, got)
		}
	}
}

func TestSpliceSendsWithoutACopy(t *testing.T) {
	body := []byte(strings.Repeat("x", 100) + `"m"` + strings.Repeat("y", 100))
	var s splice
	size := s.set(body, 100, 103, "model")
	head := make([]byte, 50)
	if n, err := s.Read(head); n != 50 || err != nil {
		t.Fatal(n, err)
	}
	var w bytes.Buffer
	send := func(parts net.Buffers) (int64, error) { return parts.WriteTo(&w) }
	if n, err := s.sendTo(send, 55); n != 55 || err != nil {
		t.Fatal(n, err)
	}
	if s.handedOver() {
		t.Fatal("handed over before the end")
	}
	broken := errors.New("broken")
	if n, err := s.sendTo(func(parts net.Buffers) (int64, error) { w.Write(parts[1][:1]); return 1, broken }, 1<<20); n != 1 || err != broken {
		t.Fatal(n, err)
	}
	if n, err := s.sendTo(send, 1<<20); n != size-106 || err != nil {
		t.Fatal(n, err)
	}
	if got := string(head) + w.String(); got != strings.Repeat("x", 100)+`"model"`+strings.Repeat("y", 100) {
		t.Fatalf("sent %s", got)
	}
	if n, err := s.Read(head); n != 0 || err != io.EOF {
		t.Fatal(n, err)
	}
}

func TestClosedSpliceIsNotRead(t *testing.T) {
	var s splice
	s.set([]byte("body"), 0, 0, "")
	_ = s.Close()
	if n, err := s.Read(make([]byte, 4)); n != 0 || !errors.Is(err, errBodyClosed) {
		t.Fatal(n, err)
	}
	if n, err := s.sendTo(func(net.Buffers) (int64, error) { return 4, nil }, 4); n != 0 || !errors.Is(err, errBodyClosed) {
		t.Fatal(n, err)
	}
	if s.handedOver() {
		t.Fatal("handed over")
	}
}
