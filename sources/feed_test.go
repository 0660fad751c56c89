package sources

import (
	"errors"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

func answer(gen uint64, at time.Time) Answer[api.State] {
	return Answer[api.State]{Gen: gen, Clock: Clock{Sent: at, Received: at, At: at}, Value: &api.State{Revision: gen, At: at}}
}

func TestFeedDropsLateAnswers(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	f := Feed[api.State]{Period: 2 * time.Second}
	first, ok := f.Ask(at)
	if !ok {
		t.Fatal("the first question was refused")
	}
	if _, ok := f.Ask(at.Add(time.Second)); ok {
		t.Fatal("a second question while the first is out")
	}
	second, ok := f.Ask(at.Add(6 * time.Second))
	if !ok {
		t.Fatal("a question that nobody answers blocks the next for ever")
	}
	if !f.Take(answer(second, at.Add(6*time.Second))) {
		t.Fatal("the newest answer was dropped")
	}
	if f.Take(answer(first, at.Add(7*time.Second))) {
		t.Error("a late answer to an old question was taken")
	}
	if f.Take(Answer[api.State]{Gen: first, Err: errors.New("late failure")}) || f.Err() != nil {
		t.Error("a late failure of an old question was taken")
	}
	if got := f.Value().Revision; got != second {
		t.Errorf("value of question %d, want %d", got, second)
	}
	if f.Take(answer(second, at)) {
		t.Error("one question was answered twice")
	}
	if f.Take(answer(second+1, at)) {
		t.Error("an answer to a question never asked was taken")
	}
}

func TestFeedDisconnect(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	f := Feed[api.State]{Period: 2 * time.Second}
	number := api.Number{State: api.StateValue, Value: 3, At: at}
	states := func(now time.Time) State { return f.Number(number, now).State }

	if got := states(at); got != Waiting {
		t.Fatalf("before the first answer: %s", got)
	}
	gen, _ := f.Ask(at)
	f.Take(answer(gen, at))
	if got := states(at.Add(time.Second)); got != Value {
		t.Fatalf("after an answer: %s", got)
	}
	gen, _ = f.Ask(at.Add(time.Second))
	f.Take(Answer[api.State]{Gen: gen, Err: errors.New("connection refused")})
	now := at.Add(2 * time.Second)
	if got := states(now); got != Ageing || !f.Failing(now) || f.Silence(now) != 2*time.Second {
		t.Errorf("after a failure: %s, failing %t, silent %s", got, f.Failing(now), f.Silence(now))
	}
	now = at.Add(6 * time.Second)
	if got := states(now); got != Unknown || f.Whole(now).State != Unknown {
		t.Errorf("three periods later: %s", got)
	}
	if f.Value() == nil {
		t.Error("the last good answer was thrown away")
	}
	gen, _ = f.Ask(now)
	number.At = now
	f.Take(answer(gen, now))
	if got := states(now); got != Value || f.Failing(now) || f.Err() != nil {
		t.Errorf("after it answers again: %s, failing %t", got, f.Failing(now))
	}
}

// A question that hangs is a source that does not answer, without an error.
func TestFeedHanging(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	f := Feed[api.State]{Period: 2 * time.Second}
	gen, _ := f.Ask(at)
	f.Take(answer(gen, at))
	f.Ask(at.Add(time.Second))
	if f.Failing(at.Add(5 * time.Second)) {
		t.Error("failing before three periods")
	}
	if !f.Failing(at.Add(6 * time.Second)) {
		t.Error("not failing after three periods of silence")
	}
}

// A source that nobody asked anything since it answered is not silent, but what it
// said gets old.
func TestFeedNotAsked(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	f := Feed[api.State]{Period: 2 * time.Second}
	gen, _ := f.Ask(at)
	f.Take(answer(gen, at))
	now := at.Add(time.Minute)
	if f.Failing(now) || f.Whole(now).State != Unknown {
		t.Errorf("failing %t, %s", f.Failing(now), f.Whole(now).State)
	}
	f.Ask(now)
	if f.Failing(now.Add(3 * time.Second)) {
		t.Error("failing before it had its time")
	}
	f.Ask(now.Add(6 * time.Second)) // as nobody waits for the other any more
	if !f.Failing(now.Add(6 * time.Second)) {
		t.Error("not failing after three periods")
	}
}

// A frozen feed is a copy: what comes later does not change it.
func TestFeedCopyIsFrozen(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	f := Feed[api.State]{Period: 2 * time.Second}
	gen, _ := f.Ask(at)
	f.Take(answer(gen, at))
	frozen := f
	gen, _ = f.Ask(at)
	f.Take(answer(gen, at))
	if frozen.Value().Revision != 1 || f.Value().Revision != 2 {
		t.Errorf("frozen %d, live %d", frozen.Value().Revision, f.Value().Revision)
	}
}
