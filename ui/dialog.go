package ui

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

const (
	// deafFor is how long a dialog hears nothing after it opened: the key that
	// opened it may be held, and what was typed for the screen below is not for it.
	deafFor = 300 * time.Millisecond
	// quietFor is how long no other key may come before and after a y. People
	// do not type that fast; text pasted without brackets does.
	quietFor = 120 * time.Millisecond
)

// field is where typed characters go.
type field uint8

const (
	noField field = iota
	whyField
	nameField
)

// dialog asks before a share changes. It is bound to an upstream by name and
// to the revision that was shown; what it says of them is read anew each time.
type dialog struct {
	lone
	upstream string
	act      action
	to       int
	base     uint64      // revision shown
	from     int         // share shown with it
	up       bool        // it raises that share: what it does is fixed with base
	recovers bool        // from degraded
	pressed  api.Command // what the y that waits for quiet was pressed on
	against  int         // how much spoke against it then
	opened   time.Time
	undo     bool       // opened by `u`
	restore  bool       // by the gateway's own undo
	undoes   *api.Event // the change that is undone, if known

	why, name textinput.Model
	focus     field
	scroll    int
	page      int // rows that scroll, of which read were in view
	read      int
	unread    bool      // some that were not speak against it
	moved     time.Time // when what it asks about last became another

	sending bool
	sentAt  time.Time
	stale   bool   // the gateway said that base is not current
	gate    string // the gateway's objection to this step
	refusal string // what else it said
}

func (m *model) openDialog(u *api.Upstream, to int) { m.openAction(u, toShare, to) }

func (m *model) openAction(u *api.Upstream, act action, to int) {
	m.frozen = nil // nobody may act on a frozen number
	m.typing = false
	m.dialogs++
	m.dialog = &dialog{
		lone: lone{id: m.dialogs}, upstream: u.Name, act: act, to: to, opened: m.now,
		why: newField(), name: newField(),
	}
	m.dialog.fix(u)
	m.dialog.focusNeeded(m)
}

// fix settles what the dialog does by what u is, which is shown: until it is
// reread nothing that happens to u makes another command of it.
func (d *dialog) fix(u *api.Upstream) {
	d.scroll, d.read = 0, 0
	d.base, d.from, d.recovers = u.Revision, u.Share, u.Health == api.Degraded
	if d.to != u.Share {
		d.up = d.to > u.Share
	}
}

// idle reports whether the dialog asks for the share that was there already when
// it was reread: then it asks for none, until another is chosen.
func (d *dialog) idle() bool { return d.act == toShare && d.to == d.from }

// unsayOff ends a message about what y does, which has become another. What was
// not done is said to its end.
func (m *model) unsayOff() {
	if m.message.style != bad {
		m.message = message{}
	}
}

// check is one line of what speaks for or against a step.
type check struct {
	mark string // ok, WARN, no, ?? where it cannot be known; empty: only said
	text string
}

// assessment is what a dialog may say now.
type assessment struct {
	u                 *api.Upstream // nil: no longer configured
	raise             bool
	checks            []check
	needWhy, needName bool
	off               string // why y does nothing, whatever is typed
	after             string // the step that a plan leaves to an operator, empty: none
	dark              bool   // the gateway is silent: what it said last vouches for nothing
}

func (a *assessment) add(mark, text string) {
	a.show(mark, text)
	switch mark {
	case "WARN":
		a.needWhy = true
	case "no":
		a.needWhy, a.needName = true, true
	}
}

// show adds a line that asks for nothing. Where the gateway is silent nothing is
// ok any more: what was may not be.
func (a *assessment) show(mark, text string) {
	if a.dark && mark == "ok" {
		mark = "??"
	}
	a.checks = append(a.checks, check{mark, text})
}

// assess looks at the live state, never at a frozen one.
func (d *dialog) assess(m *model) assessment {
	u := m.live.upstream(d.upstream)
	name := m.th.outside(d.upstream)
	if u == nil {
		return assessment{off: name + " is no longer configured"}
	}
	a := assessment{u: u, raise: d.raises(), off: d.settled(m, u)}
	whole := m.whole()
	a.dark = whole.State == sources.Unknown
	if d.wayOut(m, u) != "" {
		a.after = percent(u.NextStep.Share)
	}
	switch {
	case d.idle():
	case a.raise:
		d.assessRaise(m, &a, whole)
	case whole.State != sources.Value:
		a.checks = append(a.checks, check{"", m.mute() + ": what is shown is " + text.Age(whole.Age) + " old. " + d.safe() + " is tried all the same"})
	}
	d.assessUndo(m, &a)
	d.assessRevision(m, &a, whole)
	if a.raise && a.off == "" {
		a.off = m.noWrite()
	}
	return a
}

