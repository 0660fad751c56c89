package health

import "time"

// Machine judges one upstream, step by step. It keeps only what may be lost.
// The zero value is an upstream that was never looked at. Not for use by
// several goroutines at once.
type Machine struct {
	// clock counts from the first step and never goes back, whatever the time
	// of day does; windows are measured with it.
	clock time.Duration
	last  time.Time

	state   State  // empty before the first step
	facts   Facts  // of the last step
	any     run    // any signal red: suspect
	groups  [3]run // grave ones, by group
	opened  openings
	wish    Wish          // of the last step
	told    Wish          // the last one that was new
	dropped time.Duration // when there was none any more
	signals []Signal
	spare   []Signal
}

// behaviour is one state: which move is due in it, and what it waits for.
type behaviour interface {
	wish(m *Machine, f *Facts) Wish
	explain(m *Machine, f *Facts) string
}

func of(s State) behaviour {
	switch s {
	case Suspect:
		return suspect{}
	case Degraded:
		return degraded{}
	case Recovering:
		return recovering{}
	}
	return healthy{}
}

// Step judges f at now and returns the state, the move that is due and the
// transition that happened, nil if none did. The state of a degraded or
// recovering upstream is the share table's; a wish changes nothing until it
// shows there. The slices of f must not be changed until the next step.
//
// Steps may be irregular; once a second is what the windows are made for.
func (m *Machine) Step(now time.Time, f Facts) (State, Wish, *Transition) {
	if !m.last.IsZero() {
		m.clock += max(now.Sub(m.last), 0)
	}
	m.last = now
	m.look(now, f.Signals)
	m.facts = f
	from := m.state
	m.state = m.judge(&m.facts)
	wish := m.decide(&m.facts)
	return m.state, wish, m.transition(now, from)
}

// Unwatched takes d, in which nobody looked, out of every window: what the
// signals were meanwhile is not known. It is called before the step that ends it.
func (m *Machine) Unwatched(d time.Duration) {
	if !m.last.IsZero() && d > 0 {
		m.last = m.last.Add(d)
	}
}

// Signals returns those of the last step, each with the time since when it has
// its colour.
func (m *Machine) Signals() []Signal { return append([]Signal(nil), m.signals...) }

// Explain says for people why the upstream is in the state of the last step and
// what it waits for. It is read behind the state, since when and by whom, and
// repeats none of them.
func (m *Machine) Explain() string {
	if m.state == "" {
		return "not judged yet"
	}
	return of(m.state).explain(m, &m.facts)
}

// look keeps the signals, and since when each has its colour.
func (m *Machine) look(now time.Time, signals []Signal) {
	next := append(m.spare[:0], signals...)
	for i := range next {
		s := &next[i]
		s.Since = now
		for j := range m.signals {
			if old := &m.signals[j]; old.Name == s.Name && old.Colour == s.Colour {
				s.Since = old.Since
			}
		}
	}
	m.signals, m.spare = next, m.signals
}

// judge takes the facts into memory and returns the state.
func (m *Machine) judge(f *Facts) State {
	m.opened.see(m.clock, f.Openings)
	if f.Condition != Whole {
		// What happened until then is answered: whoever is whole again is
		// judged by what comes.
		m.any, m.groups = run{}, [3]run{}
		m.opened.forget()
		if f.Condition == IsDegraded {
			return Degraded
		}
		return Recovering
	}
	red := false
	var grave [3]bool
	for i := range m.signals {
		s := &m.signals[i]
		red = red || s.red()
		if s.grave() {
			grave[index(s.Group)] = true
		}
	}
	m.any.see(m.clock, red)
	if f.SharedFault {
		// Nobody is degraded for it, neither while it lasts nor for the time it
		// lasted.
		m.groups = [3]run{}
		m.opened.forget()
	}
	for i := range m.groups {
		m.groups[i].see(m.clock, grave[i])
	}
	if m.any.on {
		return Suspect
	}
	return Healthy
}

func index(g Group) int {
	switch g {
	case Probes:
		return 1
	case Expiry:
		return 2
	}
	return 0
}

// decide returns the wish of the state, as it stood if it stood before. One that
// was gone for less than ClearFor, as between two probes of a breaker, still
// stands, for the reason that was told.
func (m *Machine) decide(f *Facts) Wish {
	w := of(m.state).wish(m, f)
	if w.Move == Stay {
		if m.wish.Move != Stay {
			m.dropped = m.clock
		}
		m.wish = Wish{}
		return m.wish
	}
	// Settle moves no traffic, so it is done in shadow too.
	w.Would = f.Settings.Shadow && w.Move != Settle
	stood := m.wish.Move != Stay || m.clock-m.dropped < ClearFor
	if t := m.told; stood && w.Move == t.Move && w.To == t.To && w.Would == t.Would {
		m.wish = t
		return t
	}
	w.Detail = m.detail(f, w)
	m.wish, m.told = w, w
	w.New = true
	return w
}

// transition returns what changed since from, if that is not the share table's
// to tell.
func (m *Machine) transition(now time.Time, from State) *Transition {
	if from != Suspect {
		from = Healthy // where the share table says so, or at the start
	}
	if m.state == from || (m.state != Healthy && m.state != Suspect) {
		return nil
	}
	t := &Transition{At: now, From: from, To: m.state, Reason: ReasonClear}
	if m.state == Suspect {
		t.Reason, t.Detail = m.reds(false)
	} else {
		t.Detail = "nothing red for " + span(ClearFor)
	}
	return t
}

// reds returns the name of the first red signal and the values of all, or of
// the grave ones.
func (m *Machine) reds(grave bool) (name, values string) {
	for i := range m.signals {
		s := &m.signals[i]
		if !s.red() || grave && !s.grave() {
			continue
		}
		if name == "" {
			name = s.Name
		}
		values = also(values, s.Name+": "+s.Value)
	}
	return name, values
}

func also(list, more string) string {
	if list == "" {
		return more
	}
	return list + "; " + more
}
