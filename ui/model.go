package ui

import (
	"context"
	"strconv"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// armFor is how long `W` arms writing.
const armFor = 15 * time.Minute

// model is the root of the console: all its state, changed by Update alone.
type model struct {
	o    Options
	src  sources.Gateway
	ask  asking // numbers and log lines
	th   theme
	gl   glyphs
	zone *time.Location // of the local clock
	ctx  context.Context
	sig  *suspender // nil: the console cannot be suspended

	now           time.Time // of this Update
	width, height int       // 0: not known yet

	live   data
	frozen *frozen

	screen  screen
	stack   []screen // what esc goes back to
	pressed string   // the key whose binding is running
	// selected is the upstream under the cursor, by name: rows may move.
	selected string
	lists    [screens]list
	// What both are is forgotten with each Update and each View.
	upstreamRows upstreamRows
	proposed     proposed
	lines        changeRows
	scroll       int // of the screens that are text
	typing       bool
	filter       textinput.Model

	words   words
	search  search // of the decisions
	logs    logScreen
	runbook runbookScreen

	incident incidentScreen
	form     *form // what is written into an incident

	dialog  *dialog
	dialogs int // opened so far: their ids
	leaving *leaving
	stop    bool // the gateway shall be stopped after the console

	armedUntil time.Time
	// settling are shares given from here whose LIVE has not followed yet.
	settling map[string]settling
	message  message
	log      ownLog
	reach    string // how the gateway was reached last, for the log

	panicInView bool // set by a test build only
}

// frozen is a screen that does not move.
type frozen struct {
	data data
	at   time.Time
}

// settling is a share whose LIVE is awaited.
type settling struct {
	share int
	from  float64   // LIVE before, 0 to 1
	since time.Time // ours
	at    time.Time // the same by the gateway's clock
}

// settleFor is how long LIVE is waited for where no reading of after the change
// comes: its window is a minute.
const settleFor = 3 * time.Minute

func newModel(ctx context.Context, o Options) *model {
	m := &model{
		o: o, src: sources.Gateway{API: o.Client}, ctx: ctx,
		th:       theme{colour: !o.noColour, ascii: o.ASCII},
		zone:     time.Local,
		live:     newData(),
		settling: make(map[string]settling),
		filter:   newField(),
		now:      time.Now(),
	}
	m.gl = m.th.glyphs()
	m.log.add(m.now, "console %s on %s, read-only %t, started the gateway %t", o.Version, o.Client.Target(), o.ReadOnly, o.Started)
	return m
}

// Init asks at once; the first frame waits for nothing.
func (m *model) Init() tea.Cmd {
	m.present()
	return tea.Batch(m.askAll(), m.tick())
}

// Update takes one message. It does no I/O.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.now = time.Now()
	m.upstreamRows, m.proposed = upstreamRows{}, proposed{}
	said, on, asked := m.message, m.screen, m.asks()
	cmd := m.update(msg)
	m.moot(said, on, asked)
	return m, tea.Batch(cmd, m.searchBeside(), m.moreLogs())
}

func (m *model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		m.expire()
		m.thawTail()
		return tea.Batch(m.tick(), m.askAll(), m.flushLog())
	case stateMsg:
		m.takeState(sources.Answer[api.State](msg))
	case eventsMsg:
		m.takeEvents(sources.Answer[api.Events](msg))
	case decisionsMsg:
		m.takeDecisions(sources.Answer[api.Decisions](msg))
	case searchMsg:
		m.takeSearch(msg)
	case metricsMsg:
		m.takeMetrics(msg)
	case historyMsg:
		m.takeHistory(msg)
	case lokiMsg:
		m.takeLoki(msg)
	case logsMsg:
		m.heardLoki(msg.Err)
		m.takeLogs(msg)
	case tailMsg:
		return m.takeTail(msg)
	case tailEndedMsg:
		m.takeTailEnd(msg)
	case shareMsg:
		cmd := m.takeShare(msg)
		if msg.err == nil && msg.result.Upstream != nil {
			m.tell(msg.upstream, msg.result.Upstream.Revision)
		}
		return cmd
	case incidentsMsg:
		return m.takeIncidents(msg)
	case incidentMsg:
		m.takeIncident(msg)
	case recordedMsg:
		return m.takeRecorded(msg)
	case quietMsg:
		return m.quiet(msg)
	case copiedMsg:
		if msg.err != nil {
			m.say(bad, "the "+msg.what+" is on the clipboard if the terminal takes it; no file: "+m.th.outside(msg.err.Error()))
		} else {
			m.say(good, "copied the "+msg.what+", also to "+m.th.outside(msg.path))
		}
	case tea.KeyPressMsg:
		m.present()
		return m.key(msg)
	case tea.PasteMsg:
		m.present()
		return m.paste(msg)
	case tea.ResumeMsg:
		m.present()
		return m.askAll()
	}
	return nil
}

