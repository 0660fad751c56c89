package health

import (
	"slices"
	"sync"
	"testing"
	"time"

	"failback/gateway/decision"
)

const cooldown = 15 * time.Second

// sky is a detector over four upstreams: a1 and a2 share a cloud, b and c are alone.
type sky struct {
	*Detector
	t      *testing.T
	now    time.Time
	events []string
}

var members = []Member{
	{Upstream: "a1", Cloud: "x", Host: "one"},
	{Upstream: "a2", Cloud: "x", Host: "two"},
	{Upstream: "b", Host: "three", Domains: []string{"dns/corp", "identity/vault"}},
	{Upstream: "c", Host: "four", Domains: []string{"dns/corp"}},
}

func newSky(t *testing.T) *sky {
	s := &sky{t: t, now: time.Now()}
	s.Detector = NewDetector(func(e decision.Event) {
		if e.Kind != decision.KindSharedFault || e.Reason == "" || e.Time.IsZero() {
			t.Errorf("event %+v", e)
		}
		s.events = append(s.events, e.To)
	})
	s.Configure(members, cooldown, s.now)
	return s
}

func (s *sky) fails(l ...string) *sky {
	for _, u := range l {
		s.now = s.now.Add(time.Millisecond)
		s.Observe(u, decision.Outcome{Class: decision.Connect}, s.now)
	}
	return s
}

func (s *sky) answers(u string) *sky {
	s.now = s.now.Add(time.Millisecond)
	s.Observe(u, decision.Outcome{Class: decision.ServerError, Status: 500}, s.now)
	return s
}

func (s *sky) after(d time.Duration) *sky { s.now = s.now.Add(d); return s }

func (s *sky) covers(want ...string) *sky {
	s.t.Helper()
	var got []string
	if f := s.Active(); f != nil {
		got = f.Upstreams
	}
	if !slices.Equal(got, want) {
		s.t.Fatalf("covers %v, want %v", got, want)
	}
	return s
}

func TestPathFault(t *testing.T) {
	s := newSky(t)
	s.fails("a1", "b", "a1").covers()
	s.fails("b").covers("a1", "b")
	f := s.Active()
	if f.Reason() != FaultPath || !f.Since.Equal(s.now) || f.Detail == "" {
		t.Fatalf("%+v", f)
	}
	// c was not tried: it may be, but nobody is degraded.
	if f.Covers("c") || !f.Spares("c") || !f.Covers("b") || !f.Spares("b") {
		t.Fatalf("%+v", f)
	}
	s.fails("c").covers("a1", "b").fails("c").covers("a1", "b", "c")
	if !s.Active().Since.Equal(f.Since) {
		t.Fatal("it begins once")
	}
	// It lasts as long as nobody answers.
	s.after(24*time.Hour).covers("a1", "b", "c")
	s.answers("a2").covers()
	if want := []string{"begun", "changed", "ended"}; !slices.Equal(s.events, want) {
		t.Fatal(s.events)
	}
	// What was before the answer is no evidence.
	s.fails("a1", "b").covers().fails("b", "a1").covers("a1", "b")
}

func TestNoFault(t *testing.T) {
	var none *Fault
	if none.Covers("a1") || none.Spares("a1") {
		t.Fatal("no fault covers somebody")
	}
	s := newSky(t)
	s.fails("a1", "a1", "a2", "a2", "a2").covers()   // one cloud
	s.fails("b").covers()                            // once
	s.answers("c").fails("b").covers()               // somebody answered in between
	s.fails("a1", "stranger", "stranger").covers()   // nobody knows it
	s.after(FaultWindow).fails("a1", "b").covers()   // too far apart
	s.after(FaultWindow+1).fails("a1", "b").covers() // also of each other
	for range 2 {
		if !s.AdmitProbe(s.now) {
			t.Fatal("without a fault nothing is held")
		}
	}
	if _, held := s.NextProbe(); held || s.events != nil {
		t.Fatal(s.events)
	}
}

