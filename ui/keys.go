package ui

import (
	"math/bits"
	"slices"

	tea "charm.land/bubbletea/v2"

	"charm.land/bubbles/v2/key"
)

// screen is one of the full screens.
type screen uint8

const (
	overview screen = iota
	detail          // of an upstream
	changes
	change // one opened
	decisions
	decision // one opened
	failback // the step table
	logs
	logLine // one opened
	runbook
	incidents // one of them, whole
	faultMap  // upstreams × fault domains
	queue     // what waits, and who it waits for
	money
	ownlog
	help
	screens
)

func (s screen) String() string {
	return [...]string{"overview", "detail", "changes", "change", "decisions", "decision", "failback", "logs", "log line", "runbook", "incident", "map", "queue", "money", "own log", "keys"}[s]
}

// on is a set of screens.
type on uint32

func at(ss ...screen) on {
	var o on
	for _, s := range ss {
		o |= 1 << s
	}
	return o
}

const everywhere on = 1<<screens - 1

func (o on) has(s screen) bool { return o&(1<<s) != 0 }

// binding is one line of the key table: what a key is, where it works, what it
// does, and why it is off when it is.
type binding struct {
	key.Binding
	on on
	// rank orders bindings by how much they deserve a place on the help line,
	// 1 first; 0 has none: the ways out and to all keys, what moves and opens, what
	// changes traffic, the screens that one needs in an incident, then the rest.
	rank int
	long string // for ? and the documentation
	// hide leaves it out of the help line while it is off: dimmed, it would only
	// take the place of one that works.
	hide bool
	// named reports whether the screen names the key above the help line, or leads
	// to nothing by it: it then gives way to those that are named nowhere else; nil:
	// it never does.
	named func(*model) bool
	// off says why the key does nothing now, empty if it works; nil: it always does.
	off func(*model) string
	do  func(*model) tea.Cmd
}

func bind(keys []string, show, short, long string) binding {
	return binding{Binding: key.NewBinding(key.WithKeys(keys...), key.WithHelp(show, short)), on: everywhere, long: long}
}

func (b binding) at(o on) binding                      { b.on = o; return b }
func (b binding) line(rank int) binding                { b.rank = rank; return b }
func (b binding) unless(f func(*model) string) binding { b.off = f; return b }
func (b binding) hidden() binding                      { b.hide = true; return b }
func (b binding) above(f func(*model) bool) binding    { b.named = f; return b }
func (b binding) does(f func(*model) tea.Cmd) binding  { b.do = f; return b }
func act(f func(*model)) func(*model) tea.Cmd {
	return func(m *model) tea.Cmd { f(m); return nil }
}

var lists = at(overview, changes, decisions)

// table is the key table. Dispatch, help line, `?` and Keys are made from it.
// The order is that of the help line and of `?`.
var table []binding

// What the keys do draws the table again, so it cannot be initialized in place.
func init() {
	table = append(keyTable(), testTable()...)
}

func keyTable() []binding {
	return slices.Concat(rowKeys(), stateKeys(), failbackKeys(), logKeys(), runbookKeys(), incidentKeys(), placeKeys(), screenKeys())
}

// rowKeys move in a screen and open what is there, and change traffic.
func rowKeys() []binding {
	return []binding{
		bind([]string{"j", "down"}, "j/k", "row", "down a row, or a line").line(3).does(act(func(m *model) { m.move(1) })),
		bind([]string{"k", "up"}, "k", "", "up a row, or a line").does(act(func(m *model) { m.move(-1) })),
		bind([]string{"g", "home"}, "g", "", "to the first row, or line; a list that was held follows the newest again").does(act(func(m *model) { m.move(-far) })),
		bind([]string{"G", "end"}, "G", "", "to the last row, or line").does(act(func(m *model) { m.move(far) })),
		bind([]string{"ctrl+d", "pgdown"}, "ctrl+d", "", "down half a page").does(act(func(m *model) { m.page(1) })),
		bind([]string{"ctrl+u", "pgup"}, "ctrl+u", "", "up half a page").does(act(func(m *model) { m.page(-1) })),
		bind([]string{"enter"}, "enter", "open", "open the row: an upstream with all its buckets, a change, a decision").at(lists).line(4).unless((*model).noRow).does(act((*model).open)),
		bind([]string{"esc"}, "esc", "back", "one level back: clears a filter, closes what is open; never leaves").line(5).unless((*model).noBack).hidden().does(act((*model).back)),
		bind([]string{">"}, ">", "up", "give the upstream its next share: opens a dialog").at(at(overview, detail, failback)).line(6).unless((*model).noRaise).above((*model).wayBackSays).does(act(func(m *model) { m.step(true) })),
		bind([]string{"<"}, "<", "down", "lower the upstream's share: opens a dialog").at(at(overview, detail, failback)).line(7).unless((*model).noLower).does(act(func(m *model) { m.step(false) })),
		bind([]string{"u"}, "u", "put back", "put back the last change of a share: opens a dialog").at(at(overview, detail, changes, failback)).line(13).unless((*model).noUndo).does(act((*model).undo)),
		bind([]string{"W"}, "W", "arm", "arm writing for 15 minutes, or disarm").line(8).unless((*model).noArm).above((*model).modeNamesArm).does(act((*model).arm)),
	}
}

