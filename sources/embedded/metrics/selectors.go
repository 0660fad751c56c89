package metrics

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// selection is what the endpoints for names have in common.
type selection struct {
	start, end time.Time
	sets       [][]*labels.Matcher
	limit      int // 0 means none
}

// hint asks for one more than the limit, to know whether there is more.
func (s *selection) hint() int {
	if s.limit == 0 {
		return 0
	}
	return s.limit + 1
}

func (s *Store) selection(r *http.Request) (selection, *apiError) {
	var sel selection
	var err error
	if sel.limit, err = parseLimit(r.Form.Get("limit")); err != nil {
		return sel, badParameter("limit", err)
	}
	if sel.start, err = timeParameter(r, "start", minTime); err != nil {
		return sel, badParameter("start", err)
	}
	if sel.end, err = timeParameter(r, "end", maxTime); err != nil {
		return sel, badParameter("end", err)
	}
	var bad *apiError
	sel.sets, bad = s.matchers(r)
	return sel, bad
}

// matchers are those of each selector of r.
func (s *Store) matchers(r *http.Request) ([][]*labels.Matcher, *apiError) {
	for _, m := range r.Form["match[]"] {
		if bad := s.tooLong("match[]", m); bad != nil {
			return nil, bad
		}
		if err := scan(m); err != nil {
			return nil, badParameter("match[]", err)
		}
	}
	sets, err := s.parser.ParseMetricSelectors(r.Form["match[]"])
	if err != nil {
		return nil, badParameter("match[]", err)
	}
	for _, set := range sets {
		if !slices.ContainsFunc(set, func(m *labels.Matcher) bool { return m != nil && !m.Matches("") }) {
			return nil, badParameter("match[]", errors.New("match[] must contain at least one non-empty matcher"))
		}
	}
	return sets, nil
}

func (s *Store) querier(ctx context.Context, sel selection) (storage.Querier, *apiError) {
	q, err := paced(ctx, s.db).Querier(sel.start.UnixMilli(), sel.end.UnixMilli())
	if err != nil {
		return nil, errorOf(err)
	}
	return q, nil
}

// series lists label sets.
func (s *Store) series(ctx context.Context, r *http.Request) (answer, *apiError) {
	if len(r.Form["match[]"]) == 0 {
		return answer{}, &apiError{kind: badData, err: errors.New("no match[] parameter provided")}
	}
	sel, bad := s.selection(r)
	if bad != nil {
		return answer{}, bad
	}
	q, bad := s.querier(ctx, sel)
	if bad != nil {
		return answer{}, bad
	}
	defer q.Close()
	hints := &storage.SelectHints{Start: sel.start.UnixMilli(), End: sel.end.UnixMilli(), Func: "series", Limit: sel.hint()}
	sets := make([]storage.SeriesSet, 0, len(sel.sets))
	for _, m := range sel.sets {
		sets = append(sets, q.Select(ctx, len(sel.sets) > 1, hints, m...))
	}
	set := sets[0]
	if len(sets) > 1 {
		set = storage.NewMergeSeriesSet(sets, 0, storage.ChainedSeriesMerge)
	}
	var found []labels.Labels
	for set.Next() {
		if len(found)%128 == 0 && ctx.Err() != nil {
			return answer{}, errorOf(ctx.Err())
		}
		found = append(found, set.At().Labels())
		if sel.limit > 0 && len(found) > sel.limit {
			break
		}
	}
	if err := set.Err(); err != nil {
		return answer{}, errorOf(err)
	}
	notes := set.Warnings()
	if sel.limit > 0 && len(found) > sel.limit {
		found, notes = found[:sel.limit], notes.Add(errTruncated)
	}
	return answer{data: func(e *encoder) { e.labelSets(found) }, notes: notes}, nil
}

