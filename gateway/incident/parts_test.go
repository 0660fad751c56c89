package incident

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

func at(s float64) time.Time { return day.Add(time.Duration(s * float64(time.Second))) }

// The first failure is that of the outage: neither a lone one from before, nor
// where it was noticed.
func TestTheFirstFailure(t *testing.T) {
	for name, c := range map[string]struct {
		attempts func(l *Look)
		now      float64
		want     float64 // -1: none
	}{
		"all fail": {func(l *Look) {
			for s := range 100 {
				l.Attempt("a", s < 40, at(float64(s)))
			}
		}, 100, 40},
		"a lone failure before": {func(l *Look) {
			l.Attempt("a", false, at(3))
			for s := range 200 {
				l.Attempt("a", s < 100, at(float64(s)))
			}
		}, 200, 100},
		"three a minute": {func(l *Look) {
			for s := 0; s < 400; s += 20 {
				l.Attempt("a", s < 200, at(float64(s)))
			}
		}, 400, 200},
		"a part fails, now and then a bucket has none": {func(l *Look) {
			for s := range 300 {
				l.Attempt("a", true, at(float64(s)))
				if s >= 60 && s/5%7 != 3 && s%5 < 2 {
					l.Attempt("a", false, at(float64(s)))
				}
			}
		}, 300, 60},
		"one in ten failed before": {func(l *Look) {
			for s := range 200 {
				l.Attempt("a", s < 100 && s%10 > 0, at(float64(s)))
				l.Attempt("a", s < 100, at(float64(s)))
			}
		}, 200, 100},
		"after a night without requests": {func(l *Look) {
			l.Attempt("a", false, at(1))
			l.Attempt("a", false, at(900))
		}, 901, 900},
		"healthy again": {func(l *Look) {
			for s := range 100 {
				l.Attempt("a", s > 40, at(float64(s)))
			}
		}, 100, -1},
		"longer than is remembered": {func(l *Look) {
			for s := range 3000 {
				l.Attempt("a", false, at(float64(s)))
			}
		}, 3000, 2405},
		"of another": {func(l *Look) { l.Attempt("b", false, at(1)) }, 2, -1},
	} {
		t.Run(name, func(t *testing.T) {
			var l Look
			c.attempts(&l)
			got := l.FirstFailure("a", at(c.now))
			if c.want < 0 {
				if !got.IsZero() {
					t.Errorf("at %s", got.Sub(day))
				}
				return
			}
			if !got.Equal(at(c.want)) {
				t.Errorf("at %s, want %v", got.Sub(day), c.want)
			}
		})
	}
}

func TestTheFirstSwitch(t *testing.T) {
	var l Look
	for _, s := range []float64{2, 31, 33, 300} {
		l.Switched("a", at(s), at(s))
	}
	// An answer that took eleven minutes is told in the place of what is new.
	l.Switched("a", at(300-600), at(301))
	for since, want := range map[float64]float64{0: 2, 30: 31, 40: 300} {
		if got := l.FirstSwitch("a", at(since), at(301)); !got.Equal(at(want)) {
			t.Errorf("since %v: %s", since, got.Sub(day))
		}
	}
	if got := l.FirstSwitch("a", at(302), at(302)); !got.IsZero() {
		t.Errorf("since 302: %s", got)
	}
	// The failed attempt's end is noted a moment after the time of the switch.
	if got := l.FirstSwitch("a", at(300.001), at(301)); !got.Equal(at(300)) {
		t.Errorf("of the same request: %s", got.Sub(day))
	}
	// A host without a clock battery begins before 1970.
	then := time.Date(1969, 12, 31, 23, 0, 3, 0, time.UTC)
	l.Switched("b", then, then)
	l.Attempt("b", false, then)
	if got := l.FirstSwitch("b", then, then); !got.Equal(then) || !l.FirstFailure("b", then).Equal(then) {
		t.Errorf("before 1970: %s", got)
	}
}

