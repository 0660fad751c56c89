package evidence

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

const nothingOwn = "it is primary of nothing, probes are asked instead"

// window: seconds served, never the time that passed.
func (j *judge) window() Row {
	if j.t.PrimaryOfNothing {
		return Row{RowWindow, Pass, nothingOwn}
	}
	text := fmt.Sprintf("served %s of %s", span(j.w.Served), span(j.t.Observe))
	if j.observed() {
		return Row{RowWindow, Pass, text}
	}
	return Row{RowWindow, NoData, text}
}

func (j *judge) requests() Row {
	switch n := j.w.Requests(); {
	case j.t.PrimaryOfNothing:
		return Row{RowRequests, Pass, nothingOwn}
	case n >= j.t.MinRequests && n > 0:
		return Row{RowRequests, Pass, fmt.Sprintf("%d, at least %d asked", n, j.t.MinRequests)}
	default:
		return j.lacking(RowRequests, fmt.Sprintf("%d, at least %d asked", n, j.t.MinRequests))
	}
}

// lacking writes a row that requests alone do not settle: probes stand in where
// too few requests come.
func (j *judge) lacking(name, text string) Row {
	switch {
	case j.standIn:
		return Row{name, Pass, fmt.Sprintf("%s; too few come, %d passed probes stand in", text, j.w.ProbesPassed)}
	case j.slow:
		return Row{name, NoData, fmt.Sprintf("%s; too few come, %d of %d probes passed that can stand in",
			text, min(j.w.ProbesPassed, standInProbes), standInProbes)}
	}
	return Row{name, NoData, text}
}

func (j *judge) success() Row {
	if j.t.PrimaryOfNothing {
		return Row{RowSuccess, Pass, nothingOwn}
	}
	asked := fmt.Sprintf("at least %s asked", percent(1-j.ok.bound))
	if j.ok.n == 0 {
		return j.lacking(RowSuccess, "no requests, "+asked)
	}
	return j.ratio(RowSuccess, j.ok, fmt.Sprintf("%s of %.0f, %s", percent(1-j.ok.k/j.ok.n), j.ok.n, asked), "without a failure", 1)
}

func (j *judge) firstOutput() Row {
	switch {
	case j.t.PrimaryOfNothing:
		return Row{RowFirstOutput, Pass, nothingOwn}
	case !j.b.HasFirstOutput:
		return Row{RowFirstOutput, Pass, "nothing to compare: the history has none either"}
	}
	name := "p" + strconv.FormatFloat(math.Round(j.b.Quantile*1e4)/100, 'f', -1, 64)
	asked := fmt.Sprintf("at most %s asked", span(j.limit()))
	now, has := j.w.FirstOutput(j.b.Quantile)
	if !has && j.b.assumed && j.w.tally.ok > 0 && j.probed() && len(j.w.runs) == 0 {
		// Requests come and none streams: whether they fail, success judges.
		return Row{RowFirstOutput, Pass, fmt.Sprintf("no first outputs, nothing streams; %d passed probes stand in", j.w.ProbesPassed)}
	}
	if !has {
		return j.lacking(RowFirstOutput, "no first outputs, "+name+" "+asked)
	}
	text := fmt.Sprintf("%s %s of %.0f, %s", name, span(now), j.first.n, asked)
	if j.first.verdict == NoData && j.first.k > j.first.bound*j.first.n {
		return Row{RowFirstOutput, NoData, text + "; not sure yet"} // probes do not stand in for slow answers
	}
	return j.ratio(RowFirstOutput, j.first, text, "none slower", j.streaming)
}

// ratio writes a tested ratio; part is how much of the requests it is measured on,
// clean what is said of requests none of which is bad.
func (j *judge) ratio(name string, r watched, text, clean string, part float64) Row {
	if r.verdict != NoData {
		return Row{name, r.verdict, text}
	}
	more := math.Inf(1) // nothing measures it
	least := more
	if part > 0 {
		more, least = math.Ceil(r.more/part), math.Ceil(r.clean/part)
	}
	switch {
	case r.k == 0 && least < min(more, never):
		// What is usual has failures: an upstream that had none is sure sooner.
		text = fmt.Sprintf("%s; sure after %.0f more %s", text, least, clean)
		if more < never {
			text += fmt.Sprintf(", %.0f if they go as usual", more)
		}
	case more >= never:
		text += "; not sure yet"
	default:
		text = fmt.Sprintf("%s; sure after %.0f more if they go as usual", text, more)
	}
	return j.lacking(name, text)
}

func (j *judge) classes() Row {
	if c, n := j.novelty(); n > 0 {
		return Row{RowClasses, Fail, fmt.Sprintf("%s is new: %d of %d requests", c, n, j.w.Requests())}
	}
	if j.b.known == nil {
		return Row{RowClasses, Pass, "no history to call a class new by; the success ratio judges them"}
	}
	return Row{RowClasses, Pass, "none that is new"}
}

func (j *judge) breaker() Row {
	switch n := j.w.Trips; n {
	case 0:
		return Row{RowBreaker, Pass, "did not open"}
	case 1:
		return Row{RowBreaker, Fail, "opened once"}
	default:
		return Row{RowBreaker, Fail, fmt.Sprintf("opened %d times", n)}
	}
}

func (j *judge) probes() Row {
	text := fmt.Sprintf("%d passed, %d failed", j.w.ProbesPassed, j.w.ProbesFailed)
	switch {
	case j.w.worst >= failedProbes:
		return Row{RowProbes, Fail, fmt.Sprintf("%s, %d of one kind in a row", text, j.w.worst)}
	case j.t.PrimaryOfNothing && !j.probed():
		return Row{RowProbes, NoData, fmt.Sprintf("%s, %d passed ones asked", text, standInProbes)}
	case j.w.ProbesPassed+j.w.ProbesFailed == 0:
		return Row{RowProbes, Pass, "none in this window, none failed"}
	}
	return Row{RowProbes, Pass, text}
}

// percent writes a ratio so that less than all never reads as all.
func percent(r float64) string {
	p := math.Round(r*1e4) / 100
	if p >= 100 && r < 1 {
		return ">99.99%"
	}
	return strconv.FormatFloat(max(p, 0), 'f', -1, 64) + "%"
}

// span writes a time for people, to three figures.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Minute:
		return d.Round(time.Second).String()
	}
	d = d.Round(time.Second)
	if s := d % time.Minute; s != 0 {
		return fmt.Sprintf("%dm%ds", d/time.Minute, s/time.Second)
	}
	return fmt.Sprintf("%dm", d/time.Minute)
}
