package logs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"failback/sources/logql"
)

// missing answers for what a Loki may have and this has not.
func missing(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotFound)
	_, _ = fmt.Fprintf(w, "404 page not found: below %s there are query, query_range, labels, label/NAME/values, series, format_query, index/stats, index/volume, tail and status/buildinfo\n", base)
}

// notAllowed answers to other methods than these.
func notAllowed(methods string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", methods)
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
	}
}

// format writes a query in its canonical form.
func format(_ context.Context, r *request) (any, error) {
	q, err := logql.Parse(r.form.Get("query"))
	if err != nil {
		return nil, err
	}
	return q.String(), nil
}

// indexStats are Loki's numbers of a selection. A chunk is a segment here, and
// bytes are those of the file: Loki's are an estimate too.
type indexStats struct {
	Streams int   `json:"streams"`
	Chunks  int   `json:"chunks"`
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// volumeOf is what a stream has in a time.
type volumeOf struct {
	labels         logql.Labels
	entries, bytes int64
}

// volumes counts the lines of the chosen streams in [start, end) from the index
// alone, and the segments that have any.
func (a *lokiAPI) volumes(ctx context.Context, r *request) (found []volumeOf, segments int, end int64, err error) {
	start, end, err := span(r.form, r.now, defaultSince)
	if err != nil {
		return nil, 0, 0, err
	}
	if end < start {
		return nil, 0, 0, badf("end timestamp must not be before or equal to start time")
	}
	ms, err := selector(r.form.Get("query"))
	if err != nil {
		return nil, 0, 0, err
	}
	vs, err := a.s.views(start, end)
	if err != nil {
		return nil, 0, 0, err
	}
	defer a.s.letGo(vs)
	at := map[string]int{}
	for _, v := range vs {
		if err := ctx.Err(); err != nil {
			return nil, 0, 0, err
		}
		x := v.x
		if x == nil {
			if x, err = a.s.load(v.g); err != nil {
				return nil, 0, 0, err
			}
		}
		place := make([]int, len(x.streams)) // in found; -1: not chosen
		for i, l := range x.streams {
			labels := labelsOf(l)
			if place[i] = -1; !matches(ms, labels) {
				continue
			}
			key := labels.String()
			n, ok := at[key]
			if !ok {
				n = len(found)
				at[key] = n
				found = append(found, volumeOf{labels: labels})
			}
			place[i] = n
		}
		has := false
		run := runOf(x, logql.Selection{Start: start, End: end})
		for row := run.from; row < run.to; row++ {
			if ts := x.ts[row]; ts < start || ts >= end {
				continue
			}
			if n := place[x.stream(row)]; n >= 0 {
				found[n].entries++
				found[n].bytes += x.until(row) - int64(x.off[row])
				has = true
			}
		}
		if has {
			segments++
		}
	}
	return slices.DeleteFunc(found, func(v volumeOf) bool { return v.entries == 0 }), segments, end, nil
}

func (a *lokiAPI) stats(ctx context.Context, r *request) (any, error) {
	found, segments, _, err := a.volumes(ctx, r)
	if err != nil {
		return nil, err
	}
	out := indexStats{Streams: len(found), Chunks: segments}
	for _, v := range found {
		out.Entries += v.entries
		out.Bytes += v.bytes
	}
	return out, nil
}

// volume answers with the bytes of the streams, added up by the labels that the
// selector names, or by targetLabels, the largest first.
func (a *lokiAPI) volume(ctx context.Context, r *request) (any, error) {
	if by := r.form.Get("aggregateBy"); by != "" && by != "series" {
		return nil, badf("aggregateBy=%s is not supported here, only series", by)
	}
	most, err := limit(r.form)
	if err != nil {
		return nil, err
	}
	found, _, end, err := a.volumes(ctx, r)
	if err != nil {
		return nil, err
	}
	var names []string
	if v := r.form.Get("targetLabels"); v != "" {
		names = strings.Split(v, ",")
	} else {
		ms, err := selector(r.form.Get("query"))
		if err != nil {
			return nil, err
		}
		for _, m := range ms {
			names = append(names, m.Name)
		}
	}
	type sum struct {
		metric map[string]string
		key    string
		bytes  int64
	}
	var sums []sum
	at := map[string]int{}
	for _, v := range found {
		var labels logql.Labels
		for _, l := range v.labels {
			if slices.Contains(names, l.Name) {
				labels = append(labels, l)
			}
		}
		key := labels.String()
		n, ok := at[key]
		if !ok {
			n = len(sums)
			at[key] = n
			s := sum{metric: map[string]string{}, key: key}
			for _, l := range labels {
				s.metric[l.Name] = l.Value
			}
			sums = append(sums, s)
		}
		sums[n].bytes += v.bytes
	}
	slices.SortFunc(sums, func(a, b sum) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), strings.Compare(a.key, b.key))
	})
	type sample struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"`
	}
	out := []sample{}
	seconds := json.Number(strconv.FormatFloat(float64(end/int64(time.Millisecond))/1000, 'f', -1, 64))
	for _, s := range sums[:min(most, len(sums))] {
		out = append(out, sample{s.metric, [2]any{seconds, strconv.FormatInt(s.bytes, 10)}})
	}
	return map[string]any{"resultType": "vector", "result": out}, nil
}