// The ratio counts once it was over for two minutes with requests, and until it was
// well below for as long.
func TestTheRatioIsHeld(t *testing.T) {
	var r Ratio
	now := day
	minute := func(ratio float64, requests int) (s RatioState) {
		for range 60 {
			now = now.Add(time.Second)
			s = r.Step(now, ratio, requests, 0.02)
		}
		return s
	}
	steps := []struct {
		ratio    float64
		requests int
		over     bool
	}{
		{0.5, 100, false}, {0.01, 100, false}, // a peak
		{0.5, 19, false}, {0.5, 19, false}, {0.5, 19, false}, // nearly nobody
		{0.5, 100, false}, {0.5, 100, false}, {0.5, 100, true},
		{0.019, 100, true}, {0.019, 100, true}, {0.019, 100, true}, // below the limit, not below it by enough
		{0.01, 100, true}, {0.01, 5, true}, {0.01, 100, true}, {0.01, 100, true}, {0.01, 100, false},
	}
	for i, s := range steps {
		got := minute(s.ratio, s.requests)
		if got.Over != s.over {
			t.Fatalf("step %d %+v: %+v", i, s, got)
		}
		if i == 7 && now.Sub(got.Since) < ratioHeld {
			t.Errorf("it is over since %s, when it was noticed, and not since it was", got.Since)
		}
	}
	if s := r.Step(now, 1, 1000, 0); s != (RatioState{}) {
		t.Errorf("without a limit: %+v", s)
	}
}

// What another gateway alone sees ends when it says so, or when it is silent. Its
// clock has no part in that.
func TestATroubleOfAnotherGateway(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		r := Record{}.Apply(Op{Writer: "w", Instance: "other", Seq: 1, At: day.Add(ahead), Kind: OpOpen, ID: "x", Cause: api.CauseRatio, Title: "t"})
		r = r.Apply(Op{Writer: "w", Instance: "other", Seq: 2, At: day.Add(ahead), Kind: OpTrouble, Key: "ratio@other", Cause: api.CauseRatio, Phase: Ill, Text: "r"})
		var silence Silence
		s := Situation{Instance: "me"}
		look := func(now float64) []Finding {
			s.Silent = silence.Of([]Record{r}, at(now))
			return Observe(at(now), s, []Record{r})
		}
		if f := look(1000); len(f) != 0 {
			t.Errorf("when it is first seen: %+v", f)
		}
		if f := look(1290); len(f) != 0 {
			t.Errorf("while it speaks: %+v", f)
		}
		r = r.Apply(Op{Writer: "w", Instance: "other", Seq: 3, At: day.Add(ahead), Kind: OpCount})
		for now := 1291.0; now < 1591; now++ {
			r = r.Apply(Op{Writer: "v", Instance: "me", Seq: uint64(now), At: at(now), Kind: OpCount})
			if f := look(now); len(f) != 0 {
				t.Errorf("at %v, while it speaks: %+v", now, f)
			}
		}
		if f := look(1592); len(f) != 1 || f[0].Phase != Back || f[0].Key != "ratio@other" {
			t.Errorf("when it is silent: %+v", f)
		}
		s.Ratio = RatioState{Over: true, Since: at(1500)}
		f := look(1592)
		if len(f) != 1 || f[0].Phase != Ill || f[0].Key != "ratio@me" || f[0].Incident != "x" {
			t.Errorf("while it is so here, too: %+v", f)
		}
	}
}

// While as many as may be are open, new trouble belongs to the newest of them,
// however long its own is over.
func TestTheMostThatAreOpen(t *testing.T) {
	var all []Record
	now := day
	for i := range 3 * MaxOpen {
		now = now.Add(3 * time.Hour)
		s := Situation{Upstreams: []Upstream{{Name: fmt.Sprint("u", i%7), State: api.Degraded, Since: now}}}
		for range 2 { // ill, and well again
			for _, f := range Observe(now, s, all) {
				if f.Incident == "" {
					f.Incident = fmt.Sprint(i)
					all = append(all, Record{}.Apply(Op{Writer: "w", Seq: 1, At: now, Kind: OpOpen, ID: f.Incident}))
				}
				k := slices.IndexFunc(all, func(r Record) bool { return r.ID == f.Incident })
				all[k] = all[k].Apply(Op{Writer: "w", Seq: all[k].Revision + 1, At: now, Kind: OpTrouble, Key: f.Key, Upstream: f.Upstream, Phase: f.Phase, Shared: true, Text: f.Text})
			}
			if f := Observe(now, s, all); len(f) != 0 {
				t.Fatalf("outage %d is not at rest: %+v", i, f)
			}
			now = now.Add(time.Minute)
			s.Upstreams[0] = Upstream{Name: s.Upstreams[0].Name, State: api.Healthy, Share: 100}
		}
	}
	if len(all) != MaxOpen {
		t.Errorf("%d are open", len(all))
	}
	if last := all[len(all)-1]; len(last.Upstreams) != 7 || last.Milestones.TrafficBack.IsZero() {
		t.Errorf("the newest: %+v", last)
	}
}

