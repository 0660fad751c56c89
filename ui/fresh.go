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
type vital []saying

// saying is one way to say it; cost is what it leaves out, as a weight.
type saying struct {
	row  row
	cost int
}

// What a saying leaves out.
const (
	all     = 0
	some    = 1  // a word or two
	why     = 8  // the reason
	state   = 20 // all but that something is wrong, or right
	unheard = 60 // the source itself
	illness = 40 // more, if that source is not well
)

// freshness says of each source whether its numbers can be trusted. It is
// never frozen.
func (m *model) freshness(w int) row {
	vs := []vital{m.gatewayVital(w)}
	if m.ask.metrics != nil {
		vs = append(vs, m.promVital(), m.lokiVital())
	}
	r := row{{" fresh: ", dim}}
	if w < narrow {
		r = plain(" ")
	}
	for i, s := range cheapest(vs, w-r.width()+len(between)) {
		if s.row == nil {
			continue
		}
		if i > 0 {
			r = r.add(dim, between)
		}
		r = r.join(s.row)
	}
	return r
}

const between = " | "

// cheapest is how to say all of vs in w columns and leave out least, or as
// little as there is to say where even that has no room.
func cheapest(vs []vital, w int) []saying {
	if len(vs) == 0 {
		return nil
	}
	var best []saying
	least := -1
	for i := range vs[0] {
		s := vs[0][i]
		rest := cheapest(vs[1:], w-s.width())
		total, cost := s.width(), s.cost
		for _, r := range rest {
			total += r.width()
			cost += r.cost
		}
		if total > w {
			cost += 1000 + total
		}
		if least < 0 || cost < least {
			best, least = append([]saying{s}, rest...), cost
		}
	}
	return best
}

// width is with what stands before it.
func (s saying) width() int {
	if s.row == nil {
		return 0
	}
	return s.row.width() + len(between)
}

// silent is what is said of a source that does not answer.
func (m *model) silent(name string, silence time.Duration, err error, lastGood string) vital {
	head := row{{name + " ", normal}, {"NO ANSWER " + text.Age(silence), bad}}
	if err == nil {
		return vital{{head.add(normal, ", "+lastGood), all}, {head, some}}
	}
	because := m.th.outside(sources.Why(err))
	v := vital{{head.add(normal, ": "+because+", "+lastGood), all}, {head.add(normal, ": "+because), some}}
	if e, ok := errors.AsType[*sources.RemoteError](err); ok && e.Status != 0 {
		status := strconv.Itoa(e.Status)
		v = append(v, saying{head.add(normal, ": "+status+", "+lastGood), 2 * some}, saying{head.add(normal, " ("+status+")"), 3 * some})
	}
	return append(v, saying{head, why})
}

func lastGood(at, now time.Time) string {
	if at.IsZero() {
		return "never answered"
	}
	return "last good " + text.Clock(at, now)
}

