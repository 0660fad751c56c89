package health

import "time"

// Settings is the health section of the configuration, as far as judging needs it.
type Settings struct {
	SuspectWindow  time.Duration // two groups red for so long degrade
	RecoveryWindow time.Duration // 100 % held for so long is healthy
	ErrorRate      float64       // 0 to 1; from it on the error rate is red
	MinTraffic     int           // fewer attempts in the window say nothing
	ExpiryMargin   time.Duration // what ends within it is red
	ProbeMaxAge    time.Duration // an older result says nothing
	// Window is the breaker's: the time over which traffic is counted.
	Window time.Duration
	// CredentialSwitch and QuotaSwitch say that errors.credential and
	// errors.quota_exhausted are "switch": without it a failing credential makes
	// an upstream suspect, never degraded.
	CredentialSwitch, QuotaSwitch bool
	// Shadow says what would be done and has it not done.
	Shadow bool
}

// Spans that no setting changes.
const (
	// ClearFor is how long red must be gone until it counts as gone.
	ClearFor = 10 * time.Second
	// OneGroupWindow is how long one group alone must be red to degrade.
	OneGroupWindow = 5 * time.Minute
	// OpeningsWindow is the time in which MaxOpenings of one breaker degrade.
	OpeningsWindow = 10 * time.Minute
	// RedMaxAge is the age from which a red measurement says nothing any more.
	RedMaxAge = 30 * time.Second
)

// MaxOpenings of one breaker, closed → open, within OpeningsWindow degrade.
const MaxOpenings = 3

// MaxRetreats of one failback end advancing without a person.
const MaxRetreats = 2
