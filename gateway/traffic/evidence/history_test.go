package evidence

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway/decision"
)

// minutes adds so many, each with n requests.
func minutes(h *History, now time.Time, many, n int, healthy bool, s Sample) time.Time {
	for range many {
		h.Tick(healthy, now)
		for range n {
			h.Add(s, healthy, now)
		}
		now = now.Add(time.Minute)
	}
	return now
}

func TestHistoryIsEnough(t *testing.T) {
	for _, c := range []struct {
		minutes, each int
		want          bool
	}{
		{60, 25, true}, {60, 24, false}, {59, 1000, false}, {750, 2, true}, {749, 2, false}, {1440, 1, false},
	} {
		var h History
		now := minutes(&h, time.Now(), c.minutes, c.each, true, good(time.Second))
		h.Tick(true, now) // ends the last minute
		b, ok := fromHistory(&h, now)
		if ok != c.want {
			t.Errorf("%d minutes of %d are a baseline: %v", c.minutes, c.each, ok)
		}
		if ok && (b.Source != FromMinutes || b.Requests != c.minutes*c.each || b.Success != 1 || !b.HasFirstOutput) {
			t.Errorf("baseline is %+v", b)
		}
	}
}

func TestOnlyHealthyMinutesCount(t *testing.T) {
	var h History
	now := minutes(&h, time.Now(), 60, 100, true, good(time.Second))
	now = minutes(&h, now, 600, 100, false, bad(decision.ServerError))
	// One word of another state spoils the whole minute.
	h.Add(bad(decision.TLS), true, now)
	h.Tick(false, now.Add(time.Second))
	h.Add(bad(decision.TLS), true, now.Add(2*time.Second))
	now = now.Add(time.Minute)
	h.Tick(true, now)
	b, ok := fromHistory(&h, now)
	if !ok || b.Success != 1 || b.Requests != 6000 {
		t.Errorf("baseline is %+v", b)
	}
}

func TestAnOutageDoesNotWearTheBaselineOut(t *testing.T) {
	var h History
	now := minutes(&h, time.Now(), 120, 100, true, good(time.Second))
	now = minutes(&h, now, 6*24*60, 10, false, bad(decision.Connect))
	if b, ok := fromHistory(&h, now); !ok || b.Requests != 12000 {
		t.Errorf("after six days of outage the baseline is %+v, %v", b, ok)
	}
	if _, ok := fromHistory(&h, now.Add(2*24*time.Hour)); ok {
		t.Error("minutes of eight days ago still say what is usual")
	}
}

func TestHistoryForgetsByTheHour(t *testing.T) {
	var h History
	now := minutes(&h, time.Now(), 60, 50, true, bad(decision.DNS))
	now = minutes(&h, now, 23*60, 50, true, good(time.Second))
	h.Tick(true, now)
	if b, _ := fromHistory(&h, now); b.Requests != 24*60*50 || !b.knows(decision.DNS) {
		t.Errorf("24 hours are %d requests", b.Requests)
	}
	now = minutes(&h, now, 1, 50, true, good(time.Second))
	h.Tick(true, now)
	if b, _ := fromHistory(&h, now); b.Requests != (23*60+1)*50 || b.knows(decision.DNS) {
		t.Errorf("one minute later they are %d requests", b.Requests)
	}
}

func TestClocksAddNoMinutes(t *testing.T) {
	var h History
	now := time.Now()
	h.Add(good(time.Second), true, now)
	h.Add(good(time.Second), true, now.Add(-time.Hour))     // back: the same minute
	h.Add(good(time.Second), true, now.Add(30*time.Hour))   // downtime: ends one minute
	h.Add(good(time.Second), true, now.Add(30*time.Hour+1)) // in the next
	if n, sum := h.sum(now); n != 1 || sum.valid() != 2 {
		t.Errorf("%d minutes with %d requests", n, sum.valid())
	}
}