// An incident that is over for an hour takes no new trouble; one that goes on does.
func TestWhatJoins(t *testing.T) {
	up := func(name string, state string, share int, since time.Time) Upstream {
		return Upstream{Name: name, State: state, Share: share, Since: since}
	}
	s := Situation{Upstreams: []Upstream{up("a", api.Degraded, 0, day), up("b", api.Healthy, 100, time.Time{})}}
	f := Observe(day, s, nil)
	if len(f) != 1 || f[0].Incident != "" || f[0].Title != "a degraded" {
		t.Fatalf("%+v", f)
	}
	r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Cause: f[0].Cause, Title: f[0].Title})
	take := func(f []Finding, seq uint64, now time.Time) {
		for _, f := range f {
			r = r.Apply(Op{Writer: "w", Seq: seq, At: now, Kind: OpTrouble, Key: f.Key, Cause: f.Cause, Upstream: f.Upstream, Phase: f.Phase, Shared: f.Shared, Text: f.Text})
		}
	}
	take(f, 2, day)
	s.Upstreams[1] = up("b", api.Degraded, 0, at(60))
	if f = Observe(at(60), s, []Record{r}); len(f) != 1 || f[0].Incident != "x" || f[0].Upstream != "b" {
		t.Fatalf("a second upstream: %+v", f)
	}
	s.Upstreams[1] = up("b", api.Healthy, 100, time.Time{})
	s.Upstreams[0] = up("a", api.Healthy, 100, time.Time{})
	take(Observe(at(600), s, []Record{r}), 3, at(600))
	if r.Milestones.TrafficBack.IsZero() {
		t.Fatalf("%+v", r.Milestones)
	}
	s.Upstreams[1] = up("b", api.Degraded, 0, at(4000))
	if f = Observe(at(4000), s, []Record{r}); len(f) != 1 || f[0].Incident != "x" {
		t.Errorf("within the hour: %+v", f)
	}
	s.Upstreams[1] = up("b", api.Degraded, 0, at(4300))
	if f = Observe(at(4300), s, []Record{r}); len(f) != 1 || f[0].Incident != "" {
		t.Errorf("after it: %+v", f)
	}
	// Closed as it is, it opens none; degraded anew, it does.
	s.Upstreams[1] = up("b", api.Healthy, 100, time.Time{})
	s.Upstreams[0] = up("a", api.Degraded, 0, at(4000))
	take(Observe(at(4000), s, []Record{r}), 4, at(4000))
	r = r.Apply(Op{Writer: "w", Seq: 5, At: at(4100), Kind: OpClose, By: "ana"})
	if f = Observe(at(4200), s, []Record{r}); len(f) != 0 {
		t.Errorf("it was closed like this: %+v", f)
	}
	s.Upstreams[0].Since = at(5000)
	if f = Observe(at(5000), s, []Record{r}); len(f) != 1 || f[0].Incident != "" {
		t.Errorf("degraded anew: %+v", f)
	}
}

// One about nothing that is measured takes what comes within half a day.
func TestWhatJoinsOneByHand(t *testing.T) {
	r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Cause: api.CauseOperator, Title: "t", By: "ana"})
	for after, want := range map[time.Duration]bool{11 * time.Hour: true, 13 * time.Hour: false} {
		if r.Joins(day.Add(after)) != want {
			t.Errorf("after %s: %t", after, !want)
		}
	}
}

