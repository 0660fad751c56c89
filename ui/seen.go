package ui

import (
	"failback/gateway/operator/api"
)

const (
	// seenChunk is how many decisions are kept together, and seenChunks how many
	// such there are at most: about 100,000 decisions.
	seenChunk, seenChunks = 1024, 98
	// maxWords bounds the words that are kept once instead of in each decision.
	maxWords = 20_000
)

// seen are the decisions that the console holds: what all answers brought,
// merged, oldest first. It is a plain value: a copy stays as it is, since what
// another copy adds lies behind its end or in chunks of its own. A decision has
// a number, which is the same in every copy that has the decision.
type seen struct {
	chunks [][]api.Decision // each of seenChunk but the last
	first  uint64           // number of the first decision; a multiple of seenChunk
}

// end is the number behind the newest decision.
func (s *seen) end() uint64 {
	n := len(s.chunks)
	if n == 0 {
		return s.first
	}
	return s.first + uint64((n-1)*seenChunk+len(s.chunks[n-1]))
}

func (s *seen) len() int { return int(s.end() - s.first) }

// at is the decision with a number from first to end.
func (s *seen) at(n uint64) *api.Decision {
	i := n - s.first
	return &s.chunks[i/seenChunk][i%seenChunk]
}

// same is the number up to which s and an earlier copy o hold the same
// decisions.
func (s *seen) same(o *seen) uint64 {
	n := max(s.first, o.first)
	for n < min(s.end(), o.end()) {
		a, b := s.chunks[(n-s.first)/seenChunk], o.chunks[(n-o.first)/seenChunk]
		if &a[0] != &b[0] {
			break
		}
		n += uint64(min(len(a), len(b)))
		if len(a) != len(b) {
			break
		}
	}
	return n
}

// identity tells decisions apart: clients may use an id twice.
type identity struct {
	request string
	at      int64
}

func identityOf(d *api.Decision) identity { return identity{d.RequestID, d.Time.UnixNano()} }

// merge adds an answer, the newest decisions of the gateway without a gap,
// newest first. What it says of decisions that are there already is the same;
// where an earlier answer left a gap it may fill it.
func (s *seen) merge(ds []api.Decision, words *words) {
	if len(ds) == 0 {
		return
	}
	keep, fresh := s.meet(ds)
	s.chunks = append([][]api.Decision(nil), s.chunks...) // copies keep theirs
	if keep < s.end() {
		s.cut(keep)
	}
	for i := fresh - 1; i >= 0; i-- {
		s.add(words.decision(&ds[i]))
	}
	if over := len(s.chunks) - seenChunks; over > 0 {
		s.chunks = append([][]api.Decision(nil), s.chunks[over:]...) // the old array holds on to them
		s.first += uint64(over * seenChunk)
	}
}

// meet finds where ds, newest first, meets what is there: what is there from the
// number keep on gives way, and the newest fresh of ds follow it.
func (s *seen) meet(ds []api.Decision) (keep uint64, fresh int) {
	end := s.end()
	if s.len() == 0 {
		return end, len(ds)
	}
	// In good order the newest that is there is in ds and what follows follows.
	newest := identityOf(s.at(end - 1))
	for i := range ds {
		if identityOf(&ds[i]) != newest {
			continue
		}
		n := end - 1
		for j := i; j < len(ds) && identityOf(s.at(n)) == identityOf(&ds[j]); j++ {
			if j == len(ds)-1 {
				return end, i
			}
			if n == s.first {
				break // ds goes further back
			}
			n--
		}
		break
	}
	in := make(map[identity]bool, len(ds))
	for i := range ds {
		in[identityOf(&ds[i])] = true
	}
	keep = end
	for n := end; n > s.first && end-n < uint64(len(ds)); n-- {
		if in[identityOf(s.at(n-1))] {
			keep = n - 1
		}
	}
	return keep, len(ds)
}

// cut drops the decisions from number n on. s.chunks are its own.
func (s *seen) cut(n uint64) {
	i := int(n-s.first) / seenChunk
	rest := s.chunks[i][:int(n-s.first)%seenChunk]
	s.chunks = s.chunks[:i]
	if len(rest) > 0 { // what is behind it belongs to copies
		s.chunks = append(s.chunks, append(make([]api.Decision, 0, seenChunk), rest...))
	}
}

// add adds the newest. s.chunks are its own.
func (s *seen) add(d api.Decision) {
	n := len(s.chunks)
	if n == 0 || len(s.chunks[n-1]) == seenChunk {
		s.chunks = append(s.chunks, make([]api.Decision, 0, seenChunk))
		n++
	}
	s.chunks[n-1] = append(s.chunks[n-1], d)
}

// words keeps each word once: most of what decisions say is the same.
type words struct{ of map[string]string }

func (w *words) one(p *string) {
	if *p == "" {
		return
	}
	if s, ok := w.of[*p]; ok {
		*p = s
		return
	}
	if w.of == nil || len(w.of) >= maxWords {
		w.of = make(map[string]string)
	}
	w.of[*p] = *p
}

// decision returns d with its common words shared. d itself stays as it is.
func (w *words) decision(d *api.Decision) api.Decision {
	v := *d
	for _, p := range []*string{
		&v.Event, &v.TaskType, &v.Model, &v.Endpoint, &v.PrimaryProvider, &v.SelectedProvider, &v.SelectedModel, &v.ResponseModel,
		&v.Route, &v.WorkflowStatus, &v.Reason, &v.FailedProvider, &v.ServiceVersion, &v.Instance,
	} {
		w.one(p)
	}
	v.Candidates = append([]api.DecisionCandidate(nil), v.Candidates...)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		for _, p := range []*string{&c.Provider, &c.Model, &c.Skipped} {
			w.one(p)
		}
	}
	v.Attempts = append([]api.DecisionAttempt(nil), v.Attempts...)
	for i := range v.Attempts {
		a := &v.Attempts[i]
		for _, p := range []*string{&a.Provider, &a.Region, &a.Capability, &a.Class, &a.Code, &a.Detail} {
			w.one(p)
		}
	}
	return v
}
