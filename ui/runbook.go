package ui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/runbooks"
	"failback/sources"
	"failback/ui/text"
)

// runbookScreen is the state of the runbook screen, and of what was ticked off
// in this session.
type runbookScreen struct {
	all    []runbooks.Runbook
	loaded bool
	errs   []error // of those that were left out

	open *runbooks.Runbook // nil: none was opened yet
	why  string            // why it was proposed when it was opened; empty: it was not
	list runbookList

	order    []*runbooks.Runbook // by their keys, 1 first
	kept     []*runbooks.Runbook // those that are proposed and keep their keys
	readings map[string]*reading // by the id of a runbook
	wrapped  *runbookText        // what was wrapped last
}

// reading is how far one is in a runbook.
type reading struct {
	cursor int               // a stop
	top    int               // first row seen
	ticks  map[int]time.Time // when a step was ticked off, by its number
	record tickRecord
}

// runbookSet returns the runbooks there are: the program's own, and those of
// the directory that was named.
func (m *model) runbookSet() []runbooks.Runbook {
	rb := &m.runbook
	if !rb.loaded {
		rb.loaded = true
		own, err := runbooks.Embedded()
		if err != nil {
			rb.errs = append(rb.errs, err)
		}
		rb.errs = append(rb.errs, m.o.Runbooks.Errors...)
		var extra []runbooks.Runbook
		for _, r := range m.o.Runbooks.Runbooks {
			if errs := checkRunbook(&r); len(errs) > 0 {
				rb.errs = append(rb.errs, errs...)
			} else {
				extra = append(extra, r)
			}
		}
		rb.all = runbooks.Merge(own, extra)
		for _, err := range rb.errs {
			m.log.add(m.now, "runbook left out: %v", err)
		}
	}
	return rb.all
}

// checkRunbook says what of r this console has not: queries and keys.
func checkRunbook(r *runbooks.Runbook) (errs []error) {
	var names []string
	for _, c := range sources.CannedQueries(nil, "") {
		names = append(names, c.Name)
	}
	if err := runbooks.CheckQueries([]runbooks.Runbook{*r}, names); err != nil {
		errs = append(errs, err)
	}
	for _, ref := range r.Keys() {
		if why := noKey(ref); why != "" {
			errs = append(errs, fmt.Errorf("%s:%d: %s; ? lists the keys", r.File, ref.Line, why))
		}
	}
	return errs
}

// noKey says why a key that a runbook names is none, empty if it is one.
func noKey(ref runbooks.KeyRef) string {
	if ref.Screen == "dialog" {
		if !slices.ContainsFunc(dialogTable, func(k Key) bool { return slices.Contains(strings.Fields(k.Keys), ref.Key) }) {
			return "the dialog has no key " + ref.Key
		}
		return ""
	}
	on := runbook
	if ref.Screen != "" {
		for on = 0; on < screens && on.String() != ref.Screen; on++ {
		}
		if on == screens {
			return "there is no screen " + ref.Screen
		}
	}
	if !slices.ContainsFunc(table, func(b binding) bool { return b.on.has(on) && slices.Contains(b.Keys(), ref.Key) }) {
		return ref.Key + " does nothing on " + on.String()
	}
	return ""
}

// reading is that of the open runbook.
func (m *model) reading() *reading {
	rb := &m.runbook
	r := rb.readings[rb.open.ID]
	if r == nil {
		if rb.readings == nil {
			rb.readings = make(map[string]*reading)
		}
		r = &reading{ticks: make(map[int]time.Time)}
		rb.readings[rb.open.ID] = r
	}
	return r
}

// proposed are the runbooks that fit what is shown, for as long as that is the
// same: within one Update and within one View.
type proposed struct {
	state    *api.State
	numbers  *sources.Overview
	newest   *api.Event // change
	at       time.Time
	runbooks []runbooks.Match
}

// proposals are the runbooks that fit what is shown. Nobody changes what it
// returns.
func (m *model) proposals() []runbooks.Match {
	d, now := m.d()
	s := d.state.Value()
	if s == nil {
		return nil
	}
	p := proposed{state: s, numbers: d.metrics.Value(), at: now}
	if len(d.changes) > 0 {
		p.newest = &d.changes[0]
	}
	if q := &m.proposed; q.state == p.state && q.numbers == p.numbers && q.newest == p.newest && q.at.Equal(p.at) {
		return q.runbooks
	}
	situation := runbooks.Situation{State: s, Openings: openings(s, d.changes)}
	if n, _ := d.ratio(now); asValue(n) {
		situation.Ratio = &n.Value
	} else if n := d.state.Number(s.Traffic.FallbackRatio, now); asValue(n) {
		situation.Ratio = &n.Value
	}
	if v := d.metrics.Value(); v != nil && d.metrics.Whole(now).State != sources.Unknown {
		situation.Alerts, situation.Violations, situation.Gone = v.Alerts, v.Violations, v.Gone
	}
	p.runbooks = runbooks.Propose(m.runbookSet(), situation)
	for i := range p.runbooks { // names from outside are among the reasons
		b := &p.runbooks[i]
		b.Why, b.Short = m.th.outside(b.Why), m.th.outside(b.Short)
	}
	m.proposed = p
	return p.runbooks
}

