package evidence

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"failback/gateway/decision"
)

func TestClassesAreAllCounted(t *testing.T) {
	if len(decision.Classes) != classes {
		t.Fatalf("there are %d classes and %d counters", len(decision.Classes), classes)
	}
}

func TestSampleOf(t *testing.T) {
	counted := map[decision.Class]bool{
		decision.Connect: true, decision.DNS: true, decision.TLS: true, decision.Reset: true,
		decision.FirstOutputTimeout: true, decision.AttemptTimeout: true, decision.IdleTimeout: true,
		decision.ServerError: true, decision.Overloaded: true, decision.BadResponse: true, decision.Interrupted: true,
		decision.RateLimited: true, decision.QuotaExhausted: true, decision.Credential: true,
	}
	for _, c := range decision.Classes {
		s := SampleOf(decision.Outcome{Class: c}, true, false)
		if want := counted[c] || c == decision.OK; s.Valid != want {
			t.Errorf("%s: valid is %v, not %v", c, s.Valid, want)
		}
		if s.OK != (c == decision.OK) {
			t.Errorf("%s: ok is %v", c, s.OK)
		}
		if SampleOf(decision.Outcome{Class: c}, false, false).Valid {
			t.Errorf("%s: another upstream's traffic is valid", c)
		}
		if SampleOf(decision.Outcome{Class: c}, true, true).Valid {
			t.Errorf("%s: overflow is valid", c)
		}
	}
}

func TestWindowCountsWhatIsValid(t *testing.T) {
	var w Window
	w.Add(good(time.Second))
	w.Add(Sample{OK: true, Valid: true, Class: decision.OK}) // unary
	w.Add(bad(decision.Interrupted))
	w.Add(Sample{Class: decision.ServerError})                     // not valid
	w.Add(Sample{OK: true, Valid: true, Class: decision.TLS})      // contradicts itself: a failure
	w.Add(Sample{Valid: true, Class: "made_up"})                   // unknown, and a failure
	w.Add(Sample{Valid: true, Class: decision.OK, FirstOutput: 1}) // neither: a failure
	if w.Requests() != 6 || w.Failed() != 4 || w.tally.first.n != 1 {
		t.Errorf("%d requests, %d failed, %d first outputs", w.Requests(), w.Failed(), w.tally.first.n)
	}
	for c, n := range map[decision.Class]int{decision.Interrupted: 1, decision.TLS: 1, decision.Unknown: 2, decision.ServerError: 0} {
		if got := w.FailedOf(c); got != n {
			t.Errorf("%d of %s, not %d", got, c, n)
		}
	}
}

func TestServeTakesNoClockThatGoesBack(t *testing.T) {
	var w Window
	w.Serve(3 * time.Second)
	w.Serve(-time.Hour)
	if w.Served != 3*time.Second {
		t.Errorf("served %s", w.Served)
	}
}

func TestProbesBeyondTheBoundAreStillCounted(t *testing.T) {
	var w Window
	for i := range 3 * mostTargets {
		w.Probe(strings.Repeat("x", i), false)
	}
	w.Probe(strings.Repeat("y", mostName+1), false)
	if w.ProbesFailed != 3*mostTargets+1 || len(w.runs) != mostTargets || w.worst < failedProbes {
		t.Errorf("%d failed, %d runs, %d in a row", w.ProbesFailed, len(w.runs), w.worst)
	}
}

// random fills a window and returns the samples.
func random(r *rand.Rand, w *Window, n int) []Sample {
	var all []Sample
	for range n {
		s := good(firstOf(r))
		if r.IntN(5) == 0 {
			s = bad(decision.Classes[r.IntN(len(decision.Classes))])
		}
		s.Valid = r.IntN(10) > 0
		w.Add(s)
		all = append(all, s)
	}
	return all
}

func TestMergeIsAllSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 50 {
		var a, b, all Window
		for _, s := range append(random(r, &a, r.IntN(200)), random(r, &b, r.IntN(200))...) {
			all.Add(s)
		}
		a.tally.merge(&b.tally)
		if !reflect.DeepEqual(a, all) {
			t.Fatalf("merged %+v is not all samples %+v", a, all)
		}
	}
}

func TestWindowRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 50 {
		w := Window{Share: 25, Served: time.Duration(r.Int64N(int64(time.Hour))), Trips: r.Uint64N(3)}
		random(r, &w, r.IntN(500))
		for range r.IntN(20) {
			w.Probe(string(rune('a'+r.IntN(4))), r.IntN(2) == 0)
		}
		text, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		var back Window
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if len(w.runs) == 0 {
			w.runs = nil
		}
		if !reflect.DeepEqual(back, w) {
			t.Fatalf("read %+v, wrote %+v", back, w)
		}
	}
}

const stored = `{"version":1,"share":5,"served_ns":1,"trips":0,"probes_passed":0,"probes_failed":3,` +
	`"runs":[{"target":"m","failed":2}],"worst_run":2,"counts":{"ok":2,"failed":{"tls":1},"first":[[3,2]]}}`

func TestWindowRefusesHostileText(t *testing.T) {
	var w Window
	if err := json.Unmarshal([]byte(stored), &w); err != nil {
		t.Fatal(err)
	}
	for _, swap := range [][2]string{
		{`"version":1`, `"version":2`},
		{`"version":1,`, ``},
		{`"share":5`, `"share":101`},
		{`"share":5`, `"share":-5`},
		{`"share":5`, `"share":5,"more":1`},
		{`"served_ns":1`, `"served_ns":-1`},
		{`"served_ns":1`, `"served_ns":9223372036854775807`},
		{`"trips":0`, `"trips":-1`},
		{`"probes_passed":0`, `"probes_passed":18446744073709551615`},
		{`"probes_failed":3`, `"probes_failed":1`},
		{`"probes_failed":3`, `"probes_failed":0`},
		{`"worst_run":2`, `"worst_run":1`},
		{`"worst_run":2`, `"worst_run":0`},
		{`"failed":2}`, `"failed":0}`},
		{`"failed":2}`, `"failed":2},{"target":"m","failed":1}`},
		{`"target":"m"`, `"target":"` + strings.Repeat("m", mostName+1) + `"`},
		{`"ok":2`, `"ok":1`}, // more first outputs than successes
		{`"ok":2`, `"ok":18446744073709551615`},
		{`"ok":2`, `"ok":"2"`},
		{`"tls":1`, `"tls":0`},
		{`"tls":1`, `"ok":1`},
		{`"tls":1`, `"made_up":1`},
		{`[[3,2]]`, `[[3,2],[3,1]]`},
		{stored, strings.Repeat(" ", mostStored) + stored},
		{stored, `[]`},
		{stored, `null`},
	} {
		text := strings.Replace(stored, swap[0], swap[1], 1)
		if text == stored {
			t.Fatalf("%s is not in the text", swap[0])
		}
		before := served(3)
		w := before.Clone()
		if err := w.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%.80s was taken for %.80s", swap[1], swap[0])
		}
		if !reflect.DeepEqual(w, before) {
			t.Errorf("%.80s left half of itself", swap[1])
		}
	}
}

func FuzzWindow(f *testing.F) {
	f.Add([]byte(stored))
	f.Add([]byte(`{}`))
	b := usual(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		var w Window
		if json.Unmarshal(text, &w) != nil {
			return
		}
		Judge(w, []Window{w}, b, terms, 1)
		if _, err := json.Marshal(w); err != nil {
			t.Fatal(err)
		}
	})
}