func (d *dialog) assessRaise(m *model, a *assessment, whole sources.Number) {
	u, now := a.u, m.live.clock(m.now)
	switch whole.State {
	case sources.Unknown:
		a.add("no", m.mute()+" for "+text.Age(m.live.state.Silence(m.now))+": its state is unknown")
	case sources.Ageing:
		a.add("WARN", "what is shown is "+text.Age(whole.Age)+" old")
	}
	gated := false // the breaker line says what the gate says
	w := text.Worst(u.Breakers)
	since, least := text.Since(u, m.live.changes)
	switch {
	case w == nil:
		a.add("no", "it has no breaker: its state is unknown")
	case whole.State == sources.Unknown:
		a.add("no", "breaker unknown, "+text.Breaker(w, now)+" when last heard of")
	case text.Severity(w) == 0:
		a.add("ok", "breaker "+text.Breaker(w, now)+forLong(w, since, least, now))
	case text.Severity(w) == 3 && w.ProbeDue && u.Share == 0 && d.to == shareAbove(m.live.state.Value(), u, 0):
		a.add("no", "breaker "+text.Breaker(w, now)+forLong(w, since, least, now)+": this step brings its probe")
		gated = true
	case text.Severity(w) == 3:
		s := "breaker " + text.Breaker(w, now) + forLong(w, since, least, now)
		if w.Reason != "" {
			s += ": " + strings.TrimSpace(m.th.outside(w.Reason)+" "+m.th.outside(w.Detail))
		}
		a.add("no", s)
		gated = true
	default:
		a.add("WARN", "breaker "+text.Breaker(w, now)+forLong(w, since, least, now))
		gated = true
	}
	a.checks = append(a.checks, check{"", "now: " + m.number(m.live.state.Number(u.ErrorRatio, m.now), text.Percent) + " failed, first output p95 " +
		m.p95(u, &m.live, m.now).text + ", " + m.number(m.live.state.Number(u.RPS, m.now), text.Rate) + " req/s"})
	if d.restore {
		return // the gateway's own way back asks nothing of steps or gate
	}
	evident := d.assessEvidence(m, a)
	if !evident {
		d.assessWindow(m, a, now)
	}
	if d.act == toPlan {
		return
	}
	if next := shareAbove(m.live.state.Value(), u, u.Share); d.to > next {
		a.add("no", "it skips a step: the next is "+percent(next))
	}
	switch b := u.NextStep.BlockedBy; {
	case d.gate != "":
		a.add("WARN", "the gateway objects: "+m.th.outside(d.gate))
	case evident && a.needWhy && !plainBlock(b):
	case b != "" && !(gated && strings.Contains(strings.ToLower(b), "breaker")):
		a.add("WARN", "not now: "+m.th.outside(b))
	}
	if p := m.live.state.Value().Passthrough; p != nil {
		a.checks = append(a.checks, check{"", "passthrough is on: no share counts until it ends"})
	}
}

// assessWindow says whether the step in force was held as long as it asks for,
// and whether the traffic has followed it. Share 0 has nothing to watch.
func (d *dialog) assessWindow(m *model, a *assessment, now time.Time) {
	u := a.u
	held := now.Sub(u.Since)
	asks := stepObserve(stepsOf(m.live.state.Value(), u), u.Share)
	switch {
	case u.Share == 0 || asks == 0:
		a.checks = append(a.checks, check{"", "share " + text.Share(u) + " for " + text.Age(held)})
	case u.Since.IsZero():
		a.add("WARN", "held at "+percent(u.Share)+" for ??; the step asks for "+text.Age(asks))
	case held < asks:
		a.add("WARN", "held at "+percent(u.Share)+" for "+text.Age(held)+"; the step asks for "+text.Age(asks))
	default:
		a.add("ok", "held at "+percent(u.Share)+" for "+text.Age(held)+"; the step asks for "+text.Age(asks))
	}
	if m.unsettled(u, held) {
		a.add("WARN", "LIVE "+m.number(m.live.state.Number(u.Live, m.now), text.Percent)+" has not reached "+percent(u.Share))
	}
}