// Two upstreams without a declared cloud are independent if their hosts differ.
func TestHostStandsForCloud(t *testing.T) {
	s := newSky(t)
	s.Configure([]Member{{Upstream: "a1", Host: "same"}, {Upstream: "b", Host: "same"}, {Upstream: "c", Cloud: "same"}}, cooldown, s.now)
	s.fails("a1", "a1", "b", "b").covers().fails("c", "c").covers("a1", "b", "c")
}

func TestPathFaultAtItsBoundaries(t *testing.T) {
	failed := decision.Outcome{Class: decision.DNS}
	for _, c := range []struct {
		last time.Duration // of the fourth failure after the first
		want bool
	}{{FaultWindow, true}, {FaultWindow + 1, false}} {
		s := newSky(t)
		s.Observe("a1", failed, s.now)
		s.Observe("a1", failed, s.now)
		s.Observe("b", failed, s.now.Add(time.Second))
		s.Observe("b", failed, s.now.Add(c.last))
		if got := s.Active() != nil; got != c.want {
			t.Errorf("%v: %v", c.last, got)
		}
	}
	// An answer at the time of the first failure counts, one before does not.
	for _, c := range []struct {
		ok   time.Duration
		want bool
	}{{-1, true}, {0, false}, {1, false}} {
		s := newSky(t)
		first := s.now.Add(time.Second)
		s.Observe("a1", failed, first)
		s.Observe("c", decision.Outcome{Class: decision.OK, Status: 200}, first.Add(c.ok))
		for _, u := range []string{"a1", "b", "b"} {
			s.Observe(u, failed, first.Add(2))
		}
		if got := s.Active() != nil; got != c.want || !c.want && s.events != nil {
			t.Errorf("%v: %v, told %v", c.ok, got, s.events)
		}
	}
}

// Ends of attempts may be told in another order than they came.
func TestFailuresToldOutOfOrder(t *testing.T) {
	s := newSky(t).after(FaultWindow)
	failed := decision.Outcome{Class: decision.Connect}
	s.fails("a1", "a1", "b")
	s.Observe("b", failed, s.now.Add(-FaultWindow-time.Second))
	s.covers().fails("b").covers("a1", "b")
}

// A dependency whose domain the configuration changed makes a fault of those
// that name the new one.
func TestDependencyOfAnotherDomain(t *testing.T) {
	s := newSky(t)
	s.Dependency("corp", "identity/vault", true, "sealed", s.now)
	s.fails("b", "b", "c", "c").covers("b", "c") // a path fault
	s.answers("a1").covers("b")
	s.Configure([]Member{{Upstream: "b", Domains: []string{"identity/vault"}}, {Upstream: "c", Domains: []string{"dns/corp"}}}, cooldown, s.now)
	s.Dependency("corp", "dns/corp", true, "no answer", s.now)
	s.covers("c")
}

func TestWhatProvesAPath(t *testing.T) {
	for _, c := range []struct {
		name string
		o    decision.Outcome
		ends bool // a fault
		part bool // is evidence for one
	}{
		{"ok", decision.Outcome{Class: decision.OK}, true, false},
		{"an error is an answer", decision.Outcome{Class: decision.ServerError, Status: 503}, true, false},
		{"so is a refusal", decision.Outcome{Class: decision.Credential, Status: 401}, true, false},
		{"reset after a header", decision.Outcome{Class: decision.Reset, Status: 200}, true, false},
		{"reset without a byte", decision.Outcome{Class: decision.Reset}, false, true},
		{"connect", decision.Outcome{Class: decision.Connect}, false, true},
		{"dns", decision.Outcome{Class: decision.DNS}, false, true},
		{"tls", decision.Outcome{Class: decision.TLS}, false, true},
		{"refused stream", decision.Outcome{Class: decision.Refused}, false, false},
		{"timeout", decision.Outcome{Class: decision.FirstOutputTimeout}, false, false},
		{"client gone", decision.Outcome{Class: decision.ClientGone}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSky(t).fails("a1", "a1", "b")
			s.Observe("b", c.o, s.after(time.Millisecond).now)
			if got := s.Active() != nil; got != c.part {
				t.Fatalf("evidence: %v", got)
			}
			s = newSky(t).fails("a1", "a1", "b", "b")
			s.Observe("c", c.o, s.after(time.Millisecond).now)
			if got := s.Active() == nil; got != c.ends {
				t.Fatalf("ends: %v", got)
			}
		})
	}
}

