package sources

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wireAnswer is what Loki answers to query and query_range.
type wireAnswer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   *struct {
		ResultType LogKind         `json:"resultType"`
		Result     json.RawMessage `json:"result"`
		Stats      struct {
			Summary struct {
				Bytes *int64 `json:"totalBytesProcessed"`
			} `json:"summary"`
		} `json:"stats"`
	} `json:"data"`
	Warnings []string `json:"warnings"`
}

// wireStream is one stream; an entry is [time, line] and may have more.
type wireStream struct {
	Stream map[string]string   `json:"stream"`
	Values [][]json.RawMessage `json:"values"`
}

// wireSeries is one series of a vector, with Value, or of a matrix.
type wireSeries struct {
	Metric map[string]string `json:"metric"`
	Value  *wirePoint        `json:"value"`
	Values []wirePoint       `json:"values"`
}

// wirePoint is [seconds, "number"].
type wirePoint LogPoint

func (p *wirePoint) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil {
		return errors.New("a point is no list")
	}
	if len(pair) != 2 {
		return fmt.Errorf("a point has %d parts, not 2", len(pair))
	}
	var seconds float64
	var text string
	if json.Unmarshal(pair[0], &seconds) != nil || json.Unmarshal(pair[1], &text) != nil {
		return errors.New(`a point is not [time, "number"]`)
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%q is no number", oneLine(text))
	}
	p.At, p.Value = time.UnixMilli(int64(math.Round(seconds*1000))).UTC(), value
	return nil
}

// readLogAnswer reads the answer to q, which was asked with that limit.
func readLogAnswer(body []byte, q LogQuery, asked int) (*LogAnswer, error) {
	var w wireAnswer
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, err
	}
	if w.Status == "error" {
		return nil, errors.New("an error as a success: " + oneLine(w.Error))
	}
	if w.Data == nil || w.Data.Result == nil {
		return nil, errors.New("it has no data: is this a Loki?")
	}
	a := &LogAnswer{Query: q, Kind: w.Data.ResultType, SearchedBytes: -1, Unparsed: -1}
	for _, text := range w.Warnings {
		a.Warnings = warn(a.Warnings, text)
	}
	if n := w.Data.Stats.Summary.Bytes; n != nil && *n >= 0 {
		a.SearchedBytes = *n
	}
	var err error
	switch a.Kind {
	case LogLines:
		if q.Instant {
			return nil, errors.New("lines where numbers were expected")
		}
		err = a.readLines(w.Data.Result, asked)
	case LogVector, LogMatrix:
		if (a.Kind == LogVector) != q.Instant {
			return nil, fmt.Errorf("a %s where the query asks for something else", a.Kind)
		}
		err = a.readSeries(w.Data.Result)
	case LogScalar:
		var p wirePoint
		if err = json.Unmarshal(w.Data.Result, &p); err == nil {
			a.Series = []LogSeries{{Points: []LogPoint{LogPoint(p)}}}
		}
	default:
		return nil, fmt.Errorf("its result type is %q", oneLine(string(a.Kind)))
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (a *LogAnswer) readSeries(result json.RawMessage) error {
	var series []wireSeries
	if err := json.Unmarshal(result, &series); err != nil {
		return err
	}
	for _, s := range series {
		out := LogSeries{Labels: s.Metric}
		if a.Kind == LogVector {
			if s.Value == nil {
				return errors.New("a series of the vector has no value")
			}
			s.Values = []wirePoint{*s.Value}
		}
		for _, p := range s.Values {
			out.Points = append(out.Points, LogPoint(p))
		}
		a.Series = append(a.Series, out)
	}
	return nil
}

// readLines merges the streams.
func (a *LogAnswer) readLines(result json.RawMessage, asked int) error {
	var streams []wireStream
	if err := json.Unmarshal(result, &streams); err != nil {
		return err
	}
	for i := range streams {
		if streams[i].Stream == nil {
			streams[i].Stream = map[string]string{}
		}
	}
	a.sortStreams(streams)
	for _, s := range streams {
		for _, entry := range s.Values {
			if len(entry) < 2 {
				return errors.New("an entry has no line")
			}
			row := LogRow{Labels: s.Stream}
			var ts string
			if json.Unmarshal(entry[0], &ts) != nil || json.Unmarshal(entry[1], &row.Line) != nil {
				return errors.New("an entry is not [time, line]")
			}
			var err error
			if row.TS, err = strconv.ParseInt(ts, 10, 64); err != nil {
				return fmt.Errorf("%q is no time in nanoseconds", oneLine(ts))
			}
			a.Rows = append(a.Rows, row)
		}
	}
	// Stable: lines of one stream at one time stay as they came.
	slices.SortStableFunc(a.Rows, func(x, y LogRow) int {
		if a.Query.Forward {
			return cmp.Compare(x.TS, y.TS)
		}
		return cmp.Compare(y.TS, x.TS)
	})
	limit := a.Query.Limit
	a.CutOff = len(a.Rows) > limit || asked <= limit && len(a.Rows) == limit
	if len(a.Rows) > limit {
		a.Rows = a.Rows[:limit]
	}
	return nil
}

// sortStreams puts streams in the order of their labels, so that lines of one
// time come in the same order in each answer, and backward in the reverse one.
func (a *LogAnswer) sortStreams(streams []wireStream) {
	keys := make(map[*wireStream]string, len(streams))
	order := make([]*wireStream, len(streams))
	for i := range streams {
		order[i] = &streams[i]
		keys[order[i]] = labelKey(streams[i].Stream)
	}
	slices.SortStableFunc(order, func(x, y *wireStream) int {
		if a.Query.Forward {
			return strings.Compare(keys[x], keys[y])
		}
		return strings.Compare(keys[y], keys[x])
	})
	sorted := make([]wireStream, len(streams))
	for i, s := range order {
		sorted[i] = *s
	}
	copy(streams, sorted)
}

func labelKey(labels map[string]string) string {
	names := make([]string, 0, len(labels))
	for name := range labels {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	for _, name := range names {
		b.WriteString(name)
		b.WriteByte(0)
		b.WriteString(labels[name])
		b.WriteByte(0)
	}
	return b.String()
}
