package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func frames(t *testing.T, r io.Reader, max int) ([]string, error) {
	t.Helper()
	f := NewFrameReader(r, max)
	defer f.Close()
	var all []string
	for {
		frame, err := f.Next()
		if err != nil {
			return all, err
		}
		if len(frame) == 0 {
			t.Fatal("empty frame")
		}
		all = append(all, string(frame))
	}
}

func TestFrameReaderSplits(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"data: a\n\ndata: b\n\n", []string{"data: a\n\n", "data: b\n\n"}},
		{"data: a\r\n\r\ndata: b\r\n\r\n", []string{"data: a\r\n\r\n", "data: b\r\n\r\n"}},
		{"data: a\r\rdata: b\r\r", []string{"data: a\r\r", "data: b\r\r"}},
		{"event: x\ndata: 1\ndata: 2\n\n", []string{"event: x\ndata: 1\ndata: 2\n\n"}},
		{": hello\n\ndata: a\n\n", []string{": hello\n\n", "data: a\n\n"}},
		{"\n\n\ndata: a\n\n\n", []string{"\n", "\n", "\n", "data: a\n\n", "\n"}},
		{"data: a\n\ndata: b", []string{"data: a\n\n", "data: b"}},
		{"data: a\n", []string{"data: a\n"}},
		{"\ufeffdata: a\n\n", []string{"\ufeffdata: a\n\n"}},
		{"\ufeff\ndata: a\n\n", []string{"\ufeff\n", "data: a\n\n"}},
		{"\xef\xbb", []string{"\xef\xbb"}},
		{"data: a\n\r\ndata: b\r\n\n", []string{"data: a\n\r\n", "data: b\r\n\n"}},
	} {
		got, err := frames(t, strings.NewReader(tc.in), 1<<20)
		if err != io.EOF || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%q: %q, %v; want %q", tc.in, got, err, tc.want)
		}
	}
}

// A frame is given out as soon as its last byte has come, whatever the line ends.
func TestFrameReaderDoesNotWait(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		pr, pw := io.Pipe()
		f := NewFrameReader(pr, 1<<20)
		for i := range 3 {
			frame := fmt.Sprintf("data: %d%s%s", i, end, end)
			go io.WriteString(pw, frame)
			got, err := f.Next()
			if string(got) != frame || err != nil {
				t.Fatalf("%q: %q, %v", frame, got, err)
			}
		}
		pw.Close()
	}
}

func TestFrameReaderLimit(t *testing.T) {
	frame := "data: " + strings.Repeat("x", 100000) + "\n\n"
	for _, r := range []func() io.Reader{
		func() io.Reader { return strings.NewReader(frame + "data: y\n\n") },
		func() io.Reader { return iotest.HalfReader(strings.NewReader(frame)) },
		func() io.Reader { return strings.NewReader(strings.TrimRight(frame, "\n") + "xx") },
	} {
		if got, err := frames(t, r(), len(frame)); err != io.EOF || len(got[0]) != len(frame) {
			t.Errorf("at the limit: %d frames, %v", len(got), err)
		}
		if got, err := frames(t, r(), len(frame)-1); err != ErrFrameTooLong || got != nil {
			t.Errorf("above the limit: %d frames, %v", len(got), err)
		}
	}
	// An endless frame is refused without being read for ever.
	read := 0
	_, err := frames(t, readerFunc(func(p []byte) (int, error) { read += len(p); return len(p), nil }), 1<<20)
	if err != ErrFrameTooLong || read > 4<<20 {
		t.Errorf("endless frame: %v after %d bytes", err, read)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestFrameReaderBrokenStream(t *testing.T) {
	cut := errors.New("reset")
	got, err := frames(t, io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(cut)), 1<<20)
	if err != cut || !reflect.DeepEqual(got, []string{"data: a\n\n"}) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := frames(t, readerFunc(func([]byte) (int, error) { return 0, nil }), 1<<20); err != io.ErrNoProgress {
		t.Errorf("a reader without progress: %v", err)
	}
}

func TestFrameReaderGivesMemoryBack(t *testing.T) {
	big := "data: " + strings.Repeat("x", 1<<20) + "\n\n"
	f := NewFrameReader(iotest.HalfReader(strings.NewReader("data: a\n\n"+big+strings.Repeat("data: b\n\n", 100000))), 2<<20)
	defer f.Close()
	n := 0
	for {
		if _, err := f.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 100002 || cap(f.buf) > largeBuffer {
		t.Errorf("%d frames; buffer of %d bytes after the last", n, cap(f.buf))
	}
}

// slowFrames splits as the event stream format defines it, one byte at a time.
func slowFrames(b string) []string {
	var all []string
	start, line := 0, 0
	if strings.HasPrefix(b, "\ufeff") {
		line = len("\ufeff")
	}
	for i := line; i < len(b); i++ {
		if b[i] != '\n' && b[i] != '\r' {
			continue
		}
		blank := i == line
		if b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n' {
			i++
		}
		line = i + 1
		if blank {
			all = append(all, b[start:line])
			start = line
		}
	}
	if start < len(b) {
		all = append(all, b[start:])
	}
	return all
}

// slowEvents are the names and data that a client gets to see.
func slowEvents(b string) (all []string) {
	for _, frame := range slowFrames(strings.TrimPrefix(b, "\ufeff")) {
		name, data, has := "", []string(nil), false
		for line := range strings.SplitSeq(strings.ReplaceAll(strings.ReplaceAll(frame, "\r\n", "\n"), "\r", "\n"), "\n") {
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "event":
				name = value
			case "data":
				data, has = append(data, value), true
			}
		}
		if has || name != "" {
			all = append(all, fmt.Sprintf("%q %t %q", name, has, strings.Join(data, "\n")))
		}
	}
	return all
}

