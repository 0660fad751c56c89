package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"failback/gateway/decision"
)

const (
	windowVersion = 1
	// mostStored bounds the text of a stored window or history.
	mostStored = 1 << 20
	// mostTargets bounds the candidates and capabilities whose probes are told
	// apart; further ones are taken as one.
	mostTargets = 64
	mostName    = 256
	// mostServed bounds a stored time: a century.
	mostServed = 100 * 365 * 24 * time.Hour
)

// Window is the evidence of one step: what happened while its share was in
// force. The zero value is an empty one. It is not safe for concurrent use; a
// copy is made with Clone. It is about 4 kB.
type Window struct {
	Share int // percent, of the step; 0 if nobody said
	// Served counts the seconds in which the gateway was up, monotonic.
	Served time.Duration
	Trips  uint64 // closed → open transitions of its breakers

	ProbesPassed uint64
	ProbesFailed uint64

	tally tally
	// runs are the probes that failed in a row and have not passed since, by
	// candidate and capability; worst is the longest run there ever was.
	runs  []run
	worst int
}

type run struct {
	Target string `json:"target"`
	Failed int    `json:"failed"`
}

// Add counts s if it is valid.
func (w *Window) Add(s Sample) { w.tally.add(s) }

// Trip counts a breaker that opened.
func (w *Window) Trip() { w.Trips++ }

// Serve adds time in which the gateway was up. A clock that went back adds nothing.
func (w *Window) Serve(d time.Duration) {
	if d > 0 {
		w.Served += d
	}
}

// Probe counts a probe's end. target names the candidate and capability: only
// failures of the same one are in a row.
func (w *Window) Probe(target string, ok bool) {
	if len(target) > mostName {
		target = target[:mostName]
	}
	i := slices.IndexFunc(w.runs, func(r run) bool { return r.Target == target })
	if ok {
		w.ProbesPassed++
		if i >= 0 {
			w.runs = slices.Delete(w.runs, i, i+1)
		}
		return
	}
	w.ProbesFailed++
	if i < 0 {
		if i = len(w.runs); i < mostTargets {
			w.runs = append(w.runs, run{Target: target})
		} else {
			i--
		}
	}
	w.runs[i].Failed++
	w.worst = max(w.worst, w.runs[i].Failed)
}

// Requests counts the valid ones.
func (w *Window) Requests() int { return int(w.tally.valid()) }

// Failed counts the valid ones that failed.
func (w *Window) Failed() int { return int(w.tally.failures()) }

// FailedOf counts the failures of a class.
func (w *Window) FailedOf(c decision.Class) int { return int(w.tally.failed[indexOf(c)]) }

// FirstOutput is a quantile of the first outputs, within 2 %; false if there
// was none.
func (w *Window) FirstOutput(q float64) (time.Duration, bool) { return w.tally.first.Quantile(q) }

// Clone returns a copy that shares nothing.
func (w *Window) Clone() Window {
	c := *w
	c.runs = slices.Clone(w.runs)
	return c
}

type windowJSON struct {
	Version      int       `json:"version"`
	Share        int       `json:"share"`
	ServedNS     int64     `json:"served_ns"`
	Trips        uint64    `json:"trips"`
	ProbesPassed uint64    `json:"probes_passed"`
	ProbesFailed uint64    `json:"probes_failed"`
	Runs         []run     `json:"runs,omitempty"`
	Worst        int       `json:"worst_run"`
	Counts       tallyJSON `json:"counts"`
}

// MarshalJSON writes the window with its version.
func (w Window) MarshalJSON() ([]byte, error) {
	return json.Marshal(windowJSON{
		Version: windowVersion, Share: w.Share, ServedNS: int64(w.Served), Trips: w.Trips,
		ProbesPassed: w.ProbesPassed, ProbesFailed: w.ProbesFailed, Runs: w.runs, Worst: w.worst,
		Counts: w.tally.stored(),
	})
}

// UnmarshalJSON refuses another version and whatever MarshalJSON cannot have
// written: half of a window would be evidence that nobody saw.
func (w *Window) UnmarshalJSON(data []byte) error {
	var j windowJSON
	if err := strict(data, &j); err != nil {
		return fmt.Errorf("window: %w", err)
	}
	t, err := j.Counts.tally()
	if err != nil {
		return fmt.Errorf("window: %w", err)
	}
	switch {
	case j.Version != windowVersion:
		return fmt.Errorf("window: version %d is not %d", j.Version, windowVersion)
	case j.Share < 0 || j.Share > 100:
		return fmt.Errorf("window: a share of %d%% cannot be", j.Share)
	case j.ServedNS < 0 || j.ServedNS > int64(mostServed):
		return fmt.Errorf("window: %d ns served cannot be", j.ServedNS)
	case max(j.Trips, j.ProbesPassed, j.ProbesFailed) > mostCount:
		return errors.New("window: a count is too large to be one")
	case j.Worst < 0 || uint64(j.Worst) > j.ProbesFailed || (j.Worst == 0) != (j.ProbesFailed == 0):
		return fmt.Errorf("window: a run of %d among %d failed probes cannot be", j.Worst, j.ProbesFailed)
	case len(j.Runs) > mostTargets:
		return fmt.Errorf("window: %d runs of probes are more than %d", len(j.Runs), mostTargets)
	}
	seen := map[string]bool{}
	for _, r := range j.Runs {
		if r.Failed < 1 || r.Failed > j.Worst || len(r.Target) > mostName || seen[r.Target] {
			return errors.New("window: a run of probes is not one")
		}
		seen[r.Target] = true
	}
	*w = Window{
		Share: j.Share, Served: time.Duration(j.ServedNS), Trips: j.Trips,
		ProbesPassed: j.ProbesPassed, ProbesFailed: j.ProbesFailed, tally: t, runs: j.Runs, worst: j.Worst,
	}
	return nil
}

// strict reads one JSON value without fields that are not known.
func strict(data []byte, into any) error {
	if len(data) > mostStored {
		return fmt.Errorf("%d bytes are more than %d", len(data), mostStored)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// perSecond returns n in so much time per second, 0 if that cannot be said.
func perSecond(n uint64, in time.Duration) float64 {
	if in <= 0 {
		return 0
	}
	return float64(n) / in.Seconds()
}

// finite returns x, or 0 if it is not a rate.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		return 0
	}
	return x
}