// A lost connection is one piece of evidence, however many requests it carried.
func TestLostConnectionCountsOnce(t *testing.T) {
	s := newSky(t).fails("b", "b")
	for range 50 {
		s.Observe("a1", decision.Outcome{Class: decision.Reset, ConnID: 7}, s.after(time.Millisecond).now)
	}
	s.covers()
	s.Observe("a1", decision.Outcome{Class: decision.Reset, ConnID: 8}, s.after(time.Millisecond).now)
	s.covers("a1", "b")
}

func TestOneProbePerCooldown(t *testing.T) {
	s := newSky(t).fails("a1", "a1", "b", "b").covers("a1", "b")
	begun := s.now
	for range 3 {
		if at, held := s.NextProbe(); !held || !at.Equal(begun.Add(cooldown)) {
			t.Fatal(at, held)
		}
		if s.AdmitProbe(begun.Add(cooldown - 1)) {
			t.Fatal("too early")
		}
		begun = begun.Add(cooldown)
		n := 0
		for range 10 {
			if s.AdmitProbe(begun) {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d probes", n)
		}
	}
	// A failed probe does not end it, and does not begin another.
	s.now = begun
	s.fails("a1").covers("a1", "b")
	if !slices.Equal(s.events, []string{"begun"}) {
		t.Fatal(s.events)
	}
}

func TestDependencyFault(t *testing.T) {
	s := newSky(t)
	dns := func(failed bool) *sky { s.Dependency("corp-dns", "dns/corp", failed, "no answer", s.now); return s }
	dns(true).covers() // shown, but nobody fails
	s.fails("a1").covers().fails("b").covers().fails("b").covers("b")
	f := s.Active()
	if f.Reason() != "corp-dns" || f.Path || f.Spares("c") || !f.Spares("b") {
		t.Fatalf("%+v", f)
	}
	if !slices.Equal(f.Dependencies, []string{"corp-dns"}) {
		t.Fatalf("%+v", f)
	}
}

func TestDependencyFaultGrowsAndEnds(t *testing.T) {
	s := newSky(t)
	s.Configure([]Member{{Upstream: "b", Host: "h", Domains: []string{"dns/corp"}}, {Upstream: "c", Host: "h", Domains: []string{"dns/corp"}}, {Upstream: "d", Host: "i"}}, cooldown, s.now)
	s.fails("b", "b").covers()
	s.Dependency("corp-dns", "dns/corp", true, "no answer", s.now)
	s.covers("b").fails("c", "c").covers("b", "c")
	s.answers("d").covers("b", "c") // d does not name it
	s.after(time.Hour).covers("b", "c")
	s.answers("c").covers()
	// Within ten seconds of an answer nothing is made of new failures.
	answered := s.now
	s.fails("b", "b").covers()
	s.Observe("b", decision.Outcome{Class: decision.Connect}, answered.Add(FaultQuiet-1))
	s.covers()
	s.Observe("b", decision.Outcome{Class: decision.Connect}, answered.Add(FaultQuiet))
	s.covers("b")
	s.now = answered.Add(FaultQuiet)
	s.Dependency("corp-dns", "dns/corp", false, "", s.now)
	s.covers()
	s.fails("b", "b").covers()
	if want := []string{"begun", "changed", "ended", "begun", "ended"}; !slices.Equal(s.events, want) {
		t.Fatal(s.events)
	}
}

func TestPathAndDependencyTogether(t *testing.T) {
	s := newSky(t)
	s.Dependency("corp-dns", "dns/corp", true, "no answer", s.now)
	s.Dependency("vault", "identity/vault", true, "sealed", s.now)
	s.fails("b", "b").covers("b")
	if got := s.Active().Reason(); got != "corp-dns+vault" {
		t.Fatal(got)
	}
	s.fails("a2", "a2").covers("a2", "b")
	if got := s.Active().Reason(); got != FaultPath {
		t.Fatal(got)
	}
	s.answers("a1").covers("b") // the path is proven, the dependency fails on
	s.Dependency("corp-dns", "dns/corp", false, "", s.now)
	s.covers("b")
	s.Dependency("vault", "identity/vault", false, "", s.now)
	s.covers()
}

func TestConfigureEndsAFaultOfThoseThatAreGone(t *testing.T) {
	s := newSky(t).fails("a1", "a1", "b", "b").covers("a1", "b")
	s.Configure(members, time.Minute, s.now)
	s.covers("a1", "b")
	s.Configure(members[:2], time.Minute, s.now)
	s.covers()
	s = newSky(t)
	s.Dependency("vault", "identity/vault", true, "sealed", s.now)
	s.fails("b", "b").covers("b")
	s.Configure([]Member{{Upstream: "b", Host: "three"}}, cooldown, s.now)
	s.covers()
}

// A handler may ask the detector, and feed it.
func TestHandlerMayCallBack(t *testing.T) {
	var d *Detector
	now := time.Now()
	var told []string
	d = NewDetector(func(e decision.Event) {
		told = append(told, e.To)
		if e.To == "begun" {
			d.Observe("b", decision.Outcome{Class: decision.OK}, now.Add(time.Second))
			if d.Active() != nil {
				t.Error("still there")
			}
		}
	})
	d.Configure(members, cooldown, now)
	for _, u := range []string{"a1", "a1", "b", "b"} {
		d.Observe(u, decision.Outcome{Class: decision.TLS}, now)
	}
	if !slices.Equal(told, []string{"begun", "ended"}) {
		t.Fatal(told)
	}
}

// An answer that comes while a fault is being found ends it, whichever is first.
func TestAnswerAndFaultAtOnce(t *testing.T) {
	for range 500 {
		d := NewDetector(nil)
		now := time.Now()
		d.Configure(members, time.Hour, now)
		for _, u := range []string{"a1", "a1", "b"} {
			d.Observe(u, decision.Outcome{Class: decision.Connect}, now)
		}
		var wg sync.WaitGroup
		wg.Go(func() { d.Observe("b", decision.Outcome{Class: decision.Connect}, now) })
		wg.Go(func() { d.Observe("c", decision.Outcome{Class: decision.OK}, now.Add(1)) })
		wg.Wait()
		if f := d.Active(); f != nil {
			t.Fatalf("%+v", f)
		}
	}
}

// Against a list of all that happened, the path rule as the text has it.
func TestPathFaultAgainstHistory(t *testing.T) {
	rnd := random(t)
	type past struct {
		u  string
		ok bool
		at time.Time
	}
	clouds := map[string]string{"a1": "x", "a2": "x", "b": "b", "c": "c"}
	names := []string{"a1", "a2", "b", "c"}
	faults := 0
	for range 300 {
		s := newSky(t)
		var l []past
		active := false
		for range 60 {
			s.after(time.Duration(rnd.IntN(int(20 * time.Second))))
			p := past{names[rnd.IntN(4)], rnd.IntN(6) == 0, s.now.Add(time.Millisecond)}
			l = append(l, p)
			if p.ok {
				s.answers(p.u)
				active = false
			} else {
				s.fails(p.u)
			}
			// Failures of the last minute, after the last answer.
			n := map[string]int{}
			for i := len(l) - 1; i >= 0 && !l[i].ok && p.at.Sub(l[i].at) <= FaultWindow; i-- {
				n[l[i].u]++
			}
			found := map[string]bool{}
			for u, k := range n {
				if k >= 2 {
					found[clouds[u]] = true
				}
			}
			if len(found) >= 2 {
				active = true
				faults++
			}
			if got := s.Active() != nil; got != active {
				t.Fatalf("active %v, want %v, after %v", got, active, l)
			}
		}
	}
	if faults == 0 {
		t.Fatal("no fault was ever there")
	}
}
