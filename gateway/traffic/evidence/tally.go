package evidence

import (
	"fmt"

	"failback/gateway/decision"
)

// classes is the length of decision.Classes, as a constant; a test checks it.
const classes = 25

// tally is what windows, minutes and hours count alike. Its size is fixed.
type tally struct {
	ok     uint64
	failed [classes]uint64 // by indexOf
	// first holds the first outputs of successes: a stream that broke is no
	// proof of speed.
	first Histogram
}

func (t *tally) add(s Sample) {
	if !s.Valid {
		return
	}
	if !s.OK || (s.Class != decision.OK && s.Class != "") {
		t.failed[indexOf(s.Class)]++
		return
	}
	t.ok++
	if s.HasFirstOutput {
		t.first.Add(s.FirstOutput)
	}
}

func (t *tally) merge(o *tally) {
	t.ok += o.ok
	for i, n := range o.failed {
		t.failed[i] += n
	}
	t.first.Merge(&o.first)
}

func (t *tally) failures() uint64 {
	var sum uint64
	for _, n := range t.failed {
		sum += n
	}
	return sum
}

func (t *tally) valid() uint64 { return t.ok + t.failures() }

// tallyJSON is how a tally is stored.
type tallyJSON struct {
	OK     uint64                    `json:"ok"`
	Failed map[decision.Class]uint64 `json:"failed,omitempty"`
	First  Histogram                 `json:"first"`
}

func (t *tally) stored() tallyJSON {
	j := tallyJSON{OK: t.ok, First: t.first}
	for i, n := range t.failed {
		if n > 0 {
			if j.Failed == nil {
				j.Failed = map[decision.Class]uint64{}
			}
			j.Failed[decision.Classes[i]] = n
		}
	}
	return j
}

func (j *tallyJSON) tally() (tally, error) {
	t := tally{ok: j.OK, first: j.First}
	if t.ok > mostCount {
		return tally{}, fmt.Errorf("%d successes cannot be", t.ok)
	}
	for c, n := range j.Failed {
		i, known := classIndex[c]
		if !known || c == decision.OK {
			return tally{}, fmt.Errorf("%q is not a class of failures", c)
		}
		if n == 0 || n > mostCount {
			return tally{}, fmt.Errorf("%d failures of class %s cannot be", n, c)
		}
		t.failed[i] = n
	}
	if t.first.n > t.ok {
		return tally{}, fmt.Errorf("%d first outputs of %d successes cannot be", t.first.n, t.ok)
	}
	return t, nil
}