// openings are those of the buckets that are not closed since each last was,
// oldest first, as far as the changes, newest first, tell; no two alike.
func openings(s *api.State, changes []api.Event) map[string][]runbooks.Opening {
	os := make(map[string][]runbooks.Opening)
	going := make(map[string]bool) // whose beginning is not found yet
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		for j := range u.Breakers {
			if b := &u.Breakers[j]; b.State != "closed" {
				going[u.Name+":"+b.Capability] = true
			}
		}
	}
	for i := 0; i < len(changes) && len(going) > 0; i++ {
		e := &changes[i]
		if e.Event != api.KindBreaker {
			continue
		}
		bucket := e.Provider + ":" + e.Capability
		if !going[bucket] {
			continue
		}
		if e.To == "closed" || e.From == "closed" {
			delete(going, bucket)
		}
		if o := (runbooks.Opening{Reason: e.Reason, Detail: e.Detail}); e.To == "open" {
			os[bucket] = append(slices.DeleteFunc(os[bucket], func(p runbooks.Opening) bool { return p == o }), o)
		}
	}
	for _, o := range os {
		slices.Reverse(o)
	}
	return os
}

// numbered are the runbooks by their keys, 1 first: the proposed ones before
// the others, though none leaves its key as long as it is proposed.
func (m *model) numbered() []*runbooks.Runbook {
	rb := &m.runbook
	if all := m.runbookSet(); len(rb.order) != len(all) {
		rb.order = nil
		for i := range all {
			rb.order = append(rb.order, &all[i])
		}
	}
	ps := m.proposals()
	proposed := func(r *runbooks.Runbook) bool {
		return slices.ContainsFunc(ps, func(p runbooks.Match) bool { return p.Runbook == r })
	}
	for _, p := range ps {
		if slices.Contains(rb.kept, p.Runbook) {
			continue
		}
		at := slices.Index(rb.order, p.Runbook)
		to := slices.IndexFunc(rb.order, func(r *runbooks.Runbook) bool { return !slices.Contains(rb.kept, r) || !proposed(r) })
		rb.order[at], rb.order[to] = rb.order[to], rb.order[at]
		rb.kept = append(rb.kept, p.Runbook)
	}
	rb.kept = slices.DeleteFunc(rb.kept, func(r *runbooks.Runbook) bool { return !proposed(r) })
	return rb.order
}

// digit is the key that leads to a runbook: its own, or 0 for the list.
func (m *model) digit(r *runbooks.Runbook) string {
	if n := slices.Index(m.numbered(), r) + 1; n <= 9 {
		return strconv.Itoa(n)
	}
	return "0"
}

// digits are the keys of all runbooks that have one; empty if there is none.
func (m *model) digits() string {
	switch n := min(len(m.runbookSet()), 9); n {
	case 0:
		return ""
	case 1:
		return "1"
	default:
		return "1-" + strconv.Itoa(n)
	}
}

// allDigits are the keys of runbooks, of which a session has as many as there
// are runbooks.
const allDigits = "1-9"

func runbookKeys() []binding {
	here := at(runbook)
	return []binding{
		bind([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}, allDigits, "runbook", "open the runbook proposed under that number; behind the proposed ones come the others").line(15).unless((*model).noRunbook).hidden().above(func(m *model) bool { return m.onFirst() && len(m.proposals()) > 0 }).does(act((*model).openRunbook)),
		bind([]string{"0"}, "0", "all", "list all runbooks, the proposed ones first; enter opens one").line(23).unless((*model).noList).hidden().does(act((*model).listRunbooks)),
		bind([]string{"enter"}, "enter", "open", "open the runbook under the cursor of the list").at(here).line(4).unless((*model).noListed).hidden().does(act((*model).openListed)),
		bind([]string{"/"}, "/", "filter", "filter the list of runbooks; esc clears").at(here).line(7).unless((*model).notListing).hidden().does(act((*model).startFilter)),
		bind([]string{"x", "space"}, "x", "tick", "tick the step off, or take the tick away; an open incident keeps it while writing is armed, nothing else is done by it").at(here).line(4).unless((*model).noTick).does((*model).tickStep),
		bind([]string{"l"}, "l", "logs", "the step's query over the decision log, or the log screen").at(here).line(5).does((*model).stepQuery),
		bind([]string{"T"}, "T", "copy ticks", "copy all steps with their ticks and the times of these").at(here).line(6).unless((*model).noOpenRunbook).does(func(m *model) tea.Cmd { return m.copy("runbook", m.tickedText()) }),
		bind([]string{"X"}, "X", "", "take all ticks of the runbook away").at(here).unless((*model).noTicks).does((*model).untickAll),
	}
}