func TestHistoryRoundTrip(t *testing.T) {
	for _, many := range []int{0, 1, 59, 61, 1440, 1500, 3000} {
		var h History
		now := minutes(&h, time.Now(), many, 3, true, good(time.Second))
		now = minutes(&h, now, many/10, 3, true, bad(decision.Reset))
		text, err := json.Marshal(&h)
		if err != nil {
			t.Fatal(err)
		}
		var back History
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		m1, t1 := h.sum(now)
		m2, t2 := back.sum(now)
		if m1 != m2 || t1 != t2 {
			t.Errorf("%d minutes: wrote %d, read %d", many, m1, m2)
		}
		// It goes on where it was: the oldest hour is forgotten first.
		end := now.Add(time.Minute)
		for _, u := range []*History{&h, &back} {
			u.minute = Minute{}
			e := minutes(u, end, 700, 2, true, good(time.Minute))
			u.Tick(true, e)
		}
		m1, t1 = h.sum(end)
		m2, t2 = back.sum(end)
		if m1 != m2 || t1 != t2 {
			t.Errorf("%d minutes and 700 more: %d and %d", many, m1, m2)
		}
		if len(text) > mostStored/4 {
			t.Errorf("%d minutes are %d bytes of text", many, len(text))
		}
	}
}

func TestHistoryRefusesHostileText(t *testing.T) {
	hour := `{"minutes":60,"end":"2026-11-30T04:00:00Z","counts":{"ok":1,"first":[]}}`
	text := func(hours string) string { return `{"version":1,"hours":[` + hours + `]}` }
	if err := new(History).UnmarshalJSON([]byte(text(hour))); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		`null`, `[]`, `{}`, `{"version":2,"hours":[]}`, `{"version":1,"hours":[],"x":1}`,
		text(strings.Repeat(hour+",", historyHours) + hour),
		text(strings.Replace(hour, "60", "61", 1)),
		text(strings.Replace(hour, "60", "0", 1)),
		text(strings.Replace(hour, "60", "-1", 1)),
		text(strings.Replace(hour, "60", "59", 1) + "," + hour), // only the last may be short
		text(strings.Replace(hour, `"end":"2026-11-30T04:00:00Z",`, "", 1)),
		text(strings.Replace(hour, `"ok":1`, `"ok":-1`, 1)),
		text(strings.Replace(hour, `[]`, `[[1,2]]`, 1)),
	} {
		h := History{at: 3}
		if err := h.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%.90s was taken", bad)
		}
		if !reflect.DeepEqual(h, History{at: 3}) {
			t.Errorf("%.90s left half of itself", bad)
		}
	}
}

func TestBaselineOfObjectives(t *testing.T) {
	slo := Objective{Availability: 0.9995, Under: 5 * time.Second, Ratio: 0.99}
	for _, c := range []struct {
		o    Objective
		want string
	}{
		{Objective{}, "default 0.99 12s 0.95"},
		{slo, "slo 0.9995 5s 0.99"},
		{Objective{Availability: 0.9}, "slo 0.9 12s 0.95"},
		{Objective{Under: time.Second, Ratio: 0.9}, "slo 0.99 1s 0.9"},
		{Objective{Under: time.Second}, "default 0.99 12s 0.95"},
	} {
		b := FromObjective(c.o, 12*time.Second)
		if got := fmt.Sprint(b.Source, " ", b.Success, " ", b.FirstOutput, " ", b.Quantile); got != c.want {
			t.Errorf("%+v is %s, not %s", c.o, got, c.want)
		}
		if !b.knows(decision.TLS) || !b.HasFirstOutput {
			t.Errorf("%+v calls a class new, without any history", c.o)
		}
	}
}