// labelNames lists the names of labels.
func (s *Store) labelNames(ctx context.Context, r *http.Request) (answer, *apiError) {
	return s.names(ctx, r, func(q storage.LabelQuerier, h *storage.LabelHints, m ...*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelNames(ctx, h, m...)
	})
}

// labelValues lists the values of one label.
func (s *Store) labelValues(ctx context.Context, r *http.Request) (answer, *apiError) {
	name := r.PathValue("name")
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return answer{}, &apiError{kind: badData, err: errors.New("invalid label name: " + strconv.Quote(name))}
	}
	return s.names(ctx, r, func(q storage.LabelQuerier, h *storage.LabelHints, m ...*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelValues(ctx, name, h, m...)
	})
}

// names asks for each of the selectors and merges the answers.
func (s *Store) names(ctx context.Context, r *http.Request, ask func(storage.LabelQuerier, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error)) (answer, *apiError) {
	sel, bad := s.selection(r)
	if bad != nil {
		return answer{}, bad
	}
	q, bad := s.querier(ctx, sel)
	if bad != nil {
		return answer{}, bad
	}
	defer q.Close()
	sets := sel.sets
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	all := map[string]bool{}
	var notes annotations.Annotations
	for _, m := range sets {
		found, more, err := ask(q, &storage.LabelHints{Limit: sel.hint()}, m...)
		if err != nil {
			return answer{}, errorOf(err)
		}
		notes = notes.Merge(more)
		for _, n := range found {
			all[strings.Clone(n)] = true // may point into a block
		}
	}
	names := slices.Sorted(maps.Keys(all))
	if sel.limit > 0 && len(names) > sel.limit {
		names, notes = names[:sel.limit], notes.Add(errTruncated)
	}
	return answer{data: func(e *encoder) { e.strings(names) }, notes: notes}, nil
}

// metadata lists type and help of the metrics of the last scrape.
func (s *Store) metadata(_ context.Context, r *http.Request) (answer, *apiError) {
	limit := -1
	if v := r.Form.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			return answer{}, &apiError{kind: badData, err: errors.New("limit must be a number")}
		}
		limit = n
	}
	if v := r.Form.Get("limit_per_metric"); v != "" {
		if _, err := strconv.Atoi(v); err != nil { // each has one here
			return answer{}, &apiError{kind: badData, err: errors.New("limit_per_metric must be a number")}
		}
	}
	name := r.Form.Get("metric")
	s.scraper.metaMu.RLock()
	defer s.scraper.metaMu.RUnlock()
	var found []metadata
	for _, m := range s.scraper.meta {
		if limit >= 0 && len(found) >= limit {
			break
		}
		if name == "" || m.name == name {
			found = append(found, m)
		}
	}
	return answer{data: func(e *encoder) { e.metadata(found) }}, nil
}

// version is that of the Prometheus whose libraries these are. Clients judge
// by it what they may ask for.
var version = sync.OnceValue(func() string {
	const unknown = "3.0.0"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	for _, d := range info.Deps {
		if d.Path != "github.com/prometheus/prometheus" {
			continue
		}
		// Release 3.16.0 is the module's v0.316.0.
		var minor, patch int
		parts := strings.Split(strings.TrimPrefix(d.Version, "v0.3"), ".")
		if len(parts) != 2 {
			return unknown
		}
		var err1, err2 error
		minor, err1 = strconv.Atoi(parts[0])
		patch, err2 = strconv.Atoi(parts[1])
		if err1 != nil || err2 != nil {
			return unknown
		}
		return "3." + strconv.Itoa(minor) + "." + strconv.Itoa(patch)
	}
	return unknown
})

// buildInfo says whose API this is.
func buildInfo(context.Context, *http.Request) (answer, *apiError) {
	return answer{data: func(e *encoder) {
		e.raw(`{"version":`)
		e.string(version())
		e.raw(`,"revision":"","branch":"","buildUser":"failback","buildDate":"","goVersion":`)
		e.string(runtime.Version())
		e.raw(`}`)
	}}, nil
}
