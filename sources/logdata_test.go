package sources

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// What a real Loki answered comes out as it went in.
func TestLogDataOfARealLoki(t *testing.T) {
	f, err := os.Open("logql/testdata/queries.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<24)
	n := 0
	for sc.Scan() {
		var q struct {
			ID     string
			Path   string
			Params map[string]string
			Status int
			Answer json.RawMessage
		}
		if err := json.Unmarshal(sc.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		if q.Status != 200 {
			continue
		}
		n++
		a, err := readLogData(q.Answer, LogQuery{Instant: strings.HasSuffix(q.Path, "/query"), Limit: MaxLogsLimit, Forward: q.Params["direction"] == "forward"}, MaxLogsLimit)
		if err != nil {
			t.Errorf("%s: %v", q.ID, err)
			continue
		}
		data, err := a.Data()
		if err != nil {
			t.Errorf("%s: %v", q.ID, err)
			continue
		}
		if got, want := canonical(t, data), canonical(t, q.Answer); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %.300s\nwant %.300s", q.ID, data, q.Answer)
		}
	}
	if n < 30 {
		t.Errorf("only %d answers", n)
	}
}

// canonical is an answer whose streams and series have no order.
func canonical(t *testing.T, data []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	if list, ok := v["result"].([]any); ok && v["resultType"] != "scalar" {
		set := make(map[string]any)
		for _, s := range list {
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			set[string(b)] = true
		}
		v["result"] = set
	}
	return v
}

func TestLogDataRefusesNonsense(t *testing.T) {
	for _, s := range []string{"", "null", "{}", `{"resultType":"streams","result":7}`, `[`} {
		if _, err := readLogData([]byte(s), LogQuery{}, 1); err == nil {
			t.Errorf("%q is read", s)
		}
	}
	b, err := (&LogAnswer{Kind: LogVector, SearchedBytes: 12}).Data()
	if err != nil || string(b) != `{"resultType":"vector","result":[],"stats":{"summary":{"totalBytesProcessed":12}}}` {
		t.Errorf("%s, %v", b, err)
	}
}
