package sources

import (
	"math"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

func TestJudge(t *testing.T) {
	const period = 2 * time.Second
	ours := time.Date(2026, 11, 30, 4, 12, 0, 0, time.UTC)
	theirs := ours.Add(-7 * time.Minute) // the jump host's clock is wrong
	clock := Clock{Sent: ours, Received: ours, At: theirs}
	value := func(v float64, age time.Duration) api.Number {
		return api.Number{State: api.StateValue, Value: v, At: theirs.Add(-age)}
	}
	tests := []struct {
		name    string
		n       api.Number
		clock   Clock
		later   time.Duration // since the answer
		failing bool
		want    State
		age     time.Duration
		dim     bool
	}{
		{name: "nothing asked yet", want: Waiting},
		{name: "never answered, failing", failing: true, want: Unknown},
		{name: "fresh", n: value(1, 0), clock: clock, want: Value},
		{name: "a real zero is a value", n: value(0, 0), clock: clock, want: Value},
		{name: "just under two periods", n: value(1, 0), clock: clock, later: 2*period - 1, want: Value, age: 2*period - 1},
		{name: "two periods", n: value(1, 0), clock: clock, later: 2 * period, want: Ageing, age: 2 * period, dim: true},
		{name: "just under three periods", n: value(1, 0), clock: clock, later: 3*period - 1, want: Ageing, age: 3*period - 1, dim: true},
		{name: "three periods", n: value(1, 0), clock: clock, later: 3 * period, want: Unknown, age: 3 * period, dim: true},
		{name: "answers succeed, the sample stands still", n: value(1, 4*time.Minute), clock: clock, want: Unknown, age: 4 * time.Minute, dim: true},
		{name: "failing source, young sample", n: value(1, 0), clock: clock, later: time.Second, failing: true, want: Ageing, age: time.Second, dim: true},
		{name: "idle", n: api.Number{State: api.StateIdle, At: theirs}, clock: clock, want: Idle},
		{name: "idle and old", n: api.Number{State: api.StateIdle, At: theirs}, clock: clock, later: 3 * period, want: Unknown, age: 3 * period, dim: true},
		{name: "idle, source failing", n: api.Number{State: api.StateIdle, At: theirs}, clock: clock, failing: true, want: Idle, dim: true},
		{name: "none", n: api.Number{State: api.StateNone, At: theirs}, clock: clock, want: None},
		{name: "none and old", n: api.Number{State: api.StateNone, At: theirs}, clock: clock, later: 3 * period, want: Unknown, age: 3 * period, dim: true},
		{name: "0/0 that came as a value", n: value(math.NaN(), 0), clock: clock, want: Idle},
		{name: "infinite", n: value(math.Inf(1), 0), clock: clock, want: Unknown},
		{name: "a state of a version to come", n: api.Number{State: "guessed", Value: 1, At: theirs}, clock: clock, want: Unknown},
		{name: "no sample time is the answer's", n: api.Number{State: api.StateValue, Value: 1}, clock: clock, later: time.Second, want: Value, age: time.Second},
		{name: "a sample of the future is of now", n: value(1, -time.Hour), clock: clock, want: Value},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Judge(tt.n, tt.clock, ours.Add(tt.later), period, tt.failing)
			if got.State != tt.want || got.Age != tt.age || got.Dim != tt.dim {
				t.Errorf("got %s, age %s, dim %t; want %s, %s, %t", got.State, got.Age, got.Dim, tt.want, tt.age, tt.dim)
			}
		})
	}
}

// A number that cannot be believed keeps its last value and its time, for the
// detail view.
func TestJudgeKeepsTheLastValue(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	got := Judge(api.Number{State: api.StateValue, Value: 0.25, At: at}, Clock{Sent: at, Received: at, At: at}, at.Add(time.Hour), time.Second, true)
	if got.State != Unknown || got.Value != 0.25 || !got.At.Equal(at) {
		t.Errorf("got %+v", got)
	}
}

func TestClock(t *testing.T) {
	ours := time.Date(2026, 11, 30, 4, 12, 0, 0, time.UTC)
	c := Clock{Sent: ours, Received: ours.Add(200 * time.Millisecond), At: ours.Add(3 * time.Minute)}
	if got, want := c.Skew(), 3*time.Minute-100*time.Millisecond; got != want {
		t.Errorf("skew %s, want %s", got, want)
	}
	// Taken half way: at Received the source's clock is 100 ms further.
	if got, want := c.Now(c.Received.Add(time.Second)), c.At.Add(1100*time.Millisecond); !got.Equal(want) {
		t.Errorf("now %s, want %s", got, want)
	}
	// Our clock set back by an hour does not make an answer younger than it is.
	if got := c.Since(ours.Add(-time.Hour)); got != 0 {
		t.Errorf("since %s after the clock was set back, want 0", got)
	}
	var zero Clock
	if !zero.Now(ours).Equal(ours) || zero.Skew() != 0 {
		t.Error("a clock that knows nothing is not ours")
	}
}

// The monotonic clock stands still while a laptop sleeps; the one on the wall
// does not, and the age follows it.
func TestElapsedOverSleep(t *testing.T) {
	asleep := time.Now()
	awake := asleep.Round(0).Add(8 * time.Hour) // as if only the wall clock had gone on
	if got := Elapsed(asleep, awake); got < 8*time.Hour {
		t.Errorf("elapsed %s, want 8h", got)
	}
}
