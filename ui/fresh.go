package ui

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// vital is what the strip says of one source, in fewer and fewer words.
type vital struct {
	tries []row
	at    int
	well  bool
}

func (v *vital) row() row { return v.tries[v.at] }

func (v *vital) shorten() bool {
	if v.at == len(v.tries)-1 {
		return false
	}
	v.at++
	return true
}

// freshness says of each source whether its numbers can be trusted. It is
// never frozen.
func (m *model) freshness(w int) row {
	vs := []*vital{m.gatewayVital(w)}
	if m.ask.metrics != nil {
		vs = append(vs, m.promVital(), m.lokiVital())
	}
	prefix := row{{" fresh: ", dim}}
	if w < narrow {
		prefix = plain(" ")
	}
	line := func() row {
		r := prefix
		for i, v := range vs {
			if v.row() == nil {
				continue
			}
			if i > 0 {
				r = r.add(dim, " | ")
			}
			r = r.join(v.row())
		}
		return r
	}
	for line().width() > w {
		if !shortenOne(vs) {
			break
		}
	}
	return line()
}

// shortenOne takes words from the source that needs them least: one that is
// well, else the one that has most left, the gateway last.
func shortenOne(vs []*vital) bool {
	for i := len(vs) - 1; i >= 0; i-- {
		if v := vs[i]; v.well && v.at < len(v.tries)-2 && v.shorten() {
			return true
		}
	}
	var most *vital
	for i := len(vs) - 1; i >= 0; i-- {
		left := func(v *vital) int { return len(v.tries) - 1 - v.at }
		if v := vs[i]; left(v) > 0 && (most == nil || left(v) > left(most)) {
			most = v
		}
	}
	return most != nil && most.shorten()
}

// silent is what is said of a source that does not answer.
func (m *model) silent(name string, silence time.Duration, err error, lastGood string) vital {
	head := row{{name + " ", normal}, {"NO ANSWER " + text.Age(silence), bad}}
	v := vital{}
	if err != nil {
		why := m.th.outside(sources.Why(err))
		v.tries = []row{head.add(normal, ": "+why+", "+lastGood), head.add(normal, ": "+why)}
		if e, ok := errors.AsType[*sources.RemoteError](err); ok && e.Status != 0 {
			v.tries = append(v.tries, head.add(normal, ": "+strconv.Itoa(e.Status)+", "+lastGood), head.add(normal, " ("+strconv.Itoa(e.Status)+")"))
		}
	} else {
		v.tries = []row{head.add(normal, ", "+lastGood)}
	}
	v.tries = append(v.tries, head)
	return v
}

func lastGood(at, now time.Time) string {
	if at.IsZero() {
		return "never answered"
	}
	return "last good " + text.Clock(at, now)
}

func (m *model) gatewayVital(w int) *vital {
	f, now := &m.live.state, m.now
	switch {
	case f.Failing(now):
		v := m.silent("gateway", f.Silence(now), f.Err(), lastGood(f.Clock().At, m.live.clock(now)))
		return &v
	case f.Value() == nil:
		r := row{{"gateway ", normal}, {"... " + text.Age(f.Silence(now)), dim}}
		return &vital{tries: []row{r.add(dim, ", asking "+m.th.outside(m.o.Client.Target())), r}}
	}
	n := f.Whole(now)
	r := row{{"gateway ", normal}, {text.Age(n.Age), normal}, {" ok", good}}
	if n.State != sources.Value {
		r = row{{"gateway ", normal}, {text.Age(n.Age) + " old", dim}}
	}
	v := &vital{well: n.State == sources.Value, tries: []row{r}}
	if m.ask.metrics == nil && w >= narrow && v.well {
		v.tries = []row{r.add(dim, " (every "+text.Age(sources.GatewayEvery)+")"), r}
	}
	if skew := skewText(f.Clock(), "the gateway's clock is ", " this host's"); skew != "" {
		v.well = false
		v.tries = []row{r.add(warn, "  "+skew), r.add(warn, ", "+skewText(f.Clock(), "clock ", " ours")), r}
	}
	return v
}

// skewText says how far a source's clock is from ours, empty if that is not
// worth it.
func skewText(c sources.Clock, whose, host string) string {
	skew := c.Skew()
	if skew.Abs() <= 2*time.Second {
		return ""
	}
	way := " ahead of"
	if skew < 0 {
		way = " behind"
	}
	return whose + text.Age(skew.Abs()) + way + host
}