func TestSizesAreBounded(t *testing.T) {
	if n := reflect.TypeFor[History]().Size(); n > 85<<10 {
		t.Errorf("a history is %d bytes", n)
	}
	if n := reflect.TypeFor[Window]().Size(); n > 4<<10 {
		t.Errorf("a window is %d bytes", n)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	var c Collector
	now := time.Now()
	c.Tick(true, now)
	c.Begin(5)
	ok, failed := good(700*time.Millisecond), bad(decision.ServerError)
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(10 * time.Second)
		c.Add(ok, now)
		c.Add(failed, now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	var c Collector
	now := time.Now()
	c.Tick(true, now)
	c.Begin(5)
	ok, failed := good(700*time.Millisecond), bad(decision.ServerError)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		if i%20 == 0 {
			c.Add(failed, now)
		} else {
			c.Add(ok, now)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	base, w := usual(b), served(400)
	b.ReportAllocs()
	for b.Loop() {
		Judge(w, nil, base, terms, 5)
	}
}

func TestCollector(t *testing.T) {
	var c Collector
	now := time.Now()
	c.Add(good(time.Second), now)
	c.Trip()
	if _, _, ok := c.Step(); ok {
		t.Fatal("there is a step that nobody began")
	}
	c.Begin(5)
	c.Add(good(time.Second), now)
	c.Add(Sample{OK: true}, now) // not valid
	c.Probe("m", true)
	c.Serve(time.Second)
	c.Begin(25)
	c.Add(bad(decision.TLS), now)
	c.Trip()
	w, earlier, ok := c.Step()
	if !ok || w.Share != 25 || w.Requests() != 1 || w.Trips != 1 || len(earlier) != 1 || earlier[0].Share != 5 ||
		earlier[0].Requests() != 1 || earlier[0].ProbesPassed != 1 || earlier[0].Served != time.Second {
		t.Fatalf("step is %+v after %+v", w, earlier)
	}
	var other Collector
	other.Restore(w, earlier)
	w2, earlier2, ok := other.Step()
	if !ok || !reflect.DeepEqual(w, w2) || !reflect.DeepEqual(earlier, earlier2) {
		t.Error("what was restored is not what was stored")
	}
	c.Begin(5) // a retreat
	if w, earlier, _ := c.Step(); w.Requests() != 0 || len(earlier) != 0 {
		t.Errorf("after a retreat %+v after %+v", w, earlier)
	}
	c.End()
	if _, _, ok := c.Step(); ok {
		t.Error("the step goes on after its end")
	}
}

func TestOneLostConnectionIsOnePieceOfEvidence(t *testing.T) {
	var c Collector
	c.Begin(5)
	for id := range uint64(3) {
		for range 100 {
			c.Add(SampleOf(decision.Outcome{Class: decision.Reset, ConnID: id}, true, false), time.Now())
		}
	}
	// 100 without a shared connection and one for each of the two lost.
	if w, _, _ := c.Step(); w.Requests() != 102 || w.Failed() != 102 {
		t.Errorf("%d failed of %d, not 102", w.Failed(), w.Requests())
	}
}

func TestCollectorIsNotHealthyUntilSaid(t *testing.T) {
	var c Collector
	now := time.Now()
	for range 100 {
		for range 50 {
			c.Add(good(time.Second), now)
		}
		now = now.Add(time.Minute)
	}
	if _, ok := c.Baseline(now); ok {
		t.Error("minutes of an unknown health are a baseline")
	}
}

func TestCollectorKeepsItsHistory(t *testing.T) {
	var c Collector
	now := time.Now()
	for range 100 {
		c.Tick(true, now)
		for range 50 {
			c.Add(good(time.Second), now)
		}
		now = now.Add(time.Minute)
	}
	text, err := c.SaveHistory()
	if err != nil {
		t.Fatal(err)
	}
	var back Collector
	if err := back.RestoreHistory(text); err != nil {
		t.Fatal(err)
	}
	if err := back.RestoreHistory([]byte(`{"version":7}`)); err == nil {
		t.Error("another version was taken")
	}
	a, ok1 := c.Baseline(now)
	b, ok2 := back.Baseline(now)
	if !ok1 || !ok2 || !reflect.DeepEqual(a, b) {
		t.Errorf("baseline is %+v and was %+v", b, a)
	}
}

func TestCollectorIsSafe(t *testing.T) {
	var c Collector
	c.Begin(5)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 200 {
				now := time.Now()
				c.Tick(true, now)
				c.Add(good(time.Second), now)
				c.Probe(fmt.Sprint(g), i%2 == 0)
				c.Step()
				c.Baseline(now)
			}
		})
	}
	all.Wait()
	if w, _, _ := c.Step(); w.Requests() != 800 {
		t.Errorf("%d requests, not 800", w.Requests())
	}
}