// An outage that is over for an hour stays over: a drill the day after is not its.
func TestWhatIsOverStaysOver(t *testing.T) {
	r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Title: "t"})
	for i, phase := range []Phase{Ill, Back} {
		r = r.Apply(Op{Writer: "w", Seq: uint64(2 + i), At: at(float64(i)), Kind: OpTrouble, Key: "degraded/a", Cause: api.CauseDegraded, Upstream: "a", Phase: phase, Shared: true})
	}
	lowered := Situation{Upstreams: []Upstream{{Name: "a", State: api.Recovering, Share: 25}}}
	if f := Observe(at(1000), lowered, []Record{r}); len(f) != 1 || f[0].Phase != Recovered {
		t.Errorf("within the hour: %+v", f)
	}
	if f := Observe(at(4000), lowered, []Record{r}); len(f) != 0 {
		t.Errorf("after it: %+v", f)
	}
}

// An upstream whose probes passed, and that is degraded anew, is ill again.
func TestDegradedAnewIsARelapse(t *testing.T) {
	r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Title: "t"})
	for i, phase := range []Phase{Ill, Recovered} {
		r = r.Apply(Op{Writer: "w", Seq: uint64(2 + i), At: at(100 * float64(i)), Kind: OpTrouble, Key: "degraded/a", Cause: api.CauseDegraded, Upstream: "a", Phase: phase, Shared: true})
	}
	s := Situation{Upstreams: []Upstream{{Name: "a", State: api.Degraded, Since: day}}}
	if f := Observe(at(200), s, []Record{r}); len(f) != 0 {
		t.Errorf("degraded as it was: %+v", f)
	}
	s.Upstreams[0].Since = at(150)
	if f := Observe(at(200), s, []Record{r}); len(f) != 1 || f[0].Phase != Ill || f[0].Incident != "x" {
		t.Errorf("degraded anew: %+v", f)
	}
}

// A change belongs to the newest that is open and about its upstream.
func TestWhomAChangeConcerns(t *testing.T) {
	about := func(id string, opened float64, state string, upstreams ...string) Record {
		return Record{ID: id, State: state, OpenedAt: at(opened), Upstreams: upstreams, Troubles: map[string]Trouble{"k": {Phase: Ill}}}
	}
	e := decision.Event{Kind: decision.KindTrafficStep, Provider: "a"}
	older, closed, other := about("older", 1, api.IncidentOpen, "a"), about("closed", 2, api.IncidentClosed, "a"), about("other", 3, api.IncidentOpen, "b")
	for want, all := range map[string][]Record{"older": {other, closed, older}, "other": {other, closed}, "": {closed}} {
		if r, ok := Concerned(all, e, at(10)); r.ID != want || ok != (want != "") {
			t.Errorf("%q, want %q", r.ID, want)
		}
	}
}

// Of the requests that are named there are no more than so many, whoever adds them up.
func TestTheRequestsThatAreKept(t *testing.T) {
	var some Counts
	for i := range MaxKept - 1 {
		some.Kept = append(some.Kept, fmt.Sprint(i))
	}
	if sum := some.Plus(some); len(sum.Kept) != MaxKept || sum.Kept[MaxKept-1] != "0" || len(some.Kept) != MaxKept-1 {
		t.Errorf("%d are kept: %q", len(sum.Kept), sum.Kept)
	}
}

// What is counted after an incident was closed is none of it.
func TestACountAfterTheEnd(t *testing.T) {
	r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Title: "t"})
	for i, kind := range []OpKind{OpCount, OpClose, OpCount} {
		r = r.Apply(Op{Writer: "w", Seq: uint64(2 + i), At: at(float64(i)), Kind: kind, Counts: Counts{Failed: 1}})
	}
	if r.Counts.Failed != 2 || r.Open() {
		t.Errorf("%+v", r.Counts)
	}
}