func (m *model) promVital() *vital {
	f, now := &m.live.metrics, m.now
	own := m.ask.metrics.Addr() == ""
	switch v := f.Value(); {
	case own && m.ask.from.Prometheus.Error != "":
		return m.offVital("prom", m.ask.from.Prometheus.Error)
	case f.Failing(now):
		return m.silentVital("prom", f.Silence(now), f.Err(), f.Clock())
	case v == nil:
		return waitingVital("prom", f.Silence(now))
	case v.Sampled.IsZero():
		r := row{{"prom ", normal}}
		return &vital{tries: []row{r.add(warn, "answers, has no series of this gateway"), r.add(warn, "has no series"), r.add(warn, "none"), nil}}
	}
	value := f.Value()
	n := f.Number(api.Number{State: api.StateValue, At: value.Sampled}, now)
	r := row{{"prom ", normal}}
	if n.State != sources.Value {
		age := text.Age(n.Age)
		return &vital{tries: []row{r.add(warn, "answers, newest sample "+age+" old"), r.add(warn, "samples "+age+" old"), r.add(warn, age+" old"), nil}}
	}
	r = r.add(normal, text.Age(n.Age)).add(good, " ok")
	every := r.add(dim, " (every "+text.Age(f.Period)+")")
	v := &vital{well: true, tries: []row{every, r, {{"prom ", normal}, {"ok", good}}, nil}}
	var notes []string
	if !own {
		if s := skewText(f.Clock(), "its clock is ", " this host's"); s != "" {
			notes = append(notes, s)
		}
	}
	warnings := value.Warnings
	if h := m.live.history.Value(); h != nil && len(warnings) == 0 {
		warnings = h.Warnings
	}
	short := "clock off"
	if len(warnings) > 0 {
		notes, short = append(notes, partialText(m, warnings)), "partial"
	}
	if len(notes) > 0 {
		v.well = false
		v.tries = []row{r.add(warn, ", "+strings.Join(notes, ", ")), r.add(warn, ", "+notes[0]), r.add(warn, " "+short), {{"prom ", normal}, {short, warn}}, nil}
	}
	return v
}

func (m *model) lokiVital() *vital {
	f, now := &m.live.loki, m.now
	r := row{{"loki ", normal}}
	e, remote := errors.AsType[*sources.RemoteError](f.Err())
	switch v := f.Value(); {
	case m.ask.logs.Addr() == "" && m.ask.from.Loki.Error != "":
		return m.offVital("loki", m.ask.from.Loki.Error)
	case remote && e.Kind == sources.RemoteQuery:
		return &vital{tries: []row{r.add(bad, "REFUSES").add(normal, " the selector: "+m.th.outside(e.Error())), r.add(bad, "REFUSES").add(normal, " the selector"), r.add(bad, "REFUSES"), nil}}
	case f.Failing(now):
		return m.silentVital("loki", f.Silence(now), f.Err(), f.Clock())
	case v == nil:
		return waitingVital("loki", f.Silence(now))
	case len(v.Warnings) > 0:
		return &vital{tries: []row{r.add(warn, partialText(m, v.Warnings)), r.add(warn, "partial"), nil}}
	case v.Empty() && m.requestsNow():
		return &vital{tries: []row{r.add(warn, "answers, has no line of the last "+text.Age(probeRange)), r.add(warn, "no line in "+text.Age(probeRange)), r.add(warn, "none"), nil}}
	case v.Empty():
		return &vital{well: true, tries: []row{r.add(dim, "idle"), r.add(dim, "idle"), nil}}
	}
	return &vital{well: true, tries: []row{r.add(good, "ok"), r.add(good, "ok"), nil}}
}

// requestsNow reports whether clients ask, so that there must be lines.
func (m *model) requestsNow() bool {
	s := m.live.state.Value()
	return s != nil && hasTraffic(m.live.state.Number(s.Traffic.RPS, m.now))
}

func (m *model) offVital(name, why string) *vital {
	r := row{{name + " ", normal}, {"OFF", bad}}
	return &vital{tries: []row{r.add(normal, ": "+m.th.outside(why)), r, nil}}
}

func (m *model) silentVital(name string, silence time.Duration, err error, c sources.Clock) *vital {
	v := m.silent(name, silence, err, lastGood(c.At, m.live.clock(m.now)))
	v.tries = append(v.tries, row{{name + " ", normal}, {"??", bad}}, nil)
	return &v
}

func waitingVital(name string, since time.Duration) *vital {
	r := row{{name + " ", normal}}
	return &vital{well: true, tries: []row{r.add(dim, "... "+text.Age(since)), r.add(dim, "..."), nil}}
}

// partialText says that an answer is not whole, and the first reason.
func partialText(m *model, warnings []string) string {
	s := "partial: " + m.th.outside(warnings[0])
	if n := len(warnings) - 1; n > 0 {
		s += " (+" + strconv.Itoa(n) + " more)"
	}
	return s
}
