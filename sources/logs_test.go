package sources

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"failback/sources/logql"
)

func TestAsksNumbers(t *testing.T) {
	for q, want := range map[string]bool{
		`{a="b"}`: false, ` ({a="b"})`: false, "# which\n{a=\"b\"} | json": false, "": false, "# only": false, "\r\n{a=\"b\"}": false,
		`sum(rate({a="b"}[5m]))`: true, "# which\nrate({a=\"b\"}[1m])": true, "vector(0)": true, `(sum(rate({a="b"}[5m])))`: true,
	} {
		if AsksNumbers(q) != want {
			t.Errorf("%q: %t", q, !want)
		}
	}
	f, err := os.Open("logql/testdata/queries.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<24)
	n := 0
	for sc.Scan() {
		var q struct{ Params map[string]string }
		if err := json.Unmarshal(sc.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		text := q.Params["query"]
		parsed, err := logql.Parse(text)
		if err != nil {
			continue
		}
		n++
		if AsksNumbers(text) != parsed.IsMetric() {
			t.Errorf("%s: %t, unlike the parser", text, AsksNumbers(text))
		}
	}
	if n < 30 {
		t.Errorf("only %d queries", n)
	}
}
