package ui

import (
	"context"
	"slices"
	"strconv"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// incidentScreen is which incident is shown.
type incidentScreen struct {
	// id is of the incident shown; empty: the oldest open one, else the newest.
	id string
	// asked is whose answer the feed awaits: answers about another are dropped.
	asked string
}

// The messages of incidents.
type (
	incidentsMsg sources.Answer[api.Incidents]
	incidentMsg  struct {
		id string
		sources.Answer[api.Incident]
	}
	// recordedMsg answers a command about an incident.
	recordedMsg struct {
		form   *form // nil: of a tick
		what   string
		result *api.Result
		err    error
		ticks  *reading // whose steps were sent
		steps  []int
	}
)

func incidentKeys() []binding {
	here := at(incidents)
	return []binding{
		bind([]string{"i"}, "i", "incident", "the incident: what happened, who did what, and what closing it asks").line(9).unless(func(m *model) string { return m.already(incidents) }).hidden().above((*model).incidentSaid).does(func(m *model) tea.Cmd {
			m.enter(incidents)
			return m.askIncidents()
		}),
		bind([]string{"n"}, "n", "note", "write a note into the timeline: opens a field").at(here).line(4).unless((*model).noNote).does(act((*model).note)),
		bind([]string{"a"}, "a", "answer", "answer what closing asks: opens a field").at(here).line(6).unless((*model).noNote).does(act((*model).answer)),
		bind([]string{"x"}, "x", "close", "close the incident: asks, first what has no answer").at(here).line(7).unless((*model).noNote).does(act((*model).closeIncident)),
		bind([]string{"R"}, "R", "reopen", "open a closed incident again: asks").at(here).line(17).unless((*model).noReopen).hidden().does(act((*model).reopen)),
		bind([]string{"N"}, "N", "open one", "open an incident by hand: opens a field").at(here).line(8).unless((*model).noOpen).hidden().does(act((*model).openIncident)),
		bind([]string{"["}, "[ ]", "other", "the incident before this one").at(here).line(12).unless((*model).noOther).hidden().does(func(m *model) tea.Cmd { return m.otherIncident(1) }),
		bind([]string{"]"}, "]", "", "the incident after this one").at(here).unless((*model).noOther).does(func(m *model) tea.Cmd { return m.otherIncident(-1) }),
	}
}

// openHeads are the open incidents, oldest first.
func (d *data) openHeads() []api.IncidentHead {
	if s := d.state.Value(); s != nil {
		return s.Incidents
	}
	return nil
}

// incidentID is which incident is shown; empty if there is none.
func (m *model) incidentID() string {
	if m.form != nil && m.form.about != "" {
		return m.form.about
	}
	if m.incident.id != "" {
		return m.incident.id
	}
	if open := m.live.openHeads(); len(open) > 0 {
		return open[0].ID
	}
	if v := m.live.incidents.Value(); v != nil && len(v.Incidents) > 0 {
		return v.Incidents[0].ID
	}
	return ""
}

// askIncidents asks for what the incident screen shows.
func (m *model) askIncidents() tea.Cmd {
	if m.screen != incidents {
		return nil
	}
	ctx, src := m.ctx, m.src
	var cmds []tea.Cmd
	if gen, ok := m.live.incidents.Ask(m.now); ok {
		cmds = append(cmds, func() tea.Msg { return incidentsMsg(src.Incidents(ctx, gen)) })
	}
	return tea.Batch(append(cmds, m.askShown())...)
}

// askShown asks for the incident that is shown.
func (m *model) askShown() tea.Cmd {
	id := m.incidentID()
	if id == "" {
		return nil
	}
	if m.incident.asked != id {
		m.incident.asked, m.live.incident = id, sources.Feed[api.Incident]{Period: sources.GatewayPeriod}
	}
	gen, ok := m.live.incident.Ask(m.now)
	if !ok {
		return nil
	}
	ctx, src := m.ctx, m.src
	return func() tea.Msg { return incidentMsg{id, src.Incident(ctx, gen, id)} }
}

// takeIncidents notes which incidents there are, and asks for the one to be
// shown if that is another now.
func (m *model) takeIncidents(msg incidentsMsg) tea.Cmd {
	m.live.incidents.Take(sources.Answer[api.Incidents](msg))
	if m.incidentID() == m.incident.asked {
		return nil
	}
	return m.askShown()
}

func (m *model) takeIncident(msg incidentMsg) {
	if msg.id == m.incident.asked {
		m.live.incident.Take(msg.Answer)
	}
}

// shownIncident is the incident on the screen; nil if it is not known.
func (m *model) shownIncident() *api.Incident {
	d, _ := m.d()
	return d.incident.Value()
}

func (m *model) noOther() string {
	if v := m.live.incidents.Value(); v == nil || len(v.Incidents) < 2 {
		return "there is no other incident"
	}
	return ""
}

// otherIncident goes n incidents on, into the past.
func (m *model) otherIncident(n int) tea.Cmd {
	all := m.live.incidents.Value().Incidents
	at := slices.IndexFunc(all, func(h api.IncidentHead) bool { return h.ID == m.incidentID() })
	to := clamp(max(at, 0)+n, 0, len(all)-1)
	if to == at {
		m.say(dim, "there is no further incident")
		return nil
	}
	m.incident.id, m.scroll = all[to].ID, 0
	return m.askIncidents()
}

func (m *model) noNote() string {
	v := m.shownIncident()
	switch {
	case m.noWrite() != "":
		return m.noWrite()
	case v == nil:
		return "there is no incident here: N opens one"
	case v.State == api.IncidentClosed:
		return "it is closed: R opens it again"
	}
	return ""
}

func (m *model) noReopen() string {
	v := m.shownIncident()
	switch {
	case m.noWrite() != "":
		return m.noWrite()
	case v == nil || v.State != api.IncidentClosed:
		return "no closed incident is shown"
	}
	return ""
}

func (m *model) noOpen() string {
	switch open := m.live.openHeads(); {
	case m.noWrite() != "":
		return m.noWrite()
	case len(open) > 0:
		return "an incident is open: n writes into it"
	}
	return ""
}

// record gives a command about an incident.
func (m *model) record(f *form, what string, give func(context.Context, sources.API) (*api.Result, error)) tea.Cmd {
	ctx, src := m.ctx, m.src
	m.log.add(m.now, "incident: %s", what)
	return func() tea.Msg {
		res, err := src.Give(ctx, give)
		return recordedMsg{form: f, what: what, result: res, err: err}
	}
}

func (m *model) takeRecorded(msg recordedMsg) tea.Cmd {
	if msg.err != nil {
		m.log.add(m.now, "incident: %s failed: %v", msg.what, msg.err)
	}
	switch {
	case msg.ticks != nil && msg.err != nil:
		for _, n := range msg.steps {
			delete(msg.ticks.kept, n)
		}
		m.say(bad, "ticked here alone: "+m.th.outside(sources.Why(msg.err)))
	case msg.ticks != nil:
		said := msg.what + ", kept in the incident"
		if len(msg.steps) == 1 && msg.result != nil {
			said = m.th.outside(msg.result.Message) // that somebody ticked it before, too
		}
		m.say(good, said)
	case msg.err != nil && msg.form == m.form && m.form != nil:
		why := sources.Why
		if f := m.form.refused; f != nil {
			why = func(err error) string { return f(m, err) }
		}
		m.form.sending, m.form.refusal = false, why(msg.err)
	case msg.err != nil:
		m.say(bad, msg.what+" was not recorded: "+m.th.outside(sources.Why(msg.err)))
	default:
		if msg.form == m.form {
			m.form = nil
		}
		m.say(good, m.th.outside(msg.result.Message))
	}
	return tea.Batch(m.askIncidents(), m.askState())
}

func (m *model) note() {
	id := m.shownIncident().ID
	m.openForm(&form{
		title: "Note for the incident", about: id, label: "note",
		body: func(m *model, _ *form, w int) []row {
			return wrap("It goes into the timeline with your name and the time, and into the report. No prompts and no keys.", w, normal)
		},
		send: func(m *model, f *form, typed string) tea.Cmd {
			return m.record(f, "a note", func(ctx context.Context, a sources.API) (*api.Result, error) { return a.IncidentNote(ctx, id, typed) })
		},
	})
}

func (m *model) openIncident() {
	m.openForm(&form{
		title: "Open an incident by hand?", label: "what happens",
		body: func(m *model, _ *form, w int) []row {
			return wrap("One opens by itself for a degraded upstream, a shared fault, or a fallback ratio over its limit.", w, normal)
		},
		send: func(m *model, f *form, typed string) tea.Cmd {
			m.incident.id = ""
			return m.record(f, "an incident", func(ctx context.Context, a sources.API) (*api.Result, error) { return a.OpenIncident(ctx, typed) })
		},
	})
}

func (m *model) reopen() {
	id := m.shownIncident().ID
	m.openForm(&form{
		title: "Open this incident again?", about: id,
		body: func(m *model, _ *form, w int) []row {
			return wrap("Its timeline goes on. Answers to closing questions stay as they are.", w, normal)
		},
		send: func(m *model, f *form, _ string) tea.Cmd {
			return m.record(f, "opened again", func(ctx context.Context, a sources.API) (*api.Result, error) { return a.ReopenIncident(ctx, id) })
		},
	})
}

// keepTicks sends the ticks of the open runbook that the incident has not, if
// there is an open incident and writing is armed. now is the step whose tick
// just changed.
func (m *model) keepTicks(changed int) tea.Cmd {
	open := m.live.openHeads()
	if len(open) == 0 {
		return nil
	}
	if why := m.noWrite(); why != "" {
		m.say(dim, "ticked here alone; the incident keeps ticks once writing is armed: "+why)
		return nil
	}
	r, book, id := m.reading(), m.runbook.open.ID, open[0].ID
	type tick struct {
		step int
		done bool
	}
	var send []tick
	for n := range r.ticks {
		if !r.kept[n] {
			send = append(send, tick{n, true})
		}
	}
	if _, done := r.ticks[changed]; !done && r.kept[changed] {
		send = append(send, tick{changed, false})
	}
	if len(send) == 0 {
		return nil
	}
	slices.SortFunc(send, func(a, b tick) int { return a.step - b.step })
	var steps []int
	for _, t := range send {
		steps = append(steps, t.step)
		if r.kept == nil {
			r.kept = make(map[int]bool)
		}
		if t.done {
			r.kept[t.step] = true
		} else {
			delete(r.kept, t.step)
		}
	}
	what := "step " + strconv.Itoa(changed)
	ctx, src := m.ctx, m.src
	return func() tea.Msg {
		var err error
		var res *api.Result
		for _, t := range send {
			res, err = src.Give(ctx, func(ctx context.Context, a sources.API) (*api.Result, error) {
				return a.IncidentTick(ctx, id, book, t.step, t.done)
			})
			if err != nil {
				break
			}
		}
		return recordedMsg{what: what, result: res, err: err, ticks: r, steps: steps}
	}
}

// incidentWord is the open incident in a few words, for the overview; nil
// without one.
func (m *model) incidentWord(d *data, now time.Time) row {
	open := d.openHeads()
	if len(open) == 0 {
		return nil
	}
	r := row{{"[i]", accent}, {" incident open " + text.Age(d.clock(now).Sub(open[0].OpenedAt)), normal}}
	if len(open) > 1 {
		r = r.add(dim, " (+"+strconv.Itoa(len(open)-1)+")")
	}
	return r
}