// The bounds leave out transitions before anything that a person wrote, and count.
func TestTheBounds(t *testing.T) {
	r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Title: "t"})
	seq := uint64(1)
	do := func(op Op) {
		seq++
		op.Writer, op.Seq, op.At = "w", seq, at(float64(seq))
		r = r.Apply(op)
	}
	for i := range 700 {
		do(Op{Kind: OpEvent, Event: &api.Event{Event: "breaker_transition", From: "closed", To: "open", Detail: fmt.Sprint(i)}})
		if i%10 == 0 {
			do(Op{Kind: OpNote, Text: fmt.Sprintf("note %d", i), By: "ana"})
		}
	}
	if len(r.Entries) != maxEntries || r.Lost != 771-maxEntries {
		t.Errorf("%d entries, %d lost", len(r.Entries), r.Lost)
	}
	notes := 0
	for _, e := range r.Entries {
		if e.Kind == api.EntryNote {
			notes++
		}
	}
	if notes != 70 || r.Entries[0].Kind != api.EntryOpened || r.Entries[1].Event.Detail != "0" || r.Entries[maxEntries-1].Event.Detail != "699" {
		t.Errorf("%d notes, first %+v", notes, r.Entries[1])
	}
	for range 600 {
		do(Op{Kind: OpNote, Text: strings.Repeat("\x00", 2000), By: "ana"})
	}
	size := 0
	for i := range r.Entries {
		size += r.Entries[i].size()
	}
	if size > maxBytes || len(r.Entries)+r.Lost != 771+600 {
		t.Errorf("%d bytes, %d entries, %d lost", size, len(r.Entries), r.Lost)
	}
}

// What two gateways tell of one change is there once; what only looks like it is
// there.
func TestOneChangeIsToldOnce(t *testing.T) {
	r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Title: "t"})
	e := api.Event{Event: "traffic_step", Provider: "a", From: "5", To: "25", Revision: 7}
	for i, instance := range []string{"one", "two", "one"} {
		r = r.Apply(Op{Writer: instance, Instance: instance, Seq: uint64(i + 2), At: day, Kind: OpEvent, Event: &e})
	}
	if len(r.Entries) != 3 { // opened, and what one says happened twice
		t.Errorf("%+v", r.Entries)
	}
}

// Who made a change is the one who tells it, whoever was faster.
func TestAChangeIsToldByWhoMadeIt(t *testing.T) {
	opened := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Title: "t"})
	made := api.Event{Event: "traffic_step", Action: "share", Provider: "b", From: "100", To: "25", Revision: 7, Reason: "operator", Why: "drill"}
	heard := made
	heard.Reason, heard.Detail = heardOf, "by another gateway"
	one := Op{Writer: "one", Instance: "one", Seq: 1, At: day, Kind: OpEvent, Event: &made}
	two := Op{Writer: "two", Instance: "two", Seq: 1, At: at(1), Kind: OpEvent, Event: &heard}
	three := Op{Writer: "three", Instance: "three", Seq: 1, At: at(2), Kind: OpEvent, Event: &heard}
	for _, order := range [][]Op{{one, two, three}, {two, one, three}, {three, two, one}} {
		r := opened
		for _, op := range order {
			r = r.Apply(op)
		}
		if len(r.Entries) != 2 || r.Entries[1].Text != `b share 100% > 25%  "drill" rev 7 (operator)` || r.Entries[1].Instance != "one" {
			t.Errorf("%+v", r.Entries)
		}
	}
}

func TestStaleIncidents(t *testing.T) {
	var all []Record
	for i := range 230 {
		all = append(all, Record{ID: fmt.Sprint(i), State: api.IncidentClosed, ClosedAt: day.Add(-time.Duration(i) * 6 * time.Hour)})
	}
	all = append(all, Record{ID: "open", State: api.IncidentOpen, OpenedAt: day.Add(-1000 * 24 * time.Hour)})
	if got := Stale(all, day); len(got) != 30 || got[0] != "200" {
		t.Errorf("%v", got)
	}
	if got := Stale(all[:100], day.Add(keptFor-10*6*time.Hour)); len(got) != 89 || got[0] != "11" {
		t.Errorf("after %s: %v", keptFor, got)
	}
	if got := Stale(all, day.Add(60*24*time.Hour)); len(got) != 230-121 {
		t.Errorf("%d of them", len(got))
	}
}