func FuzzFrames(f *testing.F) {
	for _, s := range []string{
		"data: a\n\ndata: b\n\n", "data: a\r\n\r\n: c\r\n\r\n", "data: a\r\rdata: b\r\r", "event: x\ndata: 1\ndata: 2\n\ndata",
		"\ufeffdata: a\n\n", "\ufeff\n\n", "\xef\xbb\n", "data: a\n\r\n\r\r\n\n\r", "data:a\r\r\n\ndata:b\r", "id: 1\nretry: 5\nevent:y\n\n", "{\"error\":{}}\n\n",
		"\n\ufeffdata",
	} {
		f.Add(s, uint64(1))
	}
	f.Fuzz(func(t *testing.T, in string, seed uint64) {
		want := slowFrames(in)
		got, err := frames(t, strings.NewReader(in), len(in)+1)
		if err != io.EOF || !reflect.DeepEqual(got, want) && len(in) < smallBuffer {
			t.Fatalf("%q: %q, %v; want %q", in, got, err, want)
		}
		// However the bytes arrive, the stream is the same, and each frame
		// holds at most one event.
		rnd := rand.New(rand.NewPCG(seed, 0))
		chunks := strings.NewReader(in)
		got, err = frames(t, readerFunc(func(p []byte) (int, error) { return chunks.Read(p[:1+rnd.IntN(min(len(p), 7))]) }), len(in)+1)
		if err != io.EOF || strings.Join(got, "") != in {
			t.Fatalf("%q in parts: %q, %v", in, got, err)
		}
		var events []string
		var scratch []byte
		for i, frame := range got {
			if i == 0 {
				frame = strings.TrimPrefix(frame, "\ufeff")
			}
			var e event
			e, scratch = parseEvent([]byte(frame), scratch)
			if e.has || len(e.name) > 0 {
				events = append(events, fmt.Sprintf("%q %t %q", e.name, e.has, e.data))
			}
			if !e.whole && i < len(got)-1 && strings.Trim(frame, "\n") != "" {
				t.Fatalf("frame %q in the middle has no end", frame)
			}
		}
		if !reflect.DeepEqual(events, slowEvents(in)) {
			t.Fatalf("%q in parts: events %q, want %q", in, events, slowEvents(in))
		}
	})
}

func BenchmarkFrameReader(b *testing.B) {
	frame := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-5-mini","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n")
	stream := bytes.Repeat(frame, 60)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		f := NewFrameReader(bytes.NewReader(stream), 1<<20)
		for {
			if _, err := f.Next(); err != nil {
				break
			}
		}
		f.Close()
	}
}
