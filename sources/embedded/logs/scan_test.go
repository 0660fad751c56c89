package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// show writes what a scanner found: one text per field, ? for what it does not
// say.
func show(sc *scanner) string {
	var parts []string
	for _, v := range sc.vals {
		if v.known {
			parts = append(parts, string(v.text))
		} else {
			parts = append(parts, "?")
		}
	}
	return strings.Join(parts, ",")
}

func TestScan(t *testing.T) {
	sc := newScanner([]string{"event", "task_type", "fallback_triggered"})
	for line, want := range map[string]string{
		`{"event":"a","task_type":"b","fallback_triggered":true}`: "a,b,true",
		` { "event" : "a" , "fallback_triggered" : false } `:      "a,,false",
		`{}`:                        ",,",
		`{"other":{"event":"x"}}`:   ",,",
		`{"other":[{"event":"x"}]}`: ",,",
		`{"event":""}`:              ",,",
		`{"event":"模型"}`:            "模型,,",
		`{"n":-1.5e+3,"z":0,"l":[],"o":{},"x":[1,[2],{"a":null}],"event":"e"}`: "e,,",

		// What another reader may see otherwise is not said.
		`{"event":"a","event":"b"}`: "?,,",
		`{"event":null}`:            "?,,",
		`{"event":5}`:               "?,,",
		`{"event":["a"]}`:           "?,,",
		`{"event":{"a":"b"}}`:       "?,,",
		`{"event":"a\u0062"}`:       "?,,",
		"{\"event\":\"\xff\"}":      "?,,",
		`{"event":"` + strings.Repeat("x", maxValue+1) + `"}`: "?,,",
		`{"task-type":"x"}`:               ",?,",
		`{"task type":"x","event":"a"}`:   "a,?,",
		`{"task":{"type":"x"}}`:           ",?,",
		`{"task":{}}`:                     ",?,",
		`{"fallback":{"triggered":true}}`: ",,?",
		`{"\u0065vent":"x"}`:              "?,?,?",
		`{"":{"event":"x"}}`:              "?,?,?",

		// What is not JSON to the end says nothing.
		``: "?,?,?", `x`: "?,?,?", `[]`: "?,?,?", `"event"`: "?,?,?", `{`: "?,?,?",
		`{"event":"a"`: "?,?,?", `{"event":"a",}`: "?,?,?", `{"event":"a"}x`: "?,?,?", `{"event":"a"}{}`: "?,?,?",
		`{"event":"a","x":[1,]}`: "?,?,?", `{"event":"a","x":01}`: "?,?,?", `{"event":"a","x":1.}`: "?,?,?",
		`{"event":"a","x":-}`: "?,?,?", `{"event":"a","x":1e}`: "?,?,?", `{"event":"a","x":tru}`: "?,?,?",
		`{"event":"a","x":"\q"}`: "?,?,?", `{"event":"a","x":"\u00g0"}`: "?,?,?", "{\"event\":\"a\",\"x\":\"\n\"}": "?,?,?",
		`{"event" "a"}`: "?,?,?", `{event:"a"}`: "?,?,?", `{"event":"a" "b":1}`: "?,?,?", `{"event":"a","x":{"a"}}`: "?,?,?",
		`{"event":"a","x":[1}}`: "?,?,?", `{"event":"a","x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`: "?,?,?",
		`{"event":"a","x":"\`: "?,?,?", `{"event":"a","x":"\u00`: "?,?,?", `{"event":`: "?,?,?",
	} {
		sc.line([]byte(line))
		if got := show(sc); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

func TestScanTime(t *testing.T) {
	sc := newScanner(nil)
	day := time.Date(2026, 3, 8, 2, 30, 0, 123456789, time.UTC).UnixNano()
	for line, want := range map[string]int64{
		`{"time":"2026-03-08T02:30:00.123456789Z"}`:                               day,
		`{"a":{"time":"x"},"time":"2026-03-08T04:30:00.123456789+02:00"}`:         day,
		`{"time":"2026-03-08T02:30:00.123456789Z","broken":`:                      day,
		`{"time":"2026-03-08T02:30:00.123456789Z","time":"2027-03-08T02:30:00Z"}`: day,
		`{"time":"2026-03-08 02:30"}`:                                             noTime,
		`{"time":1772937000}`:                                                     noTime,
		`{"time":"0001-01-01T00:00:00Z"}`:                                         noTime,
		`{"time":"9999-01-01T00:00:00Z"}`:                                         noTime,
		`{"nested":{"time":"2026-03-08T02:30:00Z"}}`:                              noTime,
		`time`: noTime,
	} {
		if got := sc.line([]byte(line)); got != want {
			t.Errorf("%s: %d, want %d", line, got, want)
		}
	}
}

// FuzzScan compares what a scanner says with what encoding/json reads.
func FuzzScan(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	f.Add([]byte(decision(r, 5, 1)))
	for _, s := range []string{`{"":1e999,"event":"a"}`, `{"event":"a","route":"b"}`, `{"event":"a","event":"b"}`, `{"event":{"a":1},"route":[1,2.5e-3]}`, `{"\u0065vent":null}`, `{"a":tru}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		sc := newScanner(Fields)
		sc.line(line)
		var object map[string]any
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber() // a number need not fit a float64 to be one
		err := d.Decode(&object)
		if err == nil {
			if _, more := d.Token(); more != io.EOF {
				err = errors.New("more follows")
			}
		}
		for i, name := range Fields {
			v := sc.vals[i]
			if !v.known {
				continue
			}
			if err != nil {
				t.Fatalf("%q is no object: %v; but %s is %q", line, err, name, v.text)
			}
			switch want := object[name].(type) {
			case string:
				if want != string(v.text) {
					t.Fatalf("%q: %s is %q, not %q", line, name, want, v.text)
				}
			case bool:
				if want != (string(v.text) == "true") {
					t.Fatalf("%q: %s is %v, not %q", line, name, want, v.text)
				}
			case nil:
				if _, there := object[name]; there || len(v.text) > 0 {
					t.Fatalf("%q: %s is absent, not %q", line, name, v.text)
				}
			default:
				t.Fatalf("%q: %s is %v, not %q", line, name, want, v.text)
			}
		}
	})
}

// FuzzSideFile: whatever a side file holds, reading it ends without a panic,
// and an index that is accepted leads nowhere else.
func FuzzSideFile(f *testing.F) {
	b := newBuilder(Fields[:2])
	b.setStream(testLabels)
	b.scan.line([]byte(`{"event":"a","route":"b"}`))
	b.add(5, 0, []byte("a"))
	b.add(3, 20, []byte("b"))
	b.x.size = 40
	body, err := encodeIndex(b.view())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body, 2)
	f.Fuzz(func(t *testing.T, body []byte, rows int) {
		s := summary{size: 40, rows: int(uint16(rows)), bodySize: int64(len(body)), body: sum(body)}
		x, err := decodeIndex(s, body, Fields[:2])
		if err != nil {
			return
		}
		for i := range x.ts {
			p := x.shapes[int(x.shape[i])*x.stride():][:x.stride()]
			_ = x.streams[p[0]]
			for _, c := range p[1:] {
				if c != unknown {
					_ = x.values[c-absent]
				}
			}
			if int64(x.off[i]) >= x.until(i) || x.until(i) > x.size {
				t.Fatalf("line %d is from %d to %d of %d", i, x.off[i], x.until(i), x.size)
			}
		}
	})
}
