package sources

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeLoki answers with what a test sets, and keeps what it was asked.
type fakeLoki struct {
	answer func(url.Values) string // the whole body

	mu    sync.Mutex
	asked []*url.URL // guarded by mu
}

func (f *fakeLoki) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.URL)
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_, _ = io.WriteString(w, f.answer(r.URL.Query()))
}

func streamsOf(result string) string {
	return `{"status":"success","data":{"resultType":"streams","result":` + result + `,"stats":{"summary":{"totalBytesProcessed":1200000000}}}}`
}

func askLoki(t *testing.T, body string, q LogQuery) (*LogAnswer, error) {
	t.Helper()
	f := &fakeLoki{answer: func(url.Values) string { return body }}
	_, l := clients(t, serve(t, f.ServeHTTP))
	a := l.Query(t.Context(), 4, q)
	if a.Gen != 4 || (a.Err == nil) != (a.Value != nil) {
		t.Fatalf("generation %d, value %v, error %v", a.Gen, a.Value, a.Err)
	}
	return a.Value, a.Err
}

func lines(a *LogAnswer) string {
	var out []string
	for _, r := range a.Rows {
		out = append(out, fmt.Sprintf("%d %s", r.TS, r.Line))
	}
	return strings.Join(out, "|")
}

// Lines of several streams come in the order of time, to the nanosecond, and
// backward is the reverse of forward, also at equal times.
func TestMergeOfStreams(t *testing.T) {
	const forward = `[
		{"stream":{"s":"b"},"values":[["1691766820435525604","b1"],["1691766820435525606","b2"],["1691766820435525606","b3"]]},
		{"stream":{"s":"a"},"values":[["1691766820435525603","a1"],["1691766820435525606","a2"]]},
		{"stream":{"s":"c"},"values":[["1691766820435525605","c1",{"parsed":{"x":"y"}}]]}]`
	const backward = `[
		{"stream":{"s":"a"},"values":[["1691766820435525606","a2"],["1691766820435525603","a1"]]},
		{"stream":{"s":"c"},"values":[["1691766820435525605","c1"]]},
		{"stream":{"s":"b"},"values":[["1691766820435525606","b3"],["1691766820435525606","b2"],["1691766820435525604","b1"]]}]`
	want := []string{"1691766820435525603 a1", "1691766820435525604 b1", "1691766820435525605 c1", "1691766820435525606 a2", "1691766820435525606 b2", "1691766820435525606 b3"}
	a, err := askLoki(t, streamsOf(forward), LogQuery{Query: "{}", Forward: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := lines(a); got != strings.Join(want, "|") {
		t.Errorf("forward:\n got %s\nwant %s", got, strings.Join(want, "|"))
	}
	if a.CutOff || a.SearchedBytes != 1200000000 || a.Kind != LogLines || a.Empty() || a.Rows[0].Labels["s"] != "a" {
		t.Errorf("answer %+v", a)
	}
	a, err = askLoki(t, streamsOf(backward), LogQuery{Query: "{}"})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(want)
	if got := lines(a); got != strings.Join(want, "|") {
		t.Errorf("backward:\n got %s\nwant %s", got, strings.Join(want, "|"))
	}
}

// "none, searched 1.2 GB", "first 500 only", "partial" and "no answer" are
// different things.
func TestLogAnswerKeepsApart(t *testing.T) {
	none, err := askLoki(t, streamsOf(`[]`), LogQuery{Query: "{}"})
	if err != nil || !none.Empty() || none.CutOff || none.SearchedBytes != 1.2e9 || len(none.Warnings) != 0 {
		t.Errorf("none: %+v, %v", none, err)
	}
	silent, err := askLoki(t, `{"status":"success","data":{"resultType":"streams","result":[]}}`, LogQuery{Query: "{}"})
	if err != nil || silent.SearchedBytes != -1 {
		t.Errorf("none, and nothing said of bytes: %+v, %v", silent, err)
	}
	partial, err := askLoki(t, `{"status":"success","data":{"resultType":"streams","result":[]},"warnings":["one\nstore is missing"]}`, LogQuery{Query: "{}"})
	if err != nil || !partial.Empty() || cmp.Diff([]string{"one store is missing"}, partial.Warnings) != "" {
		t.Errorf("partial: %+v, %v", partial, err)
	}
	if _, err := askLoki(t, `{"status":"error","error":"no such tenant"}`, LogQuery{Query: "{}"}); err == nil || !strings.Contains(Why(err), "no such tenant") {
		t.Errorf("an error as a success: %v", err)
	}
}

func TestCutOff(t *testing.T) {
	many := func(n int, at func(i int) int) string {
		var values []string
		for i := range n {
			values = append(values, fmt.Sprintf(`["%d","line %d"]`, at(i), i))
		}
		return streamsOf(`[{"stream":{},"values":[` + strings.Join(values, ",") + `]}]`)
	}
	rising := func(i int) int { return 1000 + i }
	same := func(int) int { return 1000 }
	tests := []struct {
		name         string
		body         string
		limit        int
		rows         int
		cut, oneTime bool
	}{
		{"fewer", many(15, rising), 16, 15, false, false},
		{"exactly as many", many(16, rising), 16, 16, false, false},
		{"more", many(17, rising), 16, 16, true, false},
		{"a server without limits", many(40, rising), 16, 16, true, false},
		{"more than wanted at one moment", many(31, same), 30, 30, true, false},
		{"more than a page at one moment", many(MaxLogsLimit, same), MaxLogsLimit, MaxLogsLimit, true, true},
		{"as many as Loki ever gives", many(MaxLogsLimit, rising), MaxLogsLimit, MaxLogsLimit, true, false},
		{"more than Loki gives at once is asked for", many(10, rising), 2 * MaxLogsLimit, 10, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := askLoki(t, tt.body, LogQuery{Query: "{}", Limit: tt.limit, Forward: true})
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Rows) != tt.rows || a.CutOff != tt.cut || (len(a.Warnings) != 0) != tt.oneTime {
				t.Errorf("%d rows, cut off %t, warnings %q", len(a.Rows), a.CutOff, a.Warnings)
			}
			if a.Rows[0].Line != "line 0" {
				t.Errorf("begins with %s", a.Rows[0].Line)
			}
		})
	}
}