// An outcome is of a request by its route, and counts once for each key and layer,
// whoever it says has judged; the workflow is its own key's to judge.
func TestRecent(t *testing.T) {
	r := NewRecent()
	r.Add("p", "web", false, true, 3)
	r.Add("d", "", true, false, 0)
	yes := true
	n := 0
	judge := func(id, layer, key string) Judged {
		n++
		return r.Judge(Outcome{RequestID: id, Layer: layer, By: fmt.Sprint(n), Key: key, Good: &yes})
	}
	primary := Judged{Route: decision.RoutePrimary, Known: true, WasGood: true, Epoch: 3}
	repeated, refused := primary, primary
	repeated.Repeated, refused.Refused = true, true
	for _, c := range []struct {
		layer, key string
		want       Judged
	}{
		{"task", "x", primary}, {"task", "x", repeated},
		{"semantic", "x", primary}, {"semantic", "web", primary}, {"semantic", "y", primary}, {"semantic", "", primary},
		{"semantic", "z", refused}, {"semantic", "y", repeated}, {"task", "z", primary},
		{"workflow", "x", refused}, {"workflow", "", refused}, {"workflow", "web", primary}, {"workflow", "web", repeated}, {"workflow", "x", refused},
	} {
		if j := judge("p", c.layer, c.key); j != c.want {
			t.Errorf("%s with %q: %+v, want %+v", c.layer, c.key, j, c.want)
		}
	}
	if j := judge("d", "workflow", "x"); !j.Refused {
		t.Errorf("%+v", j)
	}
	if j := judge("d", "workflow", ""); j != (Judged{Route: decision.RouteFallback, Known: true}) {
		t.Errorf("%+v", j)
	}
	if j := judge("q", "task", "x"); j != (Judged{Route: decision.RouteNone}) {
		t.Errorf("%+v", j)
	}
	// Of what nobody asked no number of reports displaces what was judged.
	for i := range recentMost + 10 {
		r.Unknown(Outcome{RequestID: fmt.Sprint("none", i), Layer: "task", Key: "x", Good: &yes})
	}
	if j := judge("p", "task", "x"); !j.Repeated || len(r.unknown.at) != recentMost {
		t.Errorf("%+v, %d reports of unknown requests", j, len(r.unknown.at))
	}
	// A client that tries again with the same id.
	r.Add("twice", "web", true, false, 1)
	r.Add("twice", "web", false, true, 1)
	if j := judge("twice", "task", "x"); j.Route != decision.RoutePrimary || !j.WasGood {
		t.Errorf("%+v", j)
	}
	for i := range recentMost {
		r.Add(fmt.Sprint(i), "web", false, true, 1)
	}
	if j := judge("p", "task", "z"); j.Known {
		t.Error("the oldest is still known")
	}
	if j := judge("d", "task", "z"); !j.Known {
		t.Error("a degraded one was pushed out by the primary's")
	}
	if n := len(r.primary.at); n != recentMost {
		t.Errorf("%d remembered", n)
	}
}

// The report is of the record alone, and what it holds is text.
func TestReport(t *testing.T) {
	evil := "a | b\n# c <script> [x](http://y) @all `code` \x1b[2J\u202e"
	r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Title: evil, Cause: api.CauseDegraded, By: "auto"})
	r = r.Apply(Op{Writer: "w", Seq: 2, At: day, Kind: OpTrouble, Key: "degraded/a", Upstream: "a", Phase: Ill, Text: "a is degraded", FirstFailure: at(-90), FirstSwitch: at(-88)})
	r = r.Apply(Op{Writer: "w", Seq: 3, At: at(10), Kind: OpEvent, By: "ana", Event: &api.Event{Event: "operator_command", Provider: "a", Action: "share", From: "5", To: "25", Why: evil, By: "ana"}})
	for i, by := range []string{"ben", "auto", "plan:ana"} {
		r = r.Apply(Op{Writer: "v", Seq: uint64(i + 1), At: at(20 + float64(i)), Kind: OpEvent, By: by, Event: &api.Event{Event: "traffic_step", Provider: "a", From: "25", To: fmt.Sprint(75 + i), By: by}})
	}
	r = r.Apply(Op{Writer: "w", Seq: 4, At: at(60), Kind: OpTrouble, Key: "degraded/a", Upstream: "a", Phase: Back, Text: "a has share 100%"})
	r = r.Apply(Op{Writer: "w", Seq: 5, At: at(70), Kind: OpAnswer, Question: "users", Text: evil, By: "ben"})
	r = r.Apply(Op{Writer: "w", Seq: 6, At: at(80), Kind: OpCount, Counts: Counts{Primary: 5, Degraded: 7, Failed: 2, Kept: []string{"r`1"}, Semantic: Sides{Degraded: Tally{Good: 3, Bad: 4}}}})
	r = r.Apply(Op{Writer: "w", Seq: 7, At: at(90), Kind: OpClose, By: "ana", Text: "drill", Facts: Facts(r, nil)})
	got := Report(View(r, false, nil, at(100)))
	for _, want := range []string{
		"| first failure | 2026-11-30 03:58:30Z | 0s |", "| technically recovered | 2026-11-30 04:01:00Z | 2m30s |", "| closed | 2026-11-30 04:01:30Z | 3m0s |",
		"| answered by another candidate | 7 |", "| semantic | 3 | 4 | nothing reported |  |", "| technical | no attempt counted |  |", "closed by ana", "unanswered: window, sampled, forbidden, primary, runbook: drill",
		"- 2026-11-30 04:00:10Z, ana: a share 5% \\> 25%", "- 2026-11-30 04:00:20Z, ben: a share 25% \\> 75%", "### Which users are to be told", "ben, 2026-11-30 04:01:10Z: a \\| b", "Not answered.", "The gateway: 2 requests failed, 7 were answered degraded", "`r'1`",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, never := range []string{"\x1b", "\u202e", "<script>", "[x](", "http://", "@all", "\n# c", "a | b", "- 2026-11-30 04:00:21Z", "- 2026-11-30 04:00:22Z"} {
		if strings.Contains(got, never) {
			t.Errorf("%q in\n%s", never, got)
		}
	}
}

