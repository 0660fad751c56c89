package incident

import "time"

// silence is after how long without a word what another gateway saw is judged by
// those that are left.
const silence = 5 * time.Minute

// Silence tells which gateways that share the records write no more. How long one
// is silent is measured here, from when its last word was seen: the clocks of two
// hosts are never compared. The zero value is ready.
type Silence struct {
	of map[string]word // by instance
}

// word is the last one of a gateway.
type word struct {
	revisions uint64 // of all open records that have one of it, added up
	seen      time.Time
}

// Of are those of the gateways with a trouble in an open record of records that
// have been silent for too long.
func (s *Silence) Of(records []Record, now time.Time) map[string]bool {
	revisions := map[string]uint64{}
	for _, r := range records {
		if !r.Open() {
			continue
		}
		for _, t := range r.Troubles {
			if t.Instance != "" {
				revisions[t.Instance] += 0
			}
		}
		for _, w := range r.Writers {
			if _, has := revisions[w.Instance]; has {
				revisions[w.Instance] += w.Revision
			}
		}
	}
	next, silent := map[string]word{}, map[string]bool{}
	for instance, n := range revisions {
		w, known := s.of[instance]
		if !known || w.revisions != n {
			w = word{n, now}
		}
		next[instance] = w
		silent[instance] = now.Sub(w.seen) > silence
	}
	s.of = next
	return silent
}