func (m *model) gatewayVital(w int) vital {
	f, now := &m.live.state, m.now
	name := row{{"gateway ", normal}}
	switch because := m.refused(); {
	case because != "":
		r := name.add(bad, "REFUSED")
		short := "token not accepted; q, then --token-file"
		if m.o.TokenFile == "" {
			short = "it wants a token; q, then --token-file"
		}
		// What to do is worth more than the other sources.
		return vital{{r.add(normal, ": "+because), all}, {r.add(normal, ": "+short), 2*unheard + 4*why}, {r, 4 * unheard}}
	case f.Failing(now):
		return m.silent("gateway", f.Silence(now), f.Err(), lastGood(f.Clock().At, m.live.clock(now)))
	case f.Value() == nil:
		r := name.add(dim, "... "+text.Age(f.Silence(now)))
		return vital{{r.add(dim, ", asking "+m.th.outside(m.o.Client.Target())), all}, {r, some}}
	}
	n := f.Whole(now)
	r := name.add(dim, text.Age(n.Age)+" old")
	if n.State == sources.Value {
		r = name.add(normal, text.Age(n.Age)).add(good, " ok")
	}
	v := vital{{r, all}}
	if m.ask.metrics == nil && w >= narrow && n.State == sources.Value {
		v = vital{{r.add(dim, " (every "+text.Age(sources.GatewayEvery)+")"), all}, {r, some}}
	}
	if skew := skewText(f.Clock(), "the gateway's clock is ", " this host's"); skew != "" {
		v = vital{{r.add(warn, "  "+skew), all}, {r.add(warn, ", "+skewText(f.Clock(), "clock ", " ours")), some}, {r, why}}
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

func (m *model) promVital() vital {
	f, now := &m.live.metrics, m.now
	own := m.ask.metrics.Addr() == ""
	v := f.Value()
	name := row{{"prom ", normal}}
	switch {
	case own && m.ask.from.Prometheus.Error != "":
		return m.off("prom", m.ask.from.Prometheus.Error)
	case f.Failing(now):
		return m.silentSource("prom", own, f.Silence(now), f.Err(), f.Clock())
	case v == nil:
		return waiting("prom", f.Silence(now))
	case v.Sampled.IsZero():
		return ill(name.add(warn, "answers, has no series of this gateway"), name.add(warn, "has no series"), name.add(warn, "none"))
	}
	n := f.Number(api.Number{State: api.StateValue, At: v.Sampled}, now)
	age := text.Age(n.Age)
	if n.State != sources.Value {
		return ill(name.add(warn, "answers, newest sample "+age+" old"), name.add(warn, "samples "+age+" old"), name.add(warn, age+" old"))
	}
	r := name.add(normal, age).add(good, " ok")
	var notes []string
	short := "partial"
	warnings, remarks := v.Warnings, v.Notes
	if h := m.live.history.Value(); h != nil {
		if len(warnings) == 0 {
			warnings = h.Warnings
		}
		if len(remarks) == 0 {
			remarks = h.Notes
		}
	}
	if len(warnings) > 0 {
		notes = append(notes, m.partial(warnings))
	}
	if s := skewText(f.Clock(), "its clock is ", " this host's"); s != "" && !own { // its own is said of the gateway
		if len(notes) == 0 {
			short = "clock off"
		}
		notes = append(notes, s)
	}
	if len(notes) > 0 {
		return ill(r.add(warn, ", "+strings.Join(notes, ", ")), r.add(warn, ", "+short), name.add(warn, short))
	}
	every := r.add(dim, " (every "+text.Age(f.Period)+")")
	if len(remarks) > 0 {
		noted := every.add(dim, ", "+m.th.outside(remarks[0]))
		return vital{{noted, all}, {every, some}, {r, 2 * some}, {name.add(good, "ok"), 3 * some}, {nil, unheard}}
	}
	return vital{{every, all}, {r, some}, {name.add(good, "ok"), 3 * some}, {nil, unheard}}
}

func (m *model) lokiVital() vital {
	f, now := &m.live.loki, m.now
	v := f.Value()
	name := row{{"loki ", normal}}
	own := m.ask.logs.Addr() == ""
	e, remote := errors.AsType[*sources.RemoteError](f.Err())
	switch {
	case own && m.ask.from.Loki.Error != "" && (v == nil || f.Err() != nil): // else it only lacks lines, and its warnings say so
		return m.off("loki", m.ask.from.Loki.Error)
	case remote && e.Kind == sources.RemoteQuery:
		r := name.add(bad, "REFUSES")
		return ill(r.add(normal, " the selector: "+m.th.outside(e.Error())), r.add(normal, " the selector"), r)
	case f.Failing(now):
		return m.silentSource("loki", own, f.Silence(now), f.Err(), f.Clock())
	case v == nil:
		return waiting("loki", f.Silence(now))
	case len(v.Warnings) > 0:
		return ill(name.add(good, "ok").add(warn, ", "+m.partial(v.Warnings)), name.add(warn, "partial"), name.add(warn, "partial"))
	case v.Empty() && m.requestsNow():
		return ill(name.add(warn, "answers, has no line of the last "+text.Age(probeRange)+", asked "+text.Age(f.Silence(now))+" ago"), name.add(warn, "no line in "+text.Age(probeRange)), name.add(warn, "no line"))
	case v.Empty():
		return vital{{name.add(dim, "idle"), all}, {nil, unheard}}
	}
	return vital{{name.add(good, "ok"), all}, {nil, unheard}}
}

// requestsNow reports whether clients ask, so that there must be lines.
func (m *model) requestsNow() bool {
	s := m.live.state.Value()
	return s != nil && hasTraffic(m.live.state.Number(s.Traffic.RPS, m.now))
}

func (m *model) off(name, because string) vital {
	r := row{{name + " ", normal}, {"OFF", bad}}
	return vital{{r.add(normal, ": "+m.th.outside(because)), all}, {r, why}, {nil, unheard + illness}}
}

// silentSource is silent of a source that is not the gateway; one that is its
// own is silent for no reason of its own where the gateway is.
func (m *model) silentSource(name string, own bool, silence time.Duration, err error, c sources.Clock) vital {
	unknown := row{{name + " ", normal}, {"??", bad}}
	if own && m.live.state.Failing(m.now) {
		return vital{{unknown, all}, {nil, some}}
	}
	v := m.silent(name, silence, err, lastGood(c.At, m.live.clock(m.now)))
	return append(v, saying{unknown, state}, saying{nil, unheard + illness})
}

func waiting(name string, since time.Duration) vital {
	r := row{{name + " ", normal}}
	return vital{{r.add(dim, "... "+text.Age(since)), all}, {r.add(dim, "..."), some}, {nil, unheard}}
}

// ill is what is said of a source that answers and is not well.
func ill(long, short, bare row) vital {
	return vital{{long, all}, {short, why / 2}, {bare, why}, {nil, unheard + illness}}
}

// partial says that an answer is not whole, and the first reason.
func (m *model) partial(warnings []string) string {
	s := "partial: " + m.th.outside(warnings[0])
	if n := len(warnings) - 1; n > 0 {
		s += " (+" + strconv.Itoa(n) + " more)"
	}
	return s
}