// A ratio over its limit is what a degraded upstream brings about: it neither
// takes back what was reached nor keeps it from being reached, unless it is the
// only trouble.
func TestTheRatioOfAnOutage(t *testing.T) {
	r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Cause: api.CauseDegraded, Title: "a degraded"})
	seq := uint64(1)
	trouble := func(second float64, key, cause string, phase Phase) {
		seq++
		r = r.Apply(Op{Writer: "w", Seq: seq, At: at(second), Kind: OpTrouble, Key: key, Cause: cause, Phase: phase, Text: key + " " + string(phase)})
	}
	trouble(0, "a", api.CauseDegraded, Ill)
	trouble(60, "a", api.CauseDegraded, Recovered)
	trouble(120, "ratio", api.CauseRatio, Ill)
	if r.Milestones.Recovered.IsZero() {
		t.Error("the ratio takes the recovery back")
	}
	trouble(300, "a", api.CauseDegraded, Back)
	if r.Milestones.TrafficBack.IsZero() {
		t.Error("the ratio keeps traffic from being back")
	}
	trouble(400, "ratio", api.CauseRatio, Back)
	for _, e := range r.Entries {
		if strings.Contains(e.Text, "relapse") {
			t.Errorf("%s", e.Text)
		}
	}
	// Alone it is the trouble.
	r, seq = Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "y", Cause: api.CauseRatio, Title: "ratio"}), 1
	trouble(0, "ratio", api.CauseRatio, Ill)
	if !r.Milestones.Recovered.IsZero() {
		t.Error("recovered at once")
	}
	trouble(60, "ratio", api.CauseRatio, Back)
	if r.Milestones.Recovered.IsZero() || r.Milestones.TrafficBack.IsZero() {
		t.Errorf("%+v", r.Milestones)
	}
}

// A step is told once: the command that asked for it is not a second line.
func TestAStepIsToldOnce(t *testing.T) {
	r := Record{}.Apply(Op{Writer: "w", Seq: 1, At: day, Kind: OpOpen, ID: "x", Cause: api.CauseDegraded, Title: "a degraded"})
	before := len(r.Entries)
	for i, e := range []api.Event{
		{Event: "traffic_step", Provider: "a", From: "0", To: "5", By: "ana", Result: "ok", Revision: 7},
		{Event: "operator_command", Action: "share", Provider: "a", From: "0", To: "5", By: "ana", Result: "ok", Revision: 7},
		{Event: "operator_command", Action: "share", Provider: "a", From: "5", To: "25", By: "ana", Result: "blocked"},
	} {
		r = r.Apply(Op{Writer: "w", Seq: uint64(i + 2), At: at(float64(i)), Kind: OpEvent, By: "ana", Event: &e})
	}
	if got := len(r.Entries) - before; got != 2 {
		t.Errorf("%d entries: the step, and what was refused", got)
	}
}
