package breaker

import "time"

// Settings are the rules of one upstream's buckets. They are taken as given:
// defaults belong to the configuration, and every field says what 0 does.
type Settings struct {
	// FailureRate opens a bucket when this part (0 to 1) of the attempts in
	// Window failed and there were at least MinSamples. 0 turns the rule off.
	FailureRate float64
	MinSamples  int           // below 1 it is 1
	Window      time.Duration // below a second it is a second
	// Consecutive opens a bucket after that many failed requests in a row, or
	// as many as it completed per second in the 10 s before, whichever is more.
	// While the upstream is reduced (SetReduced), 2 takes its place. 0 turns
	// the rule off.
	Consecutive int
	// SlowOver is the least limit above which an attempt is slow, SlowRate the
	// part (0 to 1) of slow ones in Window that opens the bucket. 0 in either
	// turns the rule off.
	SlowOver time.Duration
	SlowRate float64
	// Cooldown is how long a bucket stays open at least, doubling with each
	// opening within 10 minutes up to CooldownMax. A Retry-After makes it longer;
	// an opening for 429s lasts as long as they asked for, if they did.
	Cooldown, CooldownMax time.Duration
	// Patience is how long Group.Wait waits at most. 0: as long as it is told.
	Patience time.Duration
	// Probes are the attempts a half-open bucket lets through at once, and the
	// successes it needs; one failure reopens. Below 1 it is 1.
	Probes int
	// Shadow records what would have been done and refuses nothing.
	Shadow bool
	// EnforcePercent is the part of the requests that refusals bind, the others
	// pass as in Shadow. 0 binds none, 100 all.
	EnforcePercent int
}

// normal returns s with what must not be 0 put right.
func (s Settings) normal() Settings {
	s.MinSamples = max(s.MinSamples, 1)
	s.Probes = max(s.Probes, 1)
	s.Window = max(s.Window, time.Second)
	s.Cooldown = max(s.Cooldown, 0)
	s.CooldownMax = max(s.CooldownMax, s.Cooldown)
	return s
}

func (s *Settings) minSamples() uint32 { return uint32(s.MinSamples) }

func (s *Settings) slowRule() bool { return s.SlowOver > 0 && s.SlowRate > 0 }