// screenKeys lead to other screens, and concern the console as a whole.
func screenKeys() []binding {
	return []binding{
		bind([]string{"o"}, "o", "overview", "the first screen").line(17).unless((*model).onOverview).hidden().does(act((*model).home)),
		bind([]string{"e"}, "e", "changes", "all changes, trips and commands").line(14).unless(func(m *model) string { return m.already(changes) }).hidden().above((*model).onFirst).does(act(func(m *model) { m.enter(changes) })),
		bind([]string{"d"}, "d", "decisions", "route decisions, each with its candidates and attempts").line(11).unless(func(m *model) string { return m.already(decisions) }).hidden().does(func(m *model) tea.Cmd { m.enter(decisions); return m.askDecisions() }),
		bind([]string{"/"}, "/", "filter", "filter the table: what has the text in its row stays; esc clears").at(lists | sifted).line(16).does(act((*model).startFilter)),
		bind([]string{"c"}, "c", "copy", "copy the row, to the clipboard (OSC 52) and to a file").line(18).unless((*model).noCopy).does((*model).copyShown),
		bind([]string{"C"}, "C", "", "copy the whole screen as plain text").does(func(m *model) tea.Cmd { return m.copy("screen", m.screenText()) }),
		bind([]string{"f"}, "f", "freeze", "freeze the view, or let it go on").line(19).does(act((*model).freeze)),
		bind([]string{"!"}, "!", "", "the console's own log").unless(func(m *model) string { return m.already(ownlog) }).does(act(func(m *model) { m.enter(ownlog) })),
		bind([]string{"ctrl+z"}, "ctrl+z", "", "suspend the console; fg brings it back").unless((*model).noSuspend).does((*model).suspend),
		bind([]string{"?"}, "?", "keys", "all keys, and what the states of a number look like").line(2).unless(func(m *model) string { return m.already(help) }).hidden().does(act(func(m *model) { m.enter(help) })),
		bind([]string{"q"}, "q", "leave", "leave the console; the gateway serves on, a demo ends").line(1).does((*model).leave),
		bind([]string{"ctrl+c"}, "ctrl+c", "", "leave, from anywhere; a gateway that this console started serves on").does((*model).leaveNow),
	}
}

// dialogTable is the table of the keys of what is open over a screen, for ? and the
// documentation; each of it dispatches its own (dialog.go, form.go, list.go,
// logs.go, leave.go).
var dialogTable = []Key{
	{"dialog", "y", "yes: send the command. Nothing else does, and paste never"},
	{"dialog", "n esc", "change nothing"},
	{"dialog", "tab", "to the next field: why, and the upstream's name where it is asked for"},
	{"dialog", "left right", "choose another step"},
	{"dialog", "r", "reread: go on from what is there now"},
	{"dialog", "pgup pgdown", "scroll, where the window is too low for all of it"},
	{"form of an incident", "enter", "send what was typed into the incident's record; it changes no traffic"},
	{"form of an incident", "y", "yes, where nothing is to be typed"},
	{"form of an incident", "up down", "choose which question is answered"},
	{"form of an incident", "esc", "close it, and send nothing"},
	{"filter, query and range while they are typed", "enter", "take what was typed"},
	{"filter, query and range while they are typed", "esc", "clear the filter, or leave query and range as they were"},
	{"leaving, where this console started the gateway", "l", "leave it serving"},
	{"leaving, where this console started the gateway", "s", "choose to stop it, while writing is armed"},
	{"leaving, where this console started the gateway", "y", "yes, behind s: stop it, it drains first. Paste never"},
	{"leaving, where this console started the gateway", "esc", "stay, as with any other key"},
}

