package sources

import (
	"encoding/json"
	"strconv"
)

// readLogData reads what Loki has under "data" as the answer to q, which was
// asked with that limit.
func readLogData(data []byte, q LogQuery, asked int) (*LogAnswer, error) {
	body, err := json.Marshal(map[string]any{"status": "success", "data": json.RawMessage(data)})
	if err != nil {
		return nil, err
	}
	return readLogAnswer(body, q, asked)
}

// Data is a as Loki has it under "data", without the lines that were asked for
// to know whether there are more. Streams come in the order of their first line.
func (a *LogAnswer) Data() ([]byte, error) {
	type stats struct {
		Summary struct {
			Bytes int64 `json:"totalBytesProcessed"`
		} `json:"summary"`
	}
	out := struct {
		ResultType LogKind `json:"resultType"`
		Result     any     `json:"result"`
		Stats      *stats  `json:"stats,omitempty"`
	}{ResultType: a.Kind}
	if a.SearchedBytes >= 0 {
		out.Stats = new(stats)
		out.Stats.Summary.Bytes = a.SearchedBytes
	}
	switch a.Kind {
	case LogLines:
		out.Result = a.streams()
	case LogScalar:
		if len(a.Series) > 0 && len(a.Series[0].Points) > 0 {
			out.Result = a.Series[0].Points[0].wire()
		}
	default:
		out.Result = a.series()
	}
	return json.Marshal(out)
}

// streams are the lines by their labels.
func (a *LogAnswer) streams() any {
	type stream struct {
		Stream map[string]string `json:"stream"`
		Values [][2]string       `json:"values"`
	}
	streams := []*stream{}
	known := make(map[string]*stream)
	for _, r := range a.Rows {
		key := labelKey(r.Labels)
		s := known[key]
		if s == nil {
			s = &stream{Stream: r.Labels}
			if s.Stream == nil {
				s.Stream = map[string]string{}
			}
			known[key] = s
			streams = append(streams, s)
		}
		s.Values = append(s.Values, [2]string{strconv.FormatInt(r.TS, 10), r.Line})
	}
	return streams
}

// series are the numbers: of a vector one point each, of a matrix all.
func (a *LogAnswer) series() any {
	type series struct {
		Metric map[string]string `json:"metric"`
		Value  any               `json:"value,omitempty"`
		Values []any             `json:"values,omitempty"`
	}
	all := []series{}
	for _, s := range a.Series {
		out := series{Metric: s.Labels}
		if out.Metric == nil {
			out.Metric = map[string]string{}
		}
		for _, p := range s.Points {
			if a.Kind == LogVector {
				out.Value = p.wire()
				continue
			}
			out.Values = append(out.Values, p.wire())
		}
		all = append(all, out)
	}
	return all
}

// wire is p as [seconds, "number"].
func (p LogPoint) wire() any {
	return [2]any{json.Number(strconv.FormatFloat(float64(p.At.UnixMilli())/1000, 'f', -1, 64)), strconv.FormatFloat(p.Value, 'f', -1, 64)}
}