// plainBlock reports whether an objection of the gateway is about something
// else than evidence, whose rows are shown already.
func plainBlock(s string) bool {
	s = strings.ToLower(s)
	return s != "" && !strings.Contains(s, "evidence") && !strings.Contains(s, "probe") && !strings.Contains(s, api.NoData)
}

// safe names the command of a dialog that is never blocked.
func (d *dialog) safe() string {
	if d.act == toManual {
		return "Taking the plan back"
	}
	return "Going down"
}

// stepObserve is how long the step of a share is to be watched; 0 if it is no
// step, or one to be held.
func stepObserve(steps []api.FailbackStep, share int) time.Duration {
	for _, s := range steps {
		if s.Share == share {
			return time.Duration(s.ObserveSeconds * float64(time.Second))
		}
	}
	return 0
}

// assessUndo shows whose change would be undone.
func (d *dialog) assessUndo(m *model, a *assessment) {
	if !d.undo || d.undoes == nil {
		return
	}
	e := d.undoes
	s := text.By(e) + "'s change: " + m.th.outside(text.Event(e)) + ", " + text.Age(m.live.clock(m.now).Sub(e.Time)) + " ago"
	if e.By == m.live.state.Value().You.Name {
		a.checks = append(a.checks, check{"", "undoes your own " + strings.TrimPrefix(s, text.By(e)+"'s ")})
	} else if a.raise {
		a.add("WARN", "undoes "+s)
	} else {
		a.checks = append(a.checks, check{"WARN", "undoes " + s})
	}
}

func (d *dialog) assessRevision(m *model, a *assessment, whole sources.Number) {
	switch {
	case a.u.Revision != d.base || d.stale:
	case whole.State != sources.Value:
		a.show("??", "whether it changed since you opened this (rev "+strconv.FormatUint(d.base, 10)+"): "+m.mute())
		return
	default:
		a.add("ok", "nothing changed since you opened this (rev "+strconv.FormatUint(d.base, 10)+")")
		return
	}
	s := "it changed meanwhile"
	if e := m.lastStep(a.u); e != nil {
		s += ": " + text.By(e) + " " + m.th.outside(text.Event(e))
	} else if a.u.Revision != d.base {
		s += ": rev " + strconv.FormatUint(a.u.Revision, 10) + ", share " + percent(a.u.Share) + m.th.outside(byOf(a.u.RevisedBy))
	}
	if !a.raise && !d.overturned(a.u) {
		a.checks = append(a.checks, check{"WARN", s + ". " + d.safe() + " goes through"})
		return
	}
	a.checks = append(a.checks, check{"no", s})
	a.off = d.overtaken(m, a.u)
}

// overturned reports whether a dialog that lowers would lower nothing any more:
// somebody else went as far or further.
func (d *dialog) overturned(u *api.Upstream) bool {
	return d.act == toShare && !d.up && d.to >= u.Share
}

// overtaken says who was first, and what leads on.
func (d *dialog) overtaken(m *model, u *api.Upstream) string {
	if d.act == toShare && d.to == u.Share && u.Share != d.from {
		return "share " + percent(d.to) + " is set already" + m.th.outside(byOf(u.RevisedBy)) + ": r rereads"
	}
	return "it changed meanwhile: r rereads"
}

// weighs counts what speaks against it.
func (a *assessment) weighs() (n int) {
	for _, c := range a.checks {
		if c.mark == "WARN" || c.mark == "no" {
			n++
		}
	}
	return n
}

// notReady says why y would do nothing now, empty if it would send.
func (d *dialog) notReady(a *assessment) string {
	switch {
	case d.sending:
		return "sent, waiting for the gateway"
	case a.off != "":
		return a.off
	case a.raise && d.unread:
		return "pgdn first"
	case a.needWhy && strings.TrimSpace(d.why.Value()) == "":
		return "type why first (tab)"
	case a.needName && strings.TrimSpace(d.name.Value()) != d.upstream:
		return "type the upstream's name first (tab)"
	}
	return ""
}

// focusNeeded puts the cursor where something must be typed.
func (d *dialog) focusNeeded(m *model) {
	a := d.assess(m)
	switch {
	case a.needWhy && d.why.Value() == "":
		d.focus = whyField
	case a.needName && d.name.Value() == "":
		d.focus = nameField
	default:
		d.focus = noField
	}
}