func (m *model) noRunbook() string {
	if len(m.runbookSet()) == 0 {
		return "there is no runbook; ! says why"
	}
	return ""
}

// openRunbook opens the runbook of the number that was pressed.
func (m *model) openRunbook() {
	n, err := strconv.Atoi(m.pressed)
	rs := m.numbered()
	if err != nil || n < 1 || n > len(rs) {
		m.say(dim, "there is no runbook "+m.pressed+": the last one is "+strconv.Itoa(len(rs)))
		return
	}
	m.showRunbook(rs[n-1])
	m.runbook.list.from = false
}

// showRunbook opens r on the runbook screen.
func (m *model) showRunbook(r *runbooks.Runbook) {
	rb := &m.runbook
	rb.open, rb.why, rb.list.shown = r, "", false
	m.lists[runbook].filter = ""
	for _, p := range m.proposals() {
		if p.Runbook == rb.open {
			rb.why = p.Why
		}
	}
	m.toRunbooks()
}

// toRunbooks goes to the runbook screen, which is open once: esc leads to where
// one came from, not to another runbook.
func (m *model) toRunbooks() {
	kept := m.stack[:0:0]
	for _, s := range m.stack {
		if s != runbook {
			kept = append(kept, s)
		}
	}
	m.stack = kept
	if m.screen != runbook {
		m.enter(runbook)
	}
}

func (m *model) noOpenRunbook() string {
	if m.runbook.open == nil || m.listing() {
		return "no runbook is open"
	}
	return ""
}

// runbookStep is the step under the cursor; nil if there is none.
func (m *model) runbookStep() *runbooks.Block {
	if m.noOpenRunbook() != "" {
		return nil
	}
	stops := stopsOf(m.runbook.open)
	s := stops[clamp(m.reading().cursor, 0, len(stops)-1)]
	if s.step == 0 {
		return nil
	}
	return m.runbook.open.Steps()[s.step-1]
}

func (m *model) noTick() string {
	switch {
	case m.noOpenRunbook() != "":
		return m.noOpenRunbook()
	case m.runbookStep() == nil:
		return "there is no step under the cursor: j goes to the next one"
	}
	return ""
}

func (m *model) noTicks() string {
	if m.noOpenRunbook() != "" || len(m.reading().ticks)+len(m.reading().record.back) == 0 {
		return "no step is ticked"
	}
	return ""
}

// stepQuery goes to the log screen, with the query of the step if it has one.
func (m *model) stepQuery() tea.Cmd {
	if s := m.runbookStep(); s != nil && s.Query != "" {
		return m.openCanned(s.Query)
	}
	m.enter(logs)
	return nil
}

// queryTitle says what a canned query asks.
func queryTitle(name string) string {
	for _, c := range sources.CannedQueries(nil, "") {
		if c.Name == name {
			return c.Title
		}
	}
	return name
}

// moveRunbook moves the cursor by n stops. A stop that does not fit into the
// window is read to its end before the next one.
func (m *model) moveRunbook(n int) {
	if m.listing() {
		m.runbook.list.move(len(m.listed()), n)
		return
	}
	r := m.reading()
	plan := m.planRunbook(m.width, m.bodyRoom()-runbookHead)
	stops, room := plan.text.stops, plan.room
	r.cursor = clamp(r.cursor, 0, len(stops)-1)
	m.seeStop(plan.text, r, room)
	page := max(room/2, 1)
	s := stops[r.cursor]
	switch {
	case n == far:
		r.cursor, r.top = len(stops)-1, far
	case n == -far:
		r.cursor, r.top = 0, 0
	case n > 0 && s.end > r.top+room:
		r.top += min(max(n, page), s.end-r.top-room)
	case n < 0 && s.start < r.top:
		r.top -= min(max(-n, page), r.top-s.start)
	case n == 1 || n == -1:
		r.cursor = clamp(r.cursor+n, 0, len(stops)-1)
		if n > 0 && stops[r.cursor].end > r.top+room {
			r.top = stops[r.cursor].start // if it is too long, its beginning comes first
		}
	default: // half a page: to the stop that is there
		want := s.start + n
		for n > 0 && r.cursor+1 < len(stops) && stops[r.cursor].start < want {
			r.cursor++
		}
		for n < 0 && r.cursor > 0 && stops[r.cursor].start > want {
			r.cursor--
		}
	}
}