// key goes to whatever is open.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case k.String() == "ctrl+c":
		return m.leaveNow()
	case k.String() == "ctrl+z":
		return m.press(k)
	case m.leaving != nil:
		return m.leaving.key(m, k)
	case m.dialog != nil:
		return m.dialog.key(m, k)
	case m.form != nil:
		return m.form.key(m, k)
	case m.typing:
		return m.filterKey(k)
	case m.logs.typing:
		return m.logs.key(m, k)
	}
	return m.press(k)
}

// paste reaches a field that has the focus and nothing else.
func (m *model) paste(p tea.PasteMsg) tea.Cmd {
	p.Content = oneLine(p.Content)
	switch {
	case m.leaving != nil:
		m.leaving.pasted(m)
	case m.dialog != nil:
		if m.dialog.paste(m, p) {
			return nil
		}
	case m.form != nil:
		if m.form.paste(m, p) {
			return nil
		}
	case m.typing:
		m.typeInto(&m.filter, p, fieldMost)
		m.filtered()
		return nil
	case m.logs.typing:
		m.logs.paste(m, p)
		return nil
	}
	m.say(warn, "pasted text is taken by fields only; nothing was done")
	return nil
}

// say puts text on the message line.
func (m *model) say(st style, s string) {
	d := sayFor
	if st == bad {
		d = badFor
	}
	m.sayFor(d, st, s)
}

func (m *model) sayFor(d time.Duration, st style, s string) {
	m.message = message{text: s, style: st, until: m.now.Add(d)}
}

// expire ends what had its time.
func (m *model) expire() {
	if m.message.text != "" && (!m.now.Before(m.message.until) || m.overtaken()) {
		m.message = message{}
	}
	if !m.armedUntil.IsZero() && !m.now.Before(m.armedUntil) {
		m.armedUntil = time.Time{}
		m.say(warn, "writing is no longer armed: W arms again")
		m.log.add(m.now, "no longer armed")
	}
	for name, s := range m.settling {
		u := m.live.upstream(name)
		switch {
		case u == nil || u.Share != s.share && m.now.Sub(s.since) > 2*sources.GatewayPeriod:
			delete(m.settling, name)
		case m.arrived(u, s):
			delete(m.settling, name)
			m.say(good, m.th.outside(name)+" answers "+text.Live(u)+" of its own traffic at share "+strconv.Itoa(s.share)+"%")
		case m.told(u, s):
			delete(m.settling, name)
			says := "under it: see its buckets (enter)"
			if u.Live.Value > float64(s.share)/100 {
				says = "over it: overflow, or conversations that began before"
			}
			m.say(warn, m.th.outside(name)+" has share "+strconv.Itoa(s.share)+"% and LIVE "+text.Live(u)+", "+says)
		case m.now.Sub(s.since) > settleFor:
			delete(m.settling, name)
			m.say(warn, m.th.outside(name)+" has share "+strconv.Itoa(s.share)+"% for "+text.Age(settleFor)+" and LIVE is "+text.Live(u)+": see its buckets (enter)")
		}
	}
}

// liveWindow is the time that LIVE is of.
const liveWindow = time.Minute

