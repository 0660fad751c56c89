package logql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// many makes n lines of size bytes.
func many(n, size int) *Lines {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"n":"%08d","pad":"%s"}`, i, strings.Repeat("x", size))
	}
	return at(lines...)
}

// answer asks within the bounds of a server and returns the answer's JSON.
func answer(t *testing.T, src Source, query string, r Request) ([]byte, error) {
	t.Helper()
	var err error
	if r.Query, err = Parse(query); err != nil {
		return nil, err
	}
	r.End, r.MaxBytes = 100_000*sec, 64<<20
	res, err := Eval(t.Context(), src, r)
	if err != nil {
		return nil, err
	}
	return res.MarshalJSON()
}

func TestAnswersThatGrow(t *testing.T) {
	src := many(5000, 700)
	line := strings.Repeat("{{__line__}}", 50) + strings.Repeat("{{$x}}", 600)
	double := `| label_format a="xxxxxxxxxxxxxxxx" ` + strings.Repeat(`| label_format a="{{.a}}{{.a}}" `, 60)
	for name, query := range map[string]string{
		"line_format":      `{app="x"} | line_format "{{$x := __line__}}` + line + `"`,
		"plain parts":      `{app="x"} | json | line_format "` + strings.Repeat("{{.pad}}", 700) + `"`,
		"labels of lines":  `{app="x"} | json | label_format b="` + strings.Repeat("{{.pad}}{{.n}}", 700) + `"`,
		"labels of series": `count_over_time({app="x"} | json | label_format b="` + strings.Repeat("{{.pad}}{{.n}}", 700) + `" [99999s])`,
		"groups":           `sum by (b) (count_over_time({app="x"} | json | label_format b="` + strings.Repeat("{{.pad}}{{.n}}", 700) + `" [99999s]))`,
		"escapes":          `{app="x"} | line_format "{{repeat 10000 \"\\u0001\"}}"`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := answer(t, src, query, Request{Limit: 5000, Instant: strings.Contains(query, "_over_time")})
			runtime.ReadMemStats(&after)
			var refused *QueryError
			if !errors.As(err, &refused) || refused.Status != 400 || !strings.Contains(refused.Message, "larger than") {
				t.Errorf("%v", err)
			}
			if n := int64(after.HeapSys) - int64(before.HeapSys); n > 600<<20 {
				t.Errorf("the heap grew by %d bytes", n)
			}
		})
	}
	// What one line may not become is an error of the line.
	for name, query := range map[string]string{
		"doubling":  `{app="x"} ` + double,
		"print":     `{app="x"} | json | line_format "{{print ` + strings.Repeat(".pad ", 2000) + `}}"`,
		"printf":    `{app="x"} | line_format "{{printf \"` + strings.Repeat("%[1]s", 2000) + `\" __line__}}"`,
		"widths":    `{app="x"} | line_format "{{printf \"` + strings.Repeat("%900000d", 20) + `\" 1}}"`,
		"star":      `{app="x"} | line_format "{{printf \"%*d\" 900000 1}}"`,
		"js":        `{app="x"} | line_format "` + "{{" + strings.Repeat("js (", 40) + "__line__" + strings.Repeat(")", 40) + `}}"`,
		"b64":       `{app="x"} | line_format "{{` + strings.Repeat("b64enc (", 40) + "__line__" + strings.Repeat(")", 40) + `}}"`,
		"cutting":   `{app="x"} | line_format "{{Trim (repeat 250000 \"\u00e9\") (print (repeat 250000 \"\u00ea\") \"\u00e9\")}}"`,
		"replacing": `{app="x"} | line_format "{{regexReplaceAll \"x\" __line__ \"` + strings.Repeat("y", 9000) + `\"}}"`,
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			got, err := answer(t, many(5, 700), query, Request{})
			if err != nil || !strings.Contains(string(got), `"__error__":"TemplateFormatErr"`) {
				t.Errorf("%v %.300s", err, got)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// An answer whose first part is enough does not suffer from what is behind it.
func TestLargeAnswersWithin(t *testing.T) {
	got, err := answer(t, many(20_000, 10_000), `{app="x"}`, Request{Limit: 5000})
	if err != nil || len(got) < 50_000_000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestQueriesThatAskForTooMuch(t *testing.T) {
	for name, query := range map[string]string{
		"pattern":           "{app=\"x\"} |~ `(?:x?[a-z\":,_0-9 .{}]*){900}ZQ`",
		"pattern of stream": `{app="x", b=~"(?:x?[a-z]*){900}ZQ"}`,
		"pattern of label":  `{app="x"} | json | a=~"(?:x?[a-z]*){900}ZQ"`,
		"patterns":          `{app="x"} |~ "(ab*){200}"` + strings.Repeat(` or "(ab*){200}"`, 200),
		"stages":            `{app="x"}` + strings.Repeat(` | label_format a="{{.a}}{{.a}}"`, 1000),
		"filters":           `{app="x"}` + strings.Repeat(` |= "a"`, 1000),
		"after unwrap":      `sum_over_time({app="x"} | unwrap a` + strings.Repeat(` | b="c"`, 1000) + `[1h])`,
		"functions":         `{app="x"} | line_format "` + strings.Repeat(`{{ToUpper __line__}}`, 100) + `"`,
		"ranges":            `rate({app="x"}[1h])` + strings.Repeat(` + rate({app="x"}[1h])`, 100),
	} {
		_, err := Parse(query)
		var bad *ParseError
		if !errors.As(err, &bad) || !strings.Contains(bad.Message, "more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Series are bounded before they are aggregated, when there is one too many.
func TestSeriesBeforeTheyAreAggregated(t *testing.T) {
	q, err := Parse(`count_over_time({app="x"} | json [1h])`)
	if err != nil {
		t.Fatal(err)
	}
	for had, refused := range map[int]bool{maxInner - 1: false, maxInner: true} {
		s := newSampler(q.e.(*rangeAgg), nil, steps{n: 1}, &meter{b: newBudget(Request{}), ended: new(atomic.Bool)})
		s.series = make([]*innerSeries, had)
		if more := s.take(Entry{Labels: Labels{{"app", "x"}}, Line: []byte(`{"id":1}`)}); more == refused || (s.failed != nil) != refused {
			t.Errorf("after %d series: %v", had, s.failed)
		}
	}
}

// A line may take long: the end of the time is seen before the next.
func TestEndsWithItsTime(t *testing.T) {
	src := many(3000, 20_000)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	q, err := Parse("{app=\"x\"} |~ `(?:x?[a-z\":,_0-9 .{}]*){90}ZQ`")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = Eval(ctx, src, Request{Query: q, End: 100_000 * sec})
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

// endless is what /dev/zero gives.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	clear(p)
	return len(p), nil
}

func TestReadLinesOfWhatIsNone(t *testing.T) {
	e := &endless{}
	_, err := ReadLines(e, nil, func(error) { t.Error("the line is skipped") })
	if err == nil || err == io.EOF || !strings.Contains(err.Error(), "line 1: it has more than 16 MiB") || e.read > 17<<20 {
		t.Errorf("%v after %d bytes", err, e.read)
	}
	l, err := ReadLines(strings.NewReader("\xef\xbb\xbf"+`{"time":"2026-05-01T10:00:00Z"}`+"\r\n"), nil, nil)
	if err != nil || l.Len() != 1 {
		t.Errorf("a byte order mark: %v, %v", l, err)
	}
	for _, at := range []string{"1500-01-01T00:00:00Z", "2300-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z"} {
		if _, err := ReadLines(strings.NewReader(`{"time":"`+at+`"}`), nil, nil); err == nil || !strings.Contains(err.Error(), "1678 and 2262") {
			t.Errorf("%s: %v", at, err)
		}
	}
}