// fields are those there are now, in order.
func (a *assessment) fields() []field {
	if a.needName {
		return []field{whyField, nameField, noField}
	}
	return []field{whyField, noField}
}

func (d *dialog) turn(a *assessment, by int) {
	fs := a.fields()
	at := len(fs) - 1
	for i, f := range fs {
		if f == d.focus {
			at = i
		}
	}
	d.focus = fs[(at+by+len(fs))%len(fs)]
}

func (d *dialog) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	last, void := d.heard(m.now)
	if void {
		m.say(warn, otherKeys("y")+"nothing was sent")
	}
	if m.now.Sub(d.opened) < deafFor {
		return nil
	}
	if m.tiny() {
		// What cannot be read cannot be answered.
		if k.String() == "esc" {
			m.dialog = nil
		}
		return nil
	}
	a := d.assess(m)
	s := k.String()
	switch s {
	case "esc":
		d.close(m)
		return nil
	case "tab":
		d.turn(&a, 1)
		return nil
	case "shift+tab":
		d.turn(&a, -1)
		return nil
	case "pgdown":
		d.scroll += max(d.page-1, 1)
		return nil
	case "pgup":
		d.scroll = max(d.scroll-max(d.page-1, 1), 0)
		return nil
	}
	if d.focus != noField {
		switch s {
		case "enter", "down":
			d.turn(&a, 1)
		case "up":
			d.turn(&a, -1)
		default:
			f := &d.why
			if d.focus == nameField {
				f = &d.name
			}
			m.typeInto(f, k, fieldMost)
		}
		return nil
	}
	switch s {
	case "y":
		if m.now.Sub(d.moved) < deafFor {
			m.say(warn, "what y says has just changed: read it, then y")
			return nil
		}
		if m.now.Sub(last) < quietFor {
			m.say(warn, "the y came with other keys, as pasted text has it: nothing was sent")
			return nil
		}
		if why := d.notReady(&a); why != "" {
			m.say(warn, "y is off: "+why)
			return nil
		}
		d.pressed, _, _ = d.command(&a)
		d.against = a.weighs()
		return d.ask(m)
	case "n":
		d.close(m)
	case "r":
		d.reread(m, &a)
	case "left", "right":
		d.retarget(m, &a, s == "right")
	case "down":
		d.scroll++
	case "up":
		d.scroll = max(d.scroll-1, 0)
	}
	return nil
}

// paste reports whether a field took it.
func (d *dialog) paste(m *model, p tea.PasteMsg) bool {
	if _, void := d.heard(m.now); void {
		m.say(warn, pastedY+"nothing was sent")
	}
	if m.now.Sub(d.opened) < deafFor || m.tiny() {
		return false
	}
	switch d.focus {
	case whyField:
		m.typeInto(&d.why, p, fieldMost)
	case nameField:
		m.typeInto(&d.name, p, fieldMost)
	default:
		return false
	}
	return true
}

func (d *dialog) close(m *model) {
	m.dialog = nil
	if d.sending {
		m.say(warn, "the command is sent already; its answer will be said here")
	}
}

func (d *dialog) reread(m *model, a *assessment) {
	if a.u == nil || d.sending {
		return
	}
	d.stale, d.gate, d.refusal, d.moved = false, "", "", m.now
	m.unsayOff()
	d.fix(a.u)
	if d.idle() {
		d.focus = noField // for left and right
	}
	if !d.restore {
		return
	}
	// What it promised was meant for another state.
	if m.restorable(a.u) {
		d.to, d.undoes = a.u.Undo.Share, m.lastStep(a.u)
		d.fix(a.u)
		return
	}
	d.undo, d.restore, d.undoes = false, false, nil
	m.say(warn, "what u restores is no longer yours to restore: this is a step like any other now")
}

// retarget chooses the step beside the chosen one, other than the present.
func (d *dialog) retarget(m *model, a *assessment, up bool) {
	if a.u == nil || d.sending || d.act != toShare {
		return
	}
	further := shareBelow
	if up {
		further = shareAbove
	}
	s := m.live.state.Value()
	to := further(s, a.u, d.to)
	if to == a.u.Share {
		to = further(s, a.u, to)
	}
	if to < 0 {
		return
	}
	d.to, d.moved, d.up = to, m.now, to > d.from
	m.unsayOff()
	d.scroll, d.read = 0, 0
	d.undo, d.restore, d.undoes, d.gate, d.refusal = false, false, nil, "", ""
}

