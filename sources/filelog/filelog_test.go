package filelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"failback/sources"
)

func read(t *testing.T, text string) (*Log, error) {
	t.Helper()
	open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	return Read(t.Context(), "a.log", open, map[string]string{"service_name": "failback"})
}

// lines are n lines of a decision log, a second apart.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"time":"2026-11-30T04:%02d:%02dZ","event":"x","n":%d}`+"\n", i/60%60, i%60, i)
	}
	return b.String()
}

func TestQuery(t *testing.T) {
	l, err := read(t, lines(10))
	if err != nil {
		t.Fatal(err)
	}
	from, to := l.Span()
	if want := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC); !from.Equal(want) || !to.Equal(want.Add(9*time.Second+1)) {
		t.Errorf("from %s to %s", from, to)
	}
	q := sources.LogQuery{Query: sources.DefaultStreams, Start: from, End: to, Limit: 4, Unparsed: `sum(count_over_time({service_name="failback"} | json | n < 3 [1m]))`}
	a := l.Query(t.Context(), 7, q)
	if a.Err != nil || a.Gen != 7 || len(a.Value.Rows) != 4 || !a.Value.CutOff || a.Value.Unparsed != 3 || a.Value.SearchedBytes <= 0 {
		t.Errorf("%+v, %v", a.Value, a.Err)
	}
	for forward, first := range map[bool]int64{false: 9, true: 0} { // of ten lines four, from either end
		q.Forward = forward
		if a := l.Query(t.Context(), 1, q); a.Err != nil || len(a.Value.Rows) != 4 || a.Value.Rows[0].TS != from.Add(time.Duration(first)*time.Second).UnixNano() {
			t.Errorf("forward %t: %+v, %v", forward, a.Value, a.Err)
		}
	}
	for _, c := range []struct {
		query, want string
	}{{"{", "parse error"}, {`sum(count_over_time({service_name="failback"} | json | unwrap n [1m]))`, ""}} {
		q.Query = c.query
		if a := l.Query(t.Context(), 1, q); a.Err == nil || Refusal(a.Err) == "" || !strings.Contains(Refusal(a.Err), c.want) {
			t.Errorf("%s: %v, refused with %q", c.query, a.Err, Refusal(a.Err))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q.Query = sources.DefaultStreams
	if a := l.Query(ctx, 1, q); !errors.Is(a.Err, context.Canceled) || Refusal(a.Err) != "" {
		t.Errorf("%v", a.Err)
	}
}

// Without a step a range of numbers has that of a Loki: about 250 points.
func TestQueryWithoutAStep(t *testing.T) {
	l, err := read(t, lines(1))
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	for span, step := range map[time.Duration]time.Duration{time.Second: time.Second, 5 * time.Minute: time.Second, time.Hour: 14 * time.Second, 24 * time.Hour: 345 * time.Second} {
		a := l.Query(t.Context(), 1, sources.LogQuery{Query: `vector(1)`, Start: end.Add(-span), End: end})
		if a.Err != nil {
			t.Errorf("%s: %v", span, a.Err)
			continue
		}
		if p := a.Value.Series[0].Points; p[1].At.Sub(p[0].At) != step || p[0].At.After(end.Add(-span)) || p[len(p)-1].At.Before(end) {
			t.Errorf("%s: %d points, the first %v and %v, the last %v; want one each %s", span, len(p), p[0].At, p[1].At, p[len(p)-1].At, step)
		}
	}
}

// A file has no limit as a server has, and no answer is called cut off at that
// of a server.
func TestQueryOfMoreLinesThanALokiGives(t *testing.T) {
	for n, cut := range map[int]bool{sources.MaxLogsLimit: false, sources.MaxLogsLimit + 1: true} {
		l, err := read(t, strings.Repeat(lines(1), n))
		if err != nil {
			t.Fatal(err)
		}
		from, to := l.Span()
		a := l.Query(t.Context(), 1, sources.LogQuery{Query: sources.DefaultStreams, Start: from, End: to, Limit: sources.MaxLogsLimit})
		if a.Err != nil || len(a.Value.Rows) != sources.MaxLogsLimit || a.Value.CutOff != cut {
			t.Errorf("%d lines: %d, cut off %t, %v", n, len(a.Value.Rows), a.Value.CutOff, a.Err)
		}
	}
	l, err := read(t, strings.Repeat(lines(1), sources.MaxLogsLimit+7))
	if err != nil {
		t.Fatal(err)
	}
	from, to := l.Span()
	if a := l.Query(t.Context(), 1, sources.LogQuery{Query: sources.DefaultStreams, Start: from, End: to, Limit: 9999}); a.Err != nil || len(a.Value.Rows) != sources.MaxLogsLimit+7 {
		t.Errorf("%d rows, %v", len(a.Value.Rows), a.Err)
	}
}

func TestReadSkipsWhatIsNoLine(t *testing.T) {
	l, err := read(t, "2026-11-30T04:00:00Z failback serves\n"+lines(2)+`{"time":"2026-11-30T0`)
	if err != nil {
		t.Fatal(err)
	}
	if n, first := l.Skipped(); n != 2 || !strings.HasPrefix(first.Error(), "line 1: not a JSON object") {
		t.Errorf("%d, %v", n, first)
	}
	for _, text := range []string{"no\nlog\n", "no log"} {
		if _, err := read(t, text); err == nil || !strings.HasPrefix(err.Error(), "a.log: no line of it is one of a decision log: line 1: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if l, err := read(t, ""); err != nil || l.lines.Len() != 0 {
		t.Errorf("an empty file: %v", err)
	}
}

// Reading ends with the context, also when nothing comes and when the file
// cannot be opened yet, and when it never ends.
func TestReadEndsWithItsContext(t *testing.T) {
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	for name, open := range map[string]func() (io.ReadCloser, error){
		"nothing comes": func() (io.ReadCloser, error) { return r, nil },
		"no open":       func() (io.ReadCloser, error) { <-never; return nil, io.EOF },
		"no end":        func() (io.ReadCloser, error) { return io.NopCloser(endless{}), nil },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := Read(ctx, "f", open, nil)
			ended <- err
		}()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What was opened is closed, also where it is no log.
func TestReadClosesTheFile(t *testing.T) {
	for _, text := range []string{lines(1), "no log"} {
		f := &closing{Reader: strings.NewReader(text)}
		_, _ = Read(t.Context(), "f", func() (io.ReadCloser, error) { return f, nil }, nil)
		if !f.closed {
			t.Errorf("%q is left open", text)
		}
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '\n'
	}
	return len(b), nil
}