func TestLogNumbers(t *testing.T) {
	at := time.UnixMilli(1796003700123).UTC()
	vector := `{"status":"success","data":{"resultType":"vector","result":[
		{"metric":{"reason":"server_error"},"value":[1796003700.123,"29"]},
		{"metric":{},"value":[1796003700.123,"NaN"]}]}}`
	a, err := askLoki(t, vector, LogQuery{Query: "sum(x)", Instant: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Series) != 2 || a.Kind != LogVector || a.Empty() || a.Series[0].Labels["reason"] != "server_error" ||
		a.Series[0].Points[0] != (LogPoint{at, 29}) || !math.IsNaN(a.Series[1].Points[0].Value) {
		t.Errorf("vector %+v", a.Series)
	}
	if _, err := askLoki(t, vector, LogQuery{Query: "sum(x)"}); kindOf(err) != RemoteShape {
		t.Errorf("a vector where a matrix was asked for: %v", err)
	}
	matrix := `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"route":"none"},"values":[[1796003700,"5"],[1796003760,"+Inf"]]}]}}`
	a, err = askLoki(t, matrix, LogQuery{Query: "sum(x)"})
	if err != nil {
		t.Fatal(err)
	}
	want := []LogPoint{{time.Unix(1796003700, 0).UTC(), 5}, {time.Unix(1796003760, 0).UTC(), math.Inf(1)}}
	if len(a.Series) != 1 || cmp.Diff(want, a.Series[0].Points) != "" {
		t.Errorf("matrix %+v", a.Series)
	}
	if _, err := askLoki(t, matrix, LogQuery{Query: "sum(x)", Instant: true}); kindOf(err) != RemoteShape {
		t.Errorf("a matrix where a vector was asked for: %v", err)
	}
	a, err = askLoki(t, `{"status":"success","data":{"resultType":"scalar","result":[1796003700.123,"2"]}}`, LogQuery{Query: "1+1", Instant: true})
	if err != nil || len(a.Series) != 1 || a.Series[0].Points[0] != (LogPoint{at, 2}) {
		t.Errorf("scalar %+v, %v", a, err)
	}
}

func kindOf(err error) RemoteKind {
	if e, ok := errors.AsType[*RemoteError](err); ok {
		return e.Kind
	}
	return 255
}

func TestOddLogAnswers(t *testing.T) {
	for name, data := range map[string]string{
		"no time":              `{"resultType":"streams","result":[{"stream":{},"values":[["now","x"]]}]}`,
		"a time as a number":   `{"resultType":"streams","result":[{"stream":{},"values":[[1691766820435525603,"x"]]}]}`,
		"a time beyond int64":  `{"resultType":"streams","result":[{"stream":{},"values":[["99999999999999999999","x"]]}]}`,
		"an entry of one":      `{"resultType":"streams","result":[{"stream":{},"values":[["1"]]}]}`,
		"a line that is none":  `{"resultType":"streams","result":[{"stream":{},"values":[["1",{}]]}]}`,
		"streams of no list":   `{"resultType":"streams","result":{}}`,
		"no result":            `{"resultType":"streams"}`,
		"a matrix of vectors":  `{"resultType":"matrix","result":[{"metric":{},"values":[[1]]}]}`,
		"an unknown type":      `{"resultType":"table\u001b[2J","result":[]}`,
		"numbers of no number": `{"resultType":"matrix","result":[{"metric":{},"values":[[1,"x"]]}]}`,
	} {
		a, err := askLoki(t, `{"status":"success","data":`+data+`}`, LogQuery{Query: "{}"})
		if err == nil {
			t.Errorf("%s was taken: %+v", name, a)
			continue
		}
		if kindOf(err) != RemoteShape {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A stream without labels is one.
	if a, err := askLoki(t, streamsOf(`[{"values":[["1","x"]]}]`), LogQuery{Query: "{}"}); err != nil || len(a.Rows) != 1 || a.Rows[0].Labels == nil {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestLogQueryOnTheWire(t *testing.T) {
	f := &fakeLoki{answer: func(url.Values) string { return streamsOf(`[]`) }}
	_, l := clients(t, serve(t, f.ServeHTTP)+"/loki-proxy")
	start := time.Unix(0, 1691766820435525603)
	end := start.Add(15 * time.Minute)
	asked := func(q LogQuery) (string, url.Values) {
		t.Helper()
		_ = l.Query(t.Context(), 1, q)
		f.mu.Lock()
		defer f.mu.Unlock()
		u := f.asked[len(f.asked)-1]
		return u.Path, u.Query()
	}
	path, v := asked(LogQuery{Query: `{a="b"} |= "x&y=z"`, Start: start, End: end, Forward: true, Step: 90 * time.Second})
	want := url.Values{
		"query": {`{a="b"} |= "x&y=z"`}, "start": {"1691766820435525603"}, "end": {"1691767720435525603"},
		"limit": {"501"}, "direction": {"forward"}, "step": {"90"},
	}
	if path != "/loki-proxy/loki/api/v1/query_range" || cmp.Diff(want, v) != "" {
		t.Errorf("%s %s", path, cmp.Diff(want, v))
	}
	path, v = asked(LogQuery{Query: "sum(x)", Start: start, End: end, Limit: 5000, Instant: true})
	want = url.Values{"query": {"sum(x)"}, "time": {"1691767720435525603"}, "limit": {"5000"}, "direction": {"backward"}}
	if path != "/loki-proxy/loki/api/v1/query" || cmp.Diff(want, v) != "" {
		t.Errorf("%s %s", path, cmp.Diff(want, v))
	}
	a := l.Query(t.Context(), 1, LogQuery{Query: "{}"})
	if q := a.Value.Query; q.Limit != LogsLimit || q.End.Sub(q.Start) != time.Hour || time.Since(q.End) > time.Minute {
		t.Errorf("defaults %+v", q)
	}
}

// The lines that could not be parsed are counted beside the answer; where that
// fails, it is a warning and no zero.
func TestUnparsedLines(t *testing.T) {
	count := `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1796003700,"3"]}]}}`
	f := &fakeLoki{answer: func(v url.Values) string {
		if v.Get("query") == "errors" {
			return count
		}
		return streamsOf(`[{"stream":{},"values":[["1","x"]]}]`)
	}}
	_, l := clients(t, serve(t, f.ServeHTTP))
	q := LogQuery{Query: "{}", Unparsed: "errors"}
	if a := l.Query(t.Context(), 1, q); a.Err != nil || a.Value.Unparsed != 3 || len(a.Value.Rows) != 1 || len(a.Value.Warnings) != 0 {
		t.Errorf("%+v, %v", a.Value, a.Err)
	}
	count = `{"status":"success","data":{"resultType":"vector","result":[]}}`
	if a := l.Query(t.Context(), 1, q); a.Err != nil || a.Value.Unparsed != 0 {
		t.Errorf("%+v, %v", a.Value, a.Err)
	}
	count = `{`
	if a := l.Query(t.Context(), 1, q); a.Err != nil || a.Value.Unparsed != -1 || len(a.Value.Warnings) != 1 || len(a.Value.Rows) != 1 {
		t.Errorf("%+v, %v", a.Value, a.Err)
	}
	q.Unparsed = ""
	if a := l.Query(t.Context(), 1, q); a.Err != nil || a.Value.Unparsed != -1 {
		t.Errorf("not asked: %+v, %v", a.Value, a.Err)
	}
}

// What a real Loki answered is read whole.
func TestRecordedAnswers(t *testing.T) {
	read := 0
	for _, r := range recordedAnswers(t) {
		if r.Status != http.StatusOK {
			continue
		}
		q := LogQuery{Query: r.Params["query"], Forward: r.Params["direction"] == "forward", Limit: MaxLogsLimit, Instant: strings.HasSuffix(r.Path, "/query")}
		a, err := askLoki(t, `{"status":"success","data":`+string(r.Answer)+`}`, q)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		var raw struct {
			Result []struct {
				Values []json.RawMessage `json:"values"`
			} `json:"result"`
		}
		if err := json.Unmarshal(r.Answer, &raw); err != nil {
			continue // a scalar
		}
		want := 0
		for _, s := range raw.Result {
			want += len(s.Values)
		}
		if a.Kind == LogLines && len(a.Rows) != want || a.Kind != LogLines && len(a.Series) != len(raw.Result) {
			t.Errorf("%s: %d rows and %d series of %d", r.ID, len(a.Rows), len(a.Series), want)
		}
		if !slices.IsSortedFunc(a.Rows, func(x, y LogRow) int {
			if q.Forward {
				x, y = y, x
			}
			return int(y.TS - x.TS)
		}) {
			t.Errorf("%s: not in the order of time", r.ID)
		}
		read++
	}
	if read == 0 {
		t.Error("nothing was read")
	}
}

// recorded is one question with what a real Loki answered.
type recorded struct {
	ID     string            `json:"id"`
	Path   string            `json:"path"`
	Params map[string]string `json:"params"`
	Status int               `json:"status"`
	Answer json.RawMessage   `json:"answer"`
}

func recordedAnswers(t *testing.T) []recorded {
	t.Helper()
	f, err := os.Open("logql/testdata/queries.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []recorded
	for d := json.NewDecoder(f); ; {
		var r recorded
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
}