// quiet sends the command if no key followed the y, and all still holds.
func (m *model) quiet(msg quietMsg) tea.Cmd {
	if l := m.leaving; l != nil && l.answers(msg) {
		return l.end(m)
	}
	if f := m.form; f != nil && f.answers(msg) {
		return f.end(m)
	}
	d := m.dialog
	if d == nil || !d.answers(msg) {
		return nil
	}
	a := d.assess(m)
	if why := d.notReady(&a); why != "" {
		m.say(warn, "nothing was sent: "+why)
		return nil
	}
	if cmd, _, _ := d.command(&a); a.raise && (cmd.Override != d.pressed.Override || a.weighs() > d.against) {
		d.moved = m.now
		m.say(warn, "nothing was sent: what speaks against it has just changed: read it, then y")
		return nil
	}
	return d.send(m, &a)
}

func (d *dialog) send(m *model, a *assessment) tea.Cmd {
	_, change, send := d.command(a)
	cmd := d.pressed
	d.sending, d.sentAt, d.refusal = true, m.now, ""
	msg := shareMsg{dialog: d.id, upstream: d.upstream, change: change}
	if d.act == toShare || d.act == toDegraded && a.u.Share > 0 {
		msg.settling = m.settle(a.u, d.to)
	}
	m.log.add(m.now, "sent: %s %s, rev %d, override %t, undo %t, why %q", d.upstream, msg.change, d.base, cmd.Override, cmd.Undo, cmd.Reason)
	ctx, src := m.ctx, m.src
	return func() tea.Msg {
		msg.result, msg.err = send(src, ctx, msg.upstream, cmd)
		return msg
	}
}

// settle notes where LIVE comes from; nil if there is no own traffic to see
// the share by.
func (m *model) settle(u *api.Upstream, to int) *settling {
	if len(u.PrimaryOf) == 0 {
		return nil
	}
	s := settling{share: to, from: float64(u.Share) / 100, at: m.live.clock(m.now)}
	if n := m.live.state.Number(u.Live, m.now); n.State == sources.Value {
		s.from = n.Value
	}
	return &s
}

// takeShare takes the answer to a command. That it succeeded closes the
// dialog; whether traffic follows is for the row to show.
func (m *model) takeShare(msg shareMsg) tea.Cmd {
	d := m.dialog
	if d != nil && d.id != msg.dialog {
		d = nil
	}
	name := m.th.outside(msg.upstream)
	if msg.err == nil {
		if d != nil {
			m.dialog = nil
		}
		s, st := m.th.outside(msg.result.Message), good
		if msg.result.AuditPending {
			s, st = s+" (in force; the audit cannot be written now)", warn
		}
		m.say(st, s)
		if s := msg.settling; s != nil {
			m.settling[msg.upstream] = settling{s.share, s.from, m.now, s.at}
		}
		m.log.add(m.now, "done: %s %s: %s", msg.upstream, msg.change, msg.result.Message)
		return m.askAll()
	}
	m.log.add(m.now, "failed: %s %s: %v", msg.upstream, msg.change, msg.err)
	said := "refused: "
	if e, ok := errors.AsType[*api.UnreachableError](msg.err); ok && e.MayHaveHappened {
		said = "no answer, it may have taken effect; the row shows what the gateway has: "
	}
	said += m.th.outside(errText(msg.err))
	if d == nil {
		m.say(bad, name+" "+msg.change+" "+said)
		return m.askAll()
	}
	d.sending, d.refusal = false, said
	if e, ok := errors.AsType[*api.Error](msg.err); ok {
		switch e.Code {
		case api.CodeStaleRevision:
			d.stale = true
			if w := e.LastWrite; w != nil {
				d.refusal = "refused: " + text.By(w) + " was first: " + m.th.outside(text.Event(w))
			}
		case api.CodeBlocked:
			d.gate, d.refusal = e.Message, ""
		}
	}
	m.say(bad, name+" "+msg.change+" was not done")
	return m.askAll()
}

// errText writes an error with its hint and without the target, which is known.
func errText(err error) string {
	if e, ok := errors.AsType[*api.UnreachableError](err); ok {
		return sources.Why(err) + hint(e.Hint)
	}
	return err.Error()
}

func hint(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func percent(share int) string { return strconv.Itoa(share) + "%" }
