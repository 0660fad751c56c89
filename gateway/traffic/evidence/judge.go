package evidence

import (
	"math"
	"time"

	"failback/gateway/decision"
)

// The verdicts of a step and of each row.
const (
	Pass   = "pass"
	Fail   = "fail"
	NoData = "no data" // hold: neither can be told yet
)

// The rows, in their order.
const (
	RowWindow      = "window"
	RowRequests    = "requests"
	RowSuccess     = "success"
	RowFirstOutput = "first_output"
	RowClasses     = "classes"
	RowBreaker     = "breaker"
	RowProbes      = "probes"
)

const (
	// newClassRequests and newClassRatio are from when on failures of a class
	// that was not there before fail a step.
	newClassRequests = 5
	newClassRatio    = 0.002
	// fewestFailures are needed to fail a ratio: one event may break several
	// requests, and the tests take each for evidence of its own.
	fewestFailures = 5
	// standInProbes stand in for requests that do not come.
	standInProbes = 10
	// failedProbes in a row of one candidate and capability fail a step.
	failedProbes = 2
	// patienceFactor times observe is what a step waits for its requests before
	// probes may stand in.
	patienceFactor = 4
)

// Terms are what a step asks for, from failback.* of the configuration.
type Terms struct {
	MinRequests          int
	SuccessTolerance     float64 // by how much the success ratio may be lower
	FirstOutputTolerance float64 // by which factor the first output may be higher
	Observe              time.Duration
	// PrimaryOfNothing says that no request can be evidence: probes alone are.
	PrimaryOfNothing bool
}

// Row is one condition of the gate.
type Row struct {
	Name    string
	Verdict string
	Text    string // for people
}

// Verdict is what Judge says, with the numbers it says it of.
type Verdict struct {
	Verdict  string // Fail if any row fails, Pass if every row passes, else NoData
	Rows     []Row
	Requests int
	Failed   int
	// FirstOutput is the window's, at the baseline's quantile; valid if HasFirstOutput.
	FirstOutput    time.Duration
	HasFirstOutput bool
	// EnoughIn is when there will be enough to pass at the present rate if all
	// goes on as in the baseline; 0: there is, or nobody can tell.
	EnoughIn time.Duration
}

// Judge says whether the step that w is the window of bears the next one.
// earlier are the windows of this failback's lower steps. rate is the present
// rate of w's valid requests a second, 0 if unknown.
//
// Nothing passes for want of measurements: a pass takes the observation time,
// MinRequests valid requests (or standInProbes) and every row. A fail needs no
// time.
func Judge(w Window, earlier []Window, b Baseline, t Terms, rate float64) Verdict {
	j := judge{w: &w, earlier: earlier, b: b, t: t}
	j.rate = max(finite(rate), perSecond(w.tally.valid(), w.Served))
	v := Verdict{Requests: w.Requests(), Failed: w.Failed()}
	v.FirstOutput, v.HasFirstOutput = w.FirstOutput(b.Quantile)
	j.measure()
	v.Rows = []Row{
		j.window(), j.requests(), j.success(), j.firstOutput(), j.classes(), j.breaker(), j.probes(),
	}
	v.Verdict = together(v.Rows)
	if v.Verdict == NoData {
		v.EnoughIn = j.enoughIn(finite(rate))
	}
	return v
}

func together(rows []Row) string {
	all := Pass
	for _, r := range rows {
		if r.Verdict == Fail {
			return Fail
		}
		if r.Verdict != Pass {
			all = NoData
		}
	}
	return all
}

// judge holds one judgement while its rows are written.
type judge struct {
	w       *Window
	earlier []Window
	b       Baseline
	t       Terms
	rate    float64 // the higher of now and of the window, so that a pause is no low traffic

	ok, first watched
	streaming float64 // part of the requests that have a first output
	slow      bool    // none failed, and requests alone would take too long
	standIn   bool    // and probes speak for them
}

// watched is a ratio under test: k of n were bad, at most bound may be.
type watched struct {
	k, n     float64
	bound    float64
	expected float64 // as in the baseline; negative if unknown
	step     float64 // the smallest excess over bound that is looked for; see brokenEvidence
	verdict  string
	more     float64 // how many more are needed to pass, if they come as expected
	clean    float64 // and if none of them is bad
}

// test judges the ratio by the counts alone; see keptEvidence.
func (r *watched) test() {
	r.verdict = NoData
	if r.k >= fewestFailures && brokenEvidence(r.k, r.n, r.bound, r.step) >= failAt {
		r.verdict, r.more, r.clean = Fail, never, never
		return
	}
	r.clean = remaining(r.k, r.n, r.bound, r.likely(), 0)
	if r.more = remaining(r.k, r.n, r.bound, r.likely(), r.likely()); r.n > 0 && r.more == 0 {
		r.verdict = Pass
	}
}