// matching says, in w columns if it can be said in so many, whether the open
// runbook fits what is shown.
func (m *model) matching(w int) row {
	rb := &m.runbook
	d, now := m.d()
	for _, p := range m.proposals() {
		if p.Runbook != rb.open {
			continue
		}
		r := row{{" matches ", normal}, {p.Why, warn}}
		tries := []row{r}
		if len(p.Where) > 0 {
			at := r.add(normal, ": "+m.th.outside(p.Where[0]))
			tries = []row{at, r}
			if n := len(p.Where) - 1; n > 0 {
				more := " and " + strconv.Itoa(n) + " more"
				tries = []row{at.add(normal, more), r.add(normal, ": "+cutMiddle(m.th.outside(p.Where[0]), 20, m.gl.cut)+more), r}
			}
		}
		return m.asOf(first(w, tries...), d, now)
	}
	switch {
	case d.state.Value() == nil:
		return styled(dim, " not known whether it matches: no answer yet")
	case rb.why == "":
		r := styled(dim, " does not match now")
		return m.asOf(first(w, r.add(dim, "; it does when "+rb.open.When[0].String()), r), d, now)
	}
	over := span{" NO LONGER MATCHES", good}
	if d.state.Whole(now).State != sources.Value {
		over.style = dim
	}
	return m.asOf(row{over, {"; opened for " + rb.why, normal}}, d, now)
}

// asOf says of r that it is old, if it is.
func (m *model) asOf(r row, d *data, now time.Time) row {
	if whole := d.state.Whole(now); whole.State == sources.Unknown {
		return styled(dim, r.text()).add(warn, "  as of "+text.Age(whole.Age+m.stood())+" ago")
	}
	return r
}

// contact is whom the runbook says to call.
func (m *model) contact() string {
	c := m.runbook.open.Contact
	d, _ := m.d()
	if s := d.state.Value(); c == runbooks.ContactOwner && s != nil && s.Failback.Owner != "" {
		return m.th.outside(s.Failback.Owner) + " (owner)"
	}
	return m.th.outside(c)
}

// stepText is a step as text, with its tick.
func (m *model) stepText(b *runbooks.Block) string {
	box := "[ ]           "
	if t, ok := m.reading().ticks[b.Number]; ok {
		box = "[x] " + t.UTC().Format("15:04:05Z") + " "
	}
	var ps []string
	for _, p := range b.Paragraphs {
		ps = append(ps, joinWords(m.markdown(p, 400, normal)))
	}
	return box + right(strconv.Itoa(b.Number), 2, "") + ". " + strings.Join(ps, " ")
}

func joinWords(rows []row) string {
	var b strings.Builder
	for i, r := range rows {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strings.TrimSpace(r.text()))
	}
	return b.String()
}

// tickedText is the open runbook's steps with their ticks, under the time they
// were copied at.
func (m *model) tickedText() string {
	rb := m.runbook.open
	head := dated(m.live.clock(m.now)) + " runbook " + m.th.outside(rb.Title) + " (" + rb.ID + ")"
	if s := m.live.state.Value(); s != nil {
		head += ", " + m.th.outside(s.Environment) + " " + m.th.outside(s.Instance)
	}
	lines := []string{head + ", " + m.ticked(), strings.TrimSpace(m.matching(far).text())}
	for _, b := range rb.Steps() {
		lines = append(lines, m.stepText(b))
	}
	return strings.Join(lines, "\n")
}

func (m *model) ticked() string {
	return strconv.Itoa(len(m.reading().ticks)) + " of " + strconv.Itoa(len(m.runbook.open.Steps())) + " ticked"
}

// runbookRowText is what is under the cursor, as text.
func (m *model) runbookRowText() string {
	if m.listing() {
		return m.listedText()
	}
	if b := m.runbookStep(); b != nil {
		return m.stepText(b)
	}
	stops := stopsOf(m.runbook.open)
	s := &m.runbook.open.Sections[stops[clamp(m.reading().cursor, 0, len(stops)-1)].section]
	lines := []string{s.Title}
	for _, b := range s.Blocks {
		for _, p := range b.Paragraphs {
			lines = append(lines, "- "+joinWords(m.markdown(p, 400, normal)))
		}
	}
	return strings.Join(lines, "\n")
}