// arrived reports whether LIVE shows that the share is followed: it has gone most of
// the way there, or, where it was near before, is still near when all of its window
// is after the change.
func (m *model) arrived(u *api.Upstream, s settling) bool {
	near, gone, _ := m.nearing(u, s)
	return gone || near && m.told(u, s)
}

// told reports whether all that LIVE is of came after the change: whatever it is
// then, nothing is waited for.
func (m *model) told(u *api.Upstream, s settling) bool {
	_, _, at := m.nearing(u, s)
	return !at.Before(s.at.Add(liveWindow))
}

// nearing says how LIVE is to the share, by a reading of after the change: near it,
// and whether it has gone most of a way that is seen to be one. It cannot go all of
// it: membership is by conversation.
func (m *model) nearing(u *api.Upstream, s settling) (near, gone bool, at time.Time) {
	n := m.live.state.Number(u.Live, m.now)
	if u.Share != s.share || n.State != sources.Value || !n.At.After(s.at) {
		return false, false, time.Time{}
	}
	to := float64(s.share) / 100
	way := to - s.from
	return abs(to-n.Value) <= liveNear, abs(way) > liveNear && (n.Value-s.from)/way >= 0.8, n.At
}

// liveNear is how near LIVE is to a share that it is not told apart from.
const liveNear = 0.02

// unsettled reports whether LIVE is still on its way to the share in force,
// which u has for so long.
func (m *model) unsettled(u *api.Upstream, held time.Duration) bool {
	if s, ok := m.settling[u.Name]; ok && s.share == u.Share {
		near, gone, _ := m.nearing(u, s)
		return !near && !gone
	}
	n := m.live.state.Number(u.Live, m.now)
	to := float64(u.Share) / 100
	return u.Share > 0 && held < settleFor && asValue(n) && n.Value < 0.8*to && to-n.Value > liveNear
}

func abs(v float64) float64 { return max(v, -v) }

// d is the data that is shown and the time it is shown for.
func (m *model) d() (*data, time.Time) {
	if m.frozen != nil {
		return &m.frozen.data, m.frozen.at
	}
	return &m.live, m.now
}

// stood is how long the view is frozen: what it shows of ages is from before.
func (m *model) stood() time.Duration {
	if m.frozen == nil {
		return 0
	}
	return sources.Elapsed(m.frozen.at, m.now)
}

func (m *model) armed() bool { return m.now.Before(m.armedUntil) }

// noWrite says why nothing can be written from here, empty if it can.
func (m *model) noWrite() string {
	s := m.live.state.Value()
	switch {
	case m.o.ReadOnly:
		return "this console was started with --read-only"
	case s != nil && s.You.ReadOnlyWhy != "":
		return m.th.outside(s.You.ReadOnlyWhy)
	case s == nil:
		return m.never()
	case !m.armed():
		return "read-only: W arms writing for " + text.Age(armFor)
	}
	return ""
}

func (m *model) noArm() string {
	if m.armed() {
		return ""
	}
	s := m.live.state.Value()
	switch {
	case m.o.ReadOnly:
		return "this console was started with --read-only"
	case s == nil:
		return m.never()
	case s.You.ReadOnlyWhy != "":
		return m.th.outside(s.You.ReadOnlyWhy)
	}
	return ""
}

func (m *model) arm() {
	if m.armed() {
		m.armedUntil = time.Time{}
		m.say(normal, "read-only again")
		m.log.add(m.now, "disarmed")
		return
	}
	m.armedUntil = m.now.Add(armFor)
	s := "writing is armed for " + text.Age(armFor) + "; each change still asks"
	if m.whole().State == sources.Unknown {
		s = "writing is armed for " + text.Age(armFor) + ", but " + m.mute() + ": a step down is tried all the same"
	}
	m.say(warn, s)
	m.log.add(m.now, "armed for %s", armFor)
}

func (m *model) freeze() {
	if m.frozen != nil {
		m.frozen = nil
		return
	}
	m.frozen = &frozen{data: m.live, at: m.now}
}
