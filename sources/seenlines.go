package sources

import "slices"

// maxSeen bounds the lines that a tail remembers.
const maxSeen = 20_000

// seenLines are the newest lines that a tail gave: of the time from from on it
// has all of them.
type seenLines struct {
	start  int64 // what is before is done, and not remembered
	newest int64
	counts lineCounts
	added  int // since the last pruning
}

func newSeenLines(start int64) *seenLines {
	return &seenLines{start: start, newest: start, counts: lineCounts{}}
}

// startAt says that nothing before at is wanted.
func (s *seenLines) startAt(at int64) { s.start = max(s.start, at) }

// from is where to go on: behind all that was given, but for what may be late.
func (s *seenLines) from() int64 {
	at := s.newest - int64(tailLate)
	var late []int64
	for k := range s.counts {
		if k.ts >= at {
			late = append(late, k.ts)
		}
	}
	if len(late) > tailReread {
		slices.Sort(late)
		at = late[len(late)-tailReread]
	}
	return max(s.start, min(at, s.newest-int64(tailOverlap)))
}

// add adds a line at our time now. One that is ahead of it does not move from:
// what is written until then would be missed.
func (s *seenLines) add(k lineKey, now int64) {
	s.newest = max(s.newest, min(k.ts, now))
	s.counts[k]++
	if s.added++; s.added >= 1000 {
		s.added = 0
		s.prune()
	}
}

func (s *seenLines) prune() {
	s.drop(s.from() - int64(tailKept))
	if len(s.counts) <= maxSeen {
		return
	}
	times := make([]int64, 0, len(s.counts))
	for k := range s.counts {
		times = append(times, k.ts)
	}
	slices.Sort(times)
	s.drop(times[len(times)-maxSeen])
	if len(s.counts) > 2*maxSeen { // of one time
		s.drop(times[len(times)-1] + 1)
	}
	s.newest = max(s.newest, s.start)
}

func (s *seenLines) drop(before int64) {
	s.startAt(before)
	for k := range s.counts {
		if k.ts < before {
			delete(s.counts, k)
		}
	}
}

// since are the lines given from a time on.
func (s *seenLines) since(from int64) lineCounts {
	out := lineCounts{}
	for k, n := range s.counts {
		if k.ts >= from {
			out[k] = n
		}
	}
	return out
}