// likely is the ratio a well upstream will show; a quarter of the bound where
// the baseline cannot say.
func (r *watched) likely() float64 {
	if r.expected < 0 {
		return r.bound / 4
	}
	return r.expected
}

// whole is how many observations a window needs from its start.
func (r *watched) whole() float64 {
	return max(1, remaining(0, 0, r.bound, r.likely(), r.likely()))
}

// limit is what the first output is compared with.
func (j *judge) limit() time.Duration {
	return time.Duration(float64(j.b.FirstOutput) * j.t.FirstOutputTolerance)
}

func (j *judge) measure() {
	w := &j.w.tally
	j.ok = watched{
		k: float64(w.failures()), n: float64(w.valid()),
		bound: 1 - j.b.Success + j.t.SuccessTolerance, expected: 1 - j.b.Success,
		step: j.t.SuccessTolerance,
	}
	j.ok.test()
	j.first = watched{
		k: float64(w.first.Above(j.limit())), n: float64(w.first.n),
		bound: 1 - j.b.Quantile, expected: j.b.beyond(j.limit()),
	}
	j.first.test()

	// What an upstream as good as its baseline would need decides whether there
	// is too little traffic, not how this one does: a doubtful one gets no
	// second way in.
	j.streaming = part(w)
	if w.failures() > 0 {
		return // probes stand in for no request that failed
	}
	usual := j.streaming
	if j.b.known != nil {
		// First outputs that the history had and the window lost are a fault of
		// measuring, not little traffic.
		usual = part(j.b.known)
	}
	need := max(float64(j.t.MinRequests), j.ok.whole())
	if j.b.HasFirstOutput {
		need = max(need, j.first.whole()/usual)
	}
	j.slow = need > j.rate*(patienceFactor*j.t.Observe).Seconds()
	j.standIn = j.slow && j.probed() && len(j.w.runs) == 0
}

// part is how many of the successes had a first output; without any success, all.
func part(t *tally) float64 {
	if t.ok == 0 {
		return 1
	}
	return float64(t.first.n) / float64(t.ok)
}

func (j *judge) probed() bool { return j.w.ProbesPassed >= standInProbes }

func (j *judge) observed() bool { return j.t.PrimaryOfNothing || j.w.Served >= j.t.Observe }

// novelty returns the class whose failures are new and many enough, most first.
// Its part is taken of the requests that did not fail otherwise, so that other
// failures cannot hide it.
func (j *judge) novelty() (decision.Class, uint64) {
	var worst decision.Class
	var most uint64
	for _, c := range decision.Classes {
		n := j.w.tally.failed[indexOf(c)]
		if c == decision.OK || n <= most || n < newClassRequests || !Counts(c) {
			continue
		}
		if float64(n) < newClassRatio*float64(j.w.tally.ok+n) || j.b.knows(c) || j.seenBefore(c) {
			continue
		}
		worst, most = c, n
	}
	return worst, most
}

func (j *judge) seenBefore(c decision.Class) bool {
	for i := range j.earlier {
		if j.earlier[i].FailedOf(c) > 0 {
			return true
		}
	}
	return false
}

// enoughIn is the longest that anything still lacking will take.
func (j *judge) enoughIn(rate float64) time.Duration {
	var seconds float64
	if !j.observed() {
		seconds = (j.t.Observe - j.w.Served).Seconds()
	}
	wait := 0.0
	if !j.t.PrimaryOfNothing && !j.standIn {
		more := max(float64(j.t.MinRequests)-j.ok.n, 0, j.ok.more)
		if j.b.HasFirstOutput && j.first.more > 0 {
			more = max(more, j.first.more/j.streaming)
		}
		wait = seconds0(more, rate)
	}
	if j.t.PrimaryOfNothing || j.slow {
		probes := math.Inf(1)
		if j.probed() {
			probes = 0
		} else if p := perSecond(j.w.ProbesPassed, j.w.Served); p > 0 {
			probes = float64(standInProbes-j.w.ProbesPassed) / p
		}
		if j.t.PrimaryOfNothing {
			wait = probes
		} else {
			wait = min(wait, probes)
		}
	}
	if seconds = max(seconds, wait); seconds >= never || math.IsNaN(seconds) {
		return 0
	}
	return time.Duration(math.Ceil(seconds)) * time.Second
}

// seconds0 is how long more takes at rate: nothing for nothing, else for ever
// without a rate.
func seconds0(more, rate float64) float64 {
	if more <= 0 {
		return 0
	}
	if rate <= 0 {
		return math.Inf(1)
	}
	return more / rate
}
