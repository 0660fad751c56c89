package text

import "failback/gateway/operator/api"

// Tried is for each attempt of d which of its candidates was asked, -1 where none
// of it fits. An attempt names a provider alone, which may stand several times
// among the candidates, each with another model: candidates are asked in their
// order, and the one that answered is known.
func Tried(d *api.Decision) []int {
	tried := make([]int, len(d.Attempts))
	at := -1
	for i := range d.Attempts {
		a := &d.Attempts[i]
		switch {
		case i > 0 && d.Attempts[i-1].Provider == a.Provider && d.Attempts[i-1].Next != "switch":
			// The same again: also what an older version, that does not say, has most.
		default:
			at = nextOf(d, a.Provider, at+1)
		}
		tried[i] = at
	}
	if n := len(tried); n > 0 && d.Attempts[n-1].Class == "ok" {
		if c := Answered(d); c >= 0 {
			tried[n-1] = c
		}
	}
	return tried
}

// nextOf is the first candidate of a provider from a place on, one that was not
// passed by if there is one; else the first of it at all; -1: there is none.
func nextOf(d *api.Decision, provider string, from int) int {
	first, passed := -1, -1
	for i := range d.Candidates {
		c := &d.Candidates[i]
		switch {
		case c.Provider != provider:
			continue
		case i >= from && c.Skipped == "":
			return i
		case i >= from && passed < 0:
			passed = i
		}
		if first < 0 {
			first = i
		}
	}
	if passed >= 0 {
		return passed
	}
	return first
}

// Answered is the candidate that answered, -1 if none did.
func Answered(d *api.Decision) int {
	of := -1
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if d.SelectedProvider == "" || c.Provider != d.SelectedProvider {
			continue
		}
		if c.Model == d.SelectedModel && c.Skipped == "" {
			return i
		}
		if of < 0 {
			of = i
		}
	}
	return of
}

// nameOf is what a candidate is called: its provider, and its model where another
// candidate has the same provider.
func nameOf(d *api.Decision, i int) string {
	c := &d.Candidates[i]
	for j := range d.Candidates {
		if o := &d.Candidates[j]; j != i && o.Provider == c.Provider && o.Model != c.Model {
			return c.Provider + "/" + c.Model
		}
	}
	return c.Provider
}

// asked is which candidate attempt i asked, -1 if that is not known, and what it
// is called.
func asked(d *api.Decision, i int) (at int, name string) {
	if at = Tried(d)[i]; at < 0 {
		return at, d.Attempts[i].Provider
	}
	return at, nameOf(d, at)
}