// Key is a key of the console as the documentation lists it.
type Key struct {
	Screens string // where it works
	Keys    string
	Does    string
}

// Keys lists every key, by the screens where it works.
func Keys() []Key {
	var groups []on
	for i := range table {
		if !slices.Contains(groups, table[i].on) {
			groups = append(groups, table[i].on)
		}
	}
	var ks []Key
	for _, g := range groups {
		for i := range table {
			if b := &table[i]; b.on == g {
				shown := joinKeys(b.Keys())
				if b.Help().Key == allDigits {
					shown = allDigits
				}
				ks = append(ks, Key{Screens: where(g), Keys: shown, Does: b.long})
			}
		}
	}
	return append(ks, dialogTable...)
}

func joinKeys(keys []string) string {
	s := ""
	for i, k := range keys {
		if i > 0 {
			s += " "
		}
		s += k
	}
	return s
}

func where(o on) string {
	if o == everywhere {
		return "everywhere"
	}
	if n := bits.OnesCount32(uint32(o)); n > int(screens)/2+2 {
		return "everywhere but " + where(everywhere&^o)
	}
	s := ""
	for sc := range screens {
		if o.has(sc) {
			if s != "" {
				s += ", "
			}
			s += sc.String()
		}
	}
	return s
}

// press runs the binding of k on this screen.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	b := m.binding(k)
	m.pressed = k.String()
	if b == nil {
		if t := k.String(); t != "" {
			m.sayFor(offFor, dim, m.th.outside(t)+" does nothing here; ? lists the keys")
		}
		return nil
	}
	if b.off != nil {
		if why := b.off(m); why != "" {
			m.sayFor(offFor, warn, b.Help().Key+" is off: "+why)
			return nil
		}
	}
	return b.do(m)
}

func (m *model) binding(k tea.KeyPressMsg) *binding {
	for i := range table {
		if b := &table[i]; b.on.has(m.screen) && key.Matches(k, b.Binding) {
			return b
		}
	}
	return nil
}

// helpLine is the keys of this screen in w columns: what has no room is left
// out by rank, what is off first and dimmed.
func (m *model) helpLine(w int) row {
	type item struct {
		b    *binding
		row  row
		rank int
	}
	var items []item
	for i := range table {
		b := &table[i]
		if b.rank == 0 || !b.on.has(m.screen) {
			continue
		}
		k, s, rank := accent, normal, b.rank
		if b.off != nil && b.off(m) != "" {
			if b.hide {
				continue
			}
			// It makes room for every key that works.
			k, s, rank = dim, dim, rank+far
		}
		if b.named != nil && b.named(m) {
			rank += len(table)
		}
		h := b.Help()
		if h.Key == allDigits && m.digits() != "" {
			h.Key = m.digits()
		}
		items = append(items, item{b, row{{h.Key, k}, {" " + m.helpWord(b, h.Desc), s}}, rank})
	}
	total := func() int {
		n := 1
		for _, it := range items {
			n += it.row.width() + 2
		}
		return n - 2
	}
	for len(items) > 1 && total() > w {
		worst := 0
		for i := range items {
			if items[i].rank > items[worst].rank {
				worst = i
			}
		}
		items = append(items[:worst], items[worst+1:]...)
	}
	r := plain(" ")
	for i, it := range items {
		if i > 0 {
			r = r.add(normal, "  ")
		}
		r = r.join(it.row)
	}
	return r.fit(w, m.gl.cut)
}

// helpWord is the short word of a binding where it depends on the state.
func (m *model) helpWord(b *binding, word string) string {
	switch {
	case word == "arm" && m.armed():
		return "disarm"
	case word == "freeze" && m.frozen != nil:
		return "go on"
	case word == "leave" && m.o.Demo:
		return "end demo"
	case word == "row" && m.screen == failback:
		return "upstream"
	case word == "row" && m.screen == logs && !m.logs.reading:
		return "query"
	case word == "run" && m.logs.reading:
		return "open"
	case word == "answer" && m.logs.reading:
		return "queries"
	case word == "row" && m.screen == runbook:
		return "step"
	case word == "row" && m.screen != overview && m.screen != changes && m.screen != decisions:
		return "line"
	}
	return word
}
