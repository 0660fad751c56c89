package logql

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorded is one question to a real Loki and its answer.
type recorded struct {
	ID     string            `json:"id"`
	Path   string            `json:"path"`
	Params map[string]string `json:"params"`
	Status int               `json:"status"`
	Answer json.RawMessage   `json:"answer"`
}

func readRecorded(t testing.TB) []recorded {
	f, err := os.Open("testdata/queries.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	var out []recorded
	for sc.Scan() {
		var r recorded
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func recordedLines(t testing.TB) *Lines {
	f, err := os.Open("testdata/lines.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := ReadLines(f, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// request reads the parameters of Loki's HTTP API.
func (r recorded) request(t *testing.T, q *Query) Request {
	t.Helper()
	num := func(name string) int64 {
		n, err := strconv.ParseInt(r.Params[name], 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	req := Request{Query: q, Limit: int(num("limit")), Forward: r.Params["direction"] == "forward"}
	if r.Path == "/loki/api/v1/query" {
		req.Instant = true
		req.Start, req.End = num("time"), num("time")
		return req
	}
	req.Start, req.End = num("start"), num("end")
	if r.Params["step"] != "" {
		req.Step = time.Duration(num("step")) * time.Second
	}
	return req
}

// TestRecordedAnswers: what a real Loki answered is answered the same, to the
// last digit, or refused by name.
func TestRecordedAnswers(t *testing.T) {
	lines := recordedLines(t)
	equal, refused := 0, 0
	for _, r := range readRecorded(t) {
		t.Run(r.ID, func(t *testing.T) {
			var status int
			var message string
			var res *Result
			q, err := Parse(r.Params["query"])
			if err == nil {
				res, err = Eval(context.Background(), lines, r.request(t, q))
			}
			switch {
			case err == nil:
				status = 200
			default:
				message = err.Error()
				if pe, ok := errors.AsType[*ParseError](err); ok {
					status = 400
					if pe.Unsupported {
						refused++
						t.Logf("refused: %s", message)
						return
					}
				} else if qe, ok := errors.AsType[*QueryError](err); ok {
					status = qe.Status
				}
			}
			if status != r.Status {
				t.Fatalf("%s\nstatus %d (%s), want %d", r.Params["query"], status, message, r.Status)
			}
			if status != 200 {
				var want string
				if err := json.Unmarshal(r.Answer, &want); err != nil {
					t.Fatal(err)
				}
				if message != want {
					t.Fatalf("%s\n got %q\nwant %q", r.Params["query"], message, want)
				}
				equal++
				return
			}
			b, err := json.Marshal(res)
			if err != nil {
				t.Fatal(err)
			}
			var got, want map[string]any
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(r.Answer, &want); err != nil {
				t.Fatal(err)
			}
			delete(got, "stats")
			delete(want, "stats")
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%s\n(-loki +here)\n%s", r.Params["query"], d)
			}
			equal++
		})
	}
	t.Logf("%d answered equal, %d refused by name", equal, refused)
	if equal < 47 {
		t.Errorf("%d of the recorded answers are equal, all 47 were", equal)
	}
}
