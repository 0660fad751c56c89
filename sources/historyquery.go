package sources

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"failback/gateway/operator/api"
	"failback/sources/promql"
)

// past keeps what earlier histories were told, since six hours of rates cost
// Prometheus, which may be the gateway itself, half a second of work.
type past struct {
	mu sync.Mutex
	// mu guards everything that follows.
	end   time.Time // of the range that rates cover; zero: nothing is kept
	rates historyRates
	// seen is what Overviews said of the ratio in that time, oldest first: they
	// come more often than points, and are what was shown.
	seen []Point
}

// historyRates are the rates of requests and of fallbacks by time in unix
// milliseconds. They are never changed once others can see them.
type historyRates [2]map[int64]float64

// historyMetrics are what those are of.
var historyMetrics = [2]string{promql.RequestsTotal, promql.FallbacksTotal}

// upTo returns what is kept of the range from start to end, and from when on it
// must be asked for. The last window is asked for again: its samples may have
// been on their way.
func (p *past) upTo(start, end time.Time, window time.Duration) (kept historyRates, from time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from = p.end.Add(-window)
	if p.end.IsZero() || p.end.After(end) || from.Before(start) {
		return historyRates{}, start
	}
	return p.rates, from
}

// see takes the ratio that an Overview of a moment said.
func (p *past) see(ratio Reading, at time.Time) {
	if ratio.State != api.StateValue && ratio.State != api.StateIdle {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	old := 0
	for old < len(p.seen) && p.seen[old].At.Before(at.Add(-HistoryRange)) {
		old++
	}
	p.seen = slices.Delete(p.seen, 0, old)
	for n := len(p.seen); n > 0 && !p.seen[n-1].At.Before(at); n-- { // a clock that went back
		p.seen = p.seen[:n-1]
	}
	p.seen = append(p.seen, Point{At: at, State: ratio.State, Value: ratio.Value})
}

// saw returns what was seen from start to end, oldest first.
func (p *past) saw(start, end time.Time) []Point {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.seen), func(s Point) bool { return s.At.Before(start) || s.At.After(end) })
}

// keep takes rates that cover the history up to end.
func (p *past) keep(rates historyRates, end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rates, p.end = rates, end
}

// History asks for the last hours of the whole fallback ratio: for all of them
// once, and then for what is new.
func (p *prom) History(ctx context.Context, gen uint64, limit *float64) Answer[History] {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	clock, _, err := p.begin(ctx)
	if err != nil {
		return Answer[History]{Gen: gen, Clock: Clock{Sent: clock.Sent, Received: clock.Received}, Err: err}
	}
	// On whole minutes, so that the points of one answer are those of the next.
	end := clock.At.Truncate(HistoryEvery)
	start := end.Add(-HistoryRange)
	kept, from := p.past.upTo(start, end, p.Window())
	var (
		fresh historyRates
		heard [2]said
		errs  [2]error
		wg    workers
	)
	for i, metric := range historyMetrics {
		wg.Go(func() {
			fresh[i], heard[i], errs[i] = p.ranged(ctx, p.queries.Rate("", metric), promv1.Range{Start: from, End: end, Step: HistoryEvery})
		})
	}
	wg.Wait()
	h := &History{}
	for i, err := range errs {
		if err != nil {
			return Answer[History]{Gen: gen, Clock: Clock{Sent: clock.Sent, Received: time.Now()}, Err: ofQuestion("the last hours of "+historyMetrics[i], err)}
		}
		for _, w := range heard[i].warnings {
			h.Warnings = warn(h.Warnings, w)
		}
		for _, n := range heard[i].infos {
			h.Notes = warn(h.Notes, n)
		}
	}
	rates := joinRates(kept, fresh, start, from)
	if len(h.Warnings) == 0 { // what was partial is asked for again
		p.past.keep(rates, end)
	}
	points := joinPoints(rates[0], rates[1], start, int(HistoryRange/HistoryEvery)+1)
	h.Over = overSince(mergePoints(points, p.past.saw(start, clock.At)), limit, clock.At, p.Window())
	h.Spark = points[len(points)-int(SparkRange/HistoryEvery):]
	return Answer[History]{Gen: gen, Clock: clock, Value: h}
}

// joinRates is kept from start to before from, and fresh from there on.
func joinRates(kept, fresh historyRates, start, from time.Time) historyRates {
	var out historyRates
	for i := range out {
		out[i] = make(map[int64]float64, len(kept[i])+len(fresh[i]))
		for at, v := range kept[i] {
			if at >= start.UnixMilli() && at < from.UnixMilli() {
				out[i][at] = v
			}
		}
		maps.Copy(out[i], fresh[i])
	}
	return out
}
