package sources

import (
	"context"
	"time"

	"failback/gateway/operator/api"
)

const (
	// HistoryEvery is the distance of the points of a History, and how often it
	// is worth asking for.
	HistoryEvery = time.Minute
	// HistoryRange is how far a History looks back.
	HistoryRange = 6 * time.Hour
	// SparkRange is how much of it Spark holds.
	SparkRange = 30 * time.Minute
	// MetricsTimeout is how long an answer of Prometheus is waited for, where the
	// gateway names no other time.
	MetricsTimeout = 10 * time.Second
)

// Metrics is what the console asks of a Prometheus. It is safe for concurrent
// use. Every question ends by itself after the configured timeout.
type Metrics interface {
	// Overview asks for what the overview shows; gen is the question's, from
	// Feed.Ask.
	Overview(ctx context.Context, gen uint64) Answer[Overview]
	// History asks for the last hours of the whole fallback ratio, and since when
	// it is over limit (0 to 1); nil: there is no limit.
	History(ctx context.Context, gen uint64, limit *float64) Answer[History]
	// Addr is where it is, without user info; empty: the gateway's own.
	Addr() string
	// Period is how often a new sample is taken, for Feed.Period. Asked three
	// times as often, a sample is no older than one period and a third in good
	// order.
	Period() time.Duration
	// Window is what every rate is taken over, by the rule of the function of that
	// name.
	Window() time.Duration
	// Told takes what the gateway says now of its own store; of a configured server
	// it does nothing. It may be called while questions are asked.
	Told(api.Source)
}

// Reading is a number with the reason for its state.
type Reading struct {
	api.Number
	// Why says in a few words why it is no value, empty of a value.
	Why string
	// Over says that the value is the highest that can be told: the true one is
	// over it.
	Over bool
}

// WhyOf is why r, judged to be n, is no value; empty also where only its age is
// the reason: that of an old state is none for this one.
func (r Reading) WhyOf(n Number) string {
	if n.State == Unknown && r.State != StateUnknown {
		return ""
	}
	return r.Why
}

// States of a Reading beyond those of an api.Number.
const (
	// StateWaiting: the series are there, but too young to tell a rate.
	StateWaiting = "waiting"
	// StateUnknown: this one question failed, or its answer makes no sense.
	StateUnknown = "unknown"
)

// Overview is what Prometheus knows of now, of one moment, and of an hour ago.
type Overview struct {
	// Ratio is the whole fallback ratio, 0 to 1.
	Ratio Reading
	// PerModel and PerUpstream are its parts, sorted by name: of the requests for
	// a model, and of those whose primary is the upstream.
	PerModel, PerUpstream []RatioRow
	// Traffic is requests a second.
	Traffic Reading
	// FailedBefore (0 to 1) and FirstOutputP95Before (seconds) are of one hour
	// ago; their time is that of the question.
	FailedBefore, FirstOutputP95Before Reading
	// Alerts are the names of the alerts of this program's rules that fire,
	// Violations the tasks that fell back although they may not in the last hour,
	// Gone the upstreams that did not know a model within the window. Each sorted;
	// empty also where nobody evaluates rules, or the question failed.
	Alerts, Violations, Gone []string // text from outside
	// Sampled is when the newest sample was taken, by Prometheus's clock; zero if
	// there is none. Readings of now carry it.
	Sampled time.Time
	// Warnings are Prometheus's own, what could not be asked, and what in the
	// answers does not fit; not empty: the answer is partial. Text from outside.
	Warnings []string
	// Notes say more of a whole answer: what Prometheus remarks, and that series
	// are younger than the window. Text from outside.
	Notes []string
}

// RatioRow is the fallback ratio of one model or upstream.
type RatioRow struct {
	Name string // text from outside
	Reading
}

// History is the whole fallback ratio over the last hours.
type History struct {
	// Spark is the last SparkRange, oldest first, a point every HistoryEvery.
	Spark []Point
	Over  Over
	// Warnings and Notes are as those of an Overview.
	Warnings, Notes []string
}

// Point is one point of a History. Its state is value, idle or none.
type Point struct {
	At    time.Time
	State string
	Value float64
}

// Over says since when the ratio is over its limit.
type Over struct {
	// State is one of the constants below.
	State OverState
	// Since is the first point of the unbroken time over the limit: of a History's,
	// and of what Overviews of the same Metrics said between them.
	Since time.Time
	// Within is how long before Since it was known not to be over: it began in
	// between.
	Within time.Duration
	// Blind says that nothing is known of the time right before Since: it may
	// be over for longer.
	Blind bool
}

// OverState is what is known of a limit.
type OverState uint8

const (
	OverUnknown OverState = iota // no limit, or no value to compare
	OverNot                      // the newest value is not over it
	OverSince                    // over it since Since
	OverLonger                   // over it for longer than HistoryRange
)
