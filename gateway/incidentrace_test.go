package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/incident"
	"failback/gateway/operator"
	"failback/gateway/operator/api"
)

// desk is the incidents of a gateway that has nothing else.
func desk() *control { return (*control)(&Gateway{incidents: newIncidents("gw")}) }

func (c *control) does(action, id string, cmd api.Command) (api.Result, error) {
	return c.ChangeIncident(context.Background(), operator.Actor{Name: "ana"}, action, id, cmd)
}

// Many open incidents at once: no more than may be are open, and all others hear so.
func TestIncidentsOpenedAtOnce(t *testing.T) {
	c := desk()
	var all sync.WaitGroup
	var mu sync.Mutex
	refused := 0
	for range 2 * incident.MaxOpen {
		all.Go(func() {
			_, err := c.does(operator.ActionIncidentOpen, "", api.Command{Reason: "x"})
			if _, is := errors.AsType[*api.Error](err); is {
				mu.Lock()
				refused++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if open := len(c.incidents.heads(true)); open != incident.MaxOpen || refused != incident.MaxOpen {
		t.Errorf("%d open, %d refused", open, refused)
	}
}

// While requests end, changes come and the gateway judges, 20 operators write into
// one incident, one opens a second, and the first is closed: everything is in it
// once, and the requests of its time are all counted.
func TestOneIncidentOfManyHands(t *testing.T) {
	c := desk()
	i := c.incidents
	res, err := c.does(operator.ActionIncidentOpen, "", api.Command{Reason: "x"})
	if err != nil {
		t.Fatal(err)
	}
	id := res.Incident.ID
	stop := make(chan struct{})
	var judge, all sync.WaitGroup
	judge.Go(func() {
		for now := time.Now(); ; now = now.Add(10 * time.Millisecond) {
			select {
			case <-stop:
				return
			default:
				i.step(now, incident.Situation{Instance: "gw"})
			}
		}
	})
	for n := range 20 {
		all.Go(func() {
			for k := range 16 {
				if _, err := c.does(operator.ActionIncidentNote, id, api.Command{Reason: fmt.Sprint(n, "-", k)}); err != nil {
					t.Error(err)
				}
				i.decision(&decision.Decision{RequestID: fmt.Sprint(n, "-", k), Primary: "A", Selected: "A", Status: decision.Completed})
			}
		})
		all.Go(func() {
			if n < 10 {
				i.event(decision.Event{Kind: decision.KindConfigReload, Time: time.Now(), Detail: fmt.Sprint("reload ", n)})
			}
		})
	}
	all.Wait()
	if _, err := c.does(operator.ActionIncidentClose, id, api.Command{Override: true, Reason: "over"}); err != nil {
		t.Error(err)
	}
	close(stop)
	judge.Wait()
	r, _, _ := i.book.Get(id)
	seen := map[string]int{}
	for _, e := range r.Entries {
		seen[e.Kind+e.Text]++
		if seen[e.Kind+e.Text] > 1 {
			t.Errorf("twice: %+v", e)
		}
	}
	if want := 320 + 10 + 2; len(r.Entries) != want || r.Counts.Primary != 320 || r.Open() {
		t.Errorf("%d entries of %d, %d requests of 320, %s", len(r.Entries), want, r.Counts.Primary, r.State)
	}
}

// Of many operators who answer one question at once, one answers it, and all others
// hear of that answer.
func TestIncidentAnsweredAtOnce(t *testing.T) {
	c := desk()
	res, err := c.does(operator.ActionIncidentOpen, "", api.Command{Reason: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var taken []string
	refused := map[string]int{}
	for n := range 20 {
		all.Go(func() {
			_, err := c.does(operator.ActionIncidentAnswer, res.Incident.ID, api.Command{Question: api.QuestionUsers, Answer: fmt.Sprint(n)})
			mu.Lock()
			defer mu.Unlock()
			if e, is := errors.AsType[*api.Error](err); is && e.Code == api.CodeStaleRevision {
				refused[e.Question.Answer]++
			} else {
				taken = append(taken, fmt.Sprint(n))
			}
		})
	}
	all.Wait()
	if len(taken) != 1 || refused[taken[0]] != 19 {
		t.Errorf("taken %v, refused %v", taken, refused)
	}
}

// Changes that come faster than they are looked at are lost, the oldest first, and
// the incident says how many.
func TestChangesWithoutRoomAreCounted(t *testing.T) {
	c := desk()
	i := c.incidents
	res, err := c.does(operator.ActionIncidentOpen, "", api.Command{Reason: "x"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	const more = 5000
	for n := range queuedEvents + more {
		i.event(decision.Event{Kind: decision.KindConfigReload, Time: now.Add(time.Duration(n)), Detail: fmt.Sprint(n)})
	}
	if n := len(i.queue); n != queuedEvents {
		t.Errorf("%d wait", n)
	}
	i.step(now.Add(time.Second), incident.Situation{Instance: "gw"})
	r, _, _ := i.book.Get(res.Incident.ID)
	if all := len(r.Entries) + r.Lost; all != 1+queuedEvents+more {
		t.Errorf("%d entries and %d lost", len(r.Entries), r.Lost)
	}
	if last := r.Entries[len(r.Entries)-1]; last.Event == nil || last.Event.Detail != fmt.Sprint(queuedEvents+more-1) {
		t.Errorf("the last is %+v", last)
	}
}

// A report is the incident's in which its request was answered, not that of the one
// that is open when it comes.
func TestAReportOfAnotherIncident(t *testing.T) {
	c := desk()
	i := c.incidents
	opens := func() string {
		t.Helper()
		res, err := c.does(operator.ActionIncidentOpen, "", api.Command{Reason: "x"})
		if err != nil {
			t.Fatal(err)
		}
		return res.Incident.ID
	}
	answers := func(id string) {
		i.decision(&decision.Decision{RequestID: id, Time: time.Now(), Primary: "A", Selected: "B", Fallback: true, Status: decision.DegradedCompleted})
	}
	bad := false
	reports := func(id string) {
		o := incident.Outcome{RequestID: id, Layer: api.LayerWorkflow, Good: &bad, By: "judge", Note: "of " + id}
		i.outcome(o, i.recent.Judge(o))
	}
	answers("before")
	first := opens()
	answers("first")
	if _, err := c.does(operator.ActionIncidentClose, first, api.Command{Override: true, Reason: "over"}); err != nil {
		t.Fatal(err)
	}
	answers("between")
	second := opens()
	answers("second")
	for _, id := range []string{"before", "first", "between", "second"} {
		reports(id)
	}
	i.flush(time.Now())
	for id, want := range map[string]incident.Tally{first: {Good: 1}, second: {Bad: 1}} {
		r, _, _ := i.book.Get(id)
		if got := r.Counts.Workflow.Degraded; got != want || r.NotesBy(byClient) != int(want.Bad) {
			t.Errorf("%s: %+v, %d notes", id, got, r.NotesBy(byClient))
		}
	}
}
