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
	// id is of the incident that was gone to; empty: the newest open one is shown,
	// else the newest.
	id string
	// beside is the newest open one when id was gone to: while that is another, id
	// does not stand for what is going on.
	beside string
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
		form   *form // nil: of ticks
		what   string
		result *api.Result
		err    error
		ticks  *tickBatch // nil: it is none
	}
)

func incidentKeys() []binding {
	here := at(incidents)
	return []binding{
		bind([]string{"i"}, "i", "incident", "the incident: what happened, who did what, and what closing it asks").line(9).unless((*model).noIncidentKey).hidden().above((*model).incidentSaid).does((*model).toIncident),
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

// newestOpen is the open incident that was opened last; nil without one.
func (d *data) newestOpen() *api.IncidentHead {
	open := d.openHeads()
	if len(open) == 0 {
		return nil
	}
	return &open[len(open)-1]
}

// startIncident is the open incident that START tells of, i shows and ticks go
// to: the newest, or the open one that was gone to since that was opened. nil if
// none is open.
func (m *model) startIncident(d *data) *api.IncidentHead {
	newest := d.newestOpen()
	if newest == nil || newest.ID != m.incident.beside {
		return newest
	}
	open := d.openHeads()
	if i := slices.IndexFunc(open, func(h api.IncidentHead) bool { return h.ID == m.incident.id }); i >= 0 {
		return &open[i]
	}
	return newest
}

// openIncidentID is the id of startIncident; empty if none is open.
func (m *model) openIncidentID() string {
	if h := m.startIncident(&m.live); h != nil {
		return h.ID
	}
	return ""
}

// toIncident goes to the incident that START tells of; without one the last that
// was shown is shown again.
func (m *model) toIncident() tea.Cmd {
	if id := m.openIncidentID(); id != "" && id != m.incident.id {
		m.incident.id, m.incident.beside, m.scroll = "", "", 0
	}
	if m.screen != incidents {
		m.enter(incidents)
	}
	return m.askIncidents()
}

func (m *model) noIncidentKey() string {
	if id := m.openIncidentID(); id != "" && id != m.incidentID() {
		return ""
	}
	return m.already(incidents)
}

// incidentID is which incident is shown; empty if there is none.
func (m *model) incidentID() string {
	if m.form != nil && m.form.about != "" {
		return m.form.about
	}
	if m.incident.id != "" {
		return m.incident.id
	}
	if id := m.openIncidentID(); id != "" {
		return id
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
	m.incident.id, m.incident.beside, m.scroll = all[to].ID, "", 0
	if h := m.live.newestOpen(); h != nil {
		m.incident.beside = h.ID
	}
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
		if m.openIncidentID() != "" {
			return "it is closed: i shows the open one"
		}
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
	switch id := m.openIncidentID(); {
	case m.noWrite() != "":
		return m.noWrite()
	case id != "" && id != m.incidentID():
		return "incident " + m.th.outside(id) + " is open: i shows it"
	case id != "":
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
	if msg.ticks != nil {
		return tea.Batch(m.takeTicks(msg), m.askIncidents(), m.askState())
	}
	switch {
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
		title: "Note for incident " + m.th.outside(id), about: id, label: "note",
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
			m.incident.id, m.incident.beside = "", ""
			return m.record(f, "an incident", func(ctx context.Context, a sources.API) (*api.Result, error) { return a.OpenIncident(ctx, typed) })
		},
	})
}

func (m *model) reopen() {
	id, title := m.shownIncident().ID, m.shownIncident().Title
	m.openForm(&form{
		title: "Reopen incident " + m.th.outside(id) + "?", about: id,
		body: func(m *model, _ *form, w int) []row {
			return append(wrap(m.th.outside(title), w, strong), wrap("Its timeline goes on. Answers to closing questions stay as they are.", w, normal)...)
		},
		send: func(m *model, f *form, _ string) tea.Cmd {
			return m.record(f, "opened again", func(ctx context.Context, a sources.API) (*api.Result, error) { return a.ReopenIncident(ctx, id) })
		},
	})
}

// incidentWord is the open incident in a few words, for the overview; nil
// without one.
func (m *model) incidentWord(d *data, now time.Time) row {
	h := m.startIncident(d)
	if h == nil {
		return nil
	}
	r := row{{"[i]", accent}, {" incident open " + text.Age(d.clock(now).Sub(h.OpenedAt)), normal}}
	if n := len(d.openHeads()); n > 1 {
		r = r.add(dim, " (+"+strconv.Itoa(n-1)+")")
	}
	return r
}
