package ui

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// The glyphs of a spark line, from a real zero up: below each of sparkLevels
// one, and one for what is above all. What is no value looks like none of them.
const (
	sparkSteps, sparkStepsASCII = "▁▂▃▄▅▆▇█", ".:;+*#%@"
	sparkIdle, sparkIdleASCII   = "·", "-"
	sparkNone                   = " "
)

// sparkLevels are the same on each screen and each day: a line as high as
// yesterday's means as much as yesterday.
var sparkLevels = [...]float64{0.01, 0.02, 0.05, 0.1, 0.25, 0.5}

// spark draws points, one column each.
func (m *model) spark(points []sources.Point) string {
	steps, idle := []rune(sparkSteps), sparkIdle
	if m.th.ascii {
		steps, idle = []rune(sparkStepsASCII), sparkIdleASCII
	}
	var b strings.Builder
	for _, p := range points {
		switch {
		case p.State == api.StateIdle:
			b.WriteString(idle)
		case p.State != api.StateValue:
			b.WriteString(sparkNone)
		case p.Value <= 0:
			b.WriteRune(steps[0])
		default:
			i := 0
			for i < len(sparkLevels) && p.Value >= sparkLevels[i] {
				i++
			}
			b.WriteRune(steps[i+1])
		}
	}
	return b.String()
}

// sparkRow is the last n points of the history with how long that is; nil if
// there is nothing to draw. ratio is what stands beside it. If it has a value that is
// newer than a history which ends without one, that is its last point: the history is
// asked for seldom, and the two do not contradict each other. A history without any
// series is then from before there was one.
func (m *model) sparkRow(d *data, now time.Time, n int, ratio sources.Number) row {
	h := d.history.Value()
	whole := d.history.Whole(now)
	switch {
	case h == nil && !d.history.Failing(now):
		return nil
	case h == nil || whole.State == sources.Unknown:
		return row{{"30m ", dim}, {"??", warn}}
	}
	points := h.Spark[max(len(h.Spark)-n, 0):]
	if len(points) == 0 || !asValue(ratio) && !slices.ContainsFunc(points, isValue) {
		return nil
	}
	label := strconv.Itoa(len(points)*int(sources.HistoryEvery/time.Minute)) + "m "
	some := slices.ContainsFunc(points, func(p sources.Point) bool { return p.State != api.StateNone })
	if last := points[len(points)-1]; some && asValue(ratio) && !isValue(last) && ratio.At.After(last.At) {
		points = append(slices.Clone(points[1:]), sources.Point{At: ratio.At, State: api.StateValue, Value: ratio.Value})
	}
	if !slices.ContainsFunc(points, isValue) {
		return row{{label, dim}, {"...", dim}}
	}
	st := normal
	if whole.State != sources.Value {
		st = dim
	}
	return row{{label, dim}, {m.spark(points), st}}
}

func isValue(p sources.Point) bool { return p.State == api.StateValue }

// sparkLegend says what the steps of a spark line are.
func (m *model) sparkLegend(w int) []row {
	steps, idle := sparkSteps, sparkIdle
	if m.th.ascii {
		steps, idle = sparkStepsASCII, sparkIdleASCII
	}
	under := make([]string, len(sparkLevels))
	for i, l := range sparkLevels {
		under[i] = text.RatioPercent(l)
	}
	return entry("  "+steps, "the fallback ratio minute by minute: a real zero, under "+strings.Join(under, ", ")+", and above; "+idle+" is idle, a gap is none", w, normal)
}
