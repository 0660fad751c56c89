//go:build unix

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

// walker is an operator before a terminal, who presses only what can be read.
type walker struct {
	*terminal
	learned map[string]bool // keys that a runbook or ? named
	escaped time.Time       // when esc was pressed last
}

// press presses keys at a person's pace: what follows an esc at once is taken
// for alt and that key.
func (o *walker) press(keys ...string) {
	o.t.Helper()
	if d := time.Until(o.escaped.Add(150 * time.Millisecond)); d > 0 {
		<-time.After(d)
	}
	o.terminal.press(keys...)
	if keys[len(keys)-1] == "Escape" {
		o.escaped = time.Now()
	}
}

func newWalker(t *testing.T, w, h int, env ...string) *walker {
	t.Helper()
	o := &walker{terminal: newTerminal(t, env...), learned: map[string]bool{}}
	o.patience = 60 * time.Second
	o.resize(w, h)
	return o
}

// label is how the screen calls a key that tmux calls otherwise.
func label(key string) string {
	if l, ok := map[string]string{"Enter": "enter", "Escape": "esc", "Tab": "tab", "Left": "left", "Right": "right"}[key]; ok {
		return l
	}
	return key
}

// names reports whether words name a key as a word of its own.
func names(words, key string) bool {
	return regexp.MustCompile(`(^|[^A-Za-z0-9])` + regexp.QuoteMeta(label(key)) + `($|[^A-Za-z0-9])`).MatchString(words)
}

// key presses a key while the screen shows the words that name it.
func (o *walker) key(key, named string) {
	o.t.Helper()
	if !names(named, key) {
		o.t.Fatalf("%q does not name the key %s", named, key)
	}
	o.shows(named)
	o.press(key)
}

// opens presses a key, named as in key, that leads to what alone has the heading, and
// waits for all of it. Words that both screens have would say nothing of the
// way from one to the other: the next key would be pressed at the former.
func (o *walker) opens(key, named, heading string, words ...string) {
	o.t.Helper()
	if screen := o.shows(named); strings.Contains(screen, heading) {
		o.t.Fatalf("%q is on the screen before %s:\n%s", heading, key, screen)
	}
	o.key(key, named)
	o.shows(append(words, heading)...)
}

// reads waits for words that name a key for another screen.
func (o *walker) reads(key, words string) {
	o.t.Helper()
	if !names(words, key) {
		o.t.Fatalf("%q does not name the key %s", words, key)
	}
	o.shows(words)
	o.learned[key] = true
}

// recall presses a key that was read of before.
func (o *walker) recall(key string) {
	o.t.Helper()
	if !o.learned[key] {
		o.t.Fatalf("nobody told of the key %s:\n%s", key, o.screen())
	}
	o.press(key)
}

// until presses j or k, named as in key, until the screen shows what is looked
// for. Who has gone past it on a slow screen turns round.
func (o *walker) until(key, named, looked string) {
	o.t.Helper()
	o.shows(named)
	deadline := time.Now().Add(o.patience)
	for n, screen := 1, o.screen(); !strings.Contains(screen, looked); n, screen = n+1, o.screen() {
		if n%150 == 0 {
			key = map[string]string{"j": "k", "k": "j"}[key]
		}
		if time.Now().After(deadline) {
			o.t.Fatalf("%s never led to %q:\n%s", key, looked, screen)
		}
		o.press(key)
		o.another(body, screen)
	}
}

// home goes back until the first screen is there.
func (o *walker) home() {
	o.t.Helper()
	deadline := time.Now().Add(o.patience)
	for screen := o.screen(); !strings.Contains(screen, "BACK TO"); screen = o.screen() {
		if time.Now().After(deadline) {
			o.t.Fatalf("esc did not lead to the first screen:\n%s", screen)
		}
		if strings.Contains(screen, "esc back") { // else it is being drawn
			o.press("Escape")
		}
		o.another(heading, screen)
	}
}

// drop closes a dialog or a form, which is deaf at first.
func (o *walker) drop(named string) {
	o.t.Helper()
	for screen := o.shows(named); strings.Contains(screen, named); screen = o.screen() {
		o.press("Escape")
		o.another(heading, screen)
	}
}

// another waits until a part of the screen is another than it was, so that no
// key is pressed at what is gone, nor so soon after an esc that the two are
// taken for one; for two seconds at most, since a key may do nothing.
func (o *walker) another(part func(screen string) string, was string) {
	o.t.Helper()
	over := time.After(2 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		if part(o.screen()) != part(was) {
			return
		}
	}
}

// body is a screen without its first rows, which change with each second.
func body(screen string) string {
	lines := strings.SplitN(screen, "\n", 4)
	return lines[len(lines)-1]
}

// heading is how the body begins.
func heading(screen string) string {
	return fmt.Sprintf("%.20s", body(screen))
}

// runbook opens one by the key that the first screen gives it, or, where there
// is no room for what it is called, the incident. Keys are given to runbooks in the
// order in which they are proposed first.
func (o *walker) runbook(title string) {
	o.t.Helper()
	key := regexp.MustCompile(`\[([1-9])\] ` + title)
	const open = "[i] incident"
	screen := o.await("the key of "+title, func(screen string) bool { return key.MatchString(screen) || strings.Contains(screen, open) })
	if !key.MatchString(screen) {
		o.key("i", open)
		screen = o.await("the key of "+title, key.MatchString)
	}
	o.press(key.FindStringSubmatch(screen)[1])
	o.shows("RUNBOOK " + title)
}

// yes answers a dialog or a form that says what y does.
func (o *walker) yes(does string, done func() bool) {
	o.t.Helper()
	o.shows(does)
	o.pressUntil("y", does, done)
}

// types fills the field of a form and sends it.
func (o *walker) types(field, text string) {
	o.t.Helper()
	o.shows(field+": ", "enter  send", "esc  close")
	at := o.flag("cursor_x")
	o.pressUntil("Space", "the field takes characters", func() bool { return o.flag("cursor_x") != at })
	o.run("send-keys", "-t", "s", "-l", "--", text)
	tail := text[max(len(text)-20, 0):] // a long text has its end in view
	o.shows(tail)
	// An enter right behind the text, as pasted text has it, sends nothing.
	o.pressUntil("Enter", "enter  send", func() bool { return !strings.Contains(o.screen(), "enter  send") })
}

// answers answers the question that comes after i answered ones.
func (o *walker) answers(i int, text string) {
	o.t.Helper()
	o.until("j", "j/k line", "CLOSING ASKS")
	o.shows(fmt.Sprintf("CLOSING ASKS  %d of %d answered", i, len(api.ClosingQuestions)))
	o.key("a", "a answer")
	o.shows(fmt.Sprintf("%d/%d  ", i+1, len(api.ClosingQuestions)))
	o.types("answer", text)
}

// closes closes the incident on the screen, of which everything is answered.
func (o *walker) closes() {
	o.t.Helper()
	n := len(api.ClosingQuestions)
	o.shows(fmt.Sprintf("CLOSING ASKS  %d of %d answered", n, n))
	o.key("x", "x close")
	o.shows("Everything that closing asks is answered")
	o.yes("y  yes", func() bool { return strings.Contains(o.screen(), "CLOSED") })
}

var rowOf = regexp.MustCompile(`(?m)^ > a +([A-Z]+)\b.*? (\d+)%`)

// sees waits until the overview has the upstream a so.
func (o *walker) sees(health string, share int) {
	o.t.Helper()
	o.await(fmt.Sprintf("a %s at %d%%", health, share), func(screen string) bool {
		m := rowOf.FindStringSubmatch(screen)
		return m != nil && m[1] == health && m[2] == fmt.Sprint(share)
	})
}

// walk is an outage with two operators at one gateway.
type walk struct {
	*ward
	a        *patient
	ana, ben *walker
	me       string // ana's name, which is that of the process's user
}

// The whole course of an incident with two operators, one at the socket and one
// over TCP, each pressing nothing but keys that are on the screen: noticed,
// understood, the runbook followed, the gateway killed in between, traffic
// stepped back, one in the other's way, written down, closed and reported.
func TestAnIncidentIsWalkedThrough(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	for _, part := range []struct {
		name string
		walk func(*testing.T)
	}{
		{"noticed", w.notice}, {"understood", w.understand}, {"the runbook followed", w.follow}, {"the fallback verified", w.verify},
		{"the gateway killed", w.survive}, {"traffic back", w.back}, {"closed", w.end}, {"reported", w.report},
	} {
		began := time.Now()
		part.walk(t)
		t.Logf("%s in %s", part.name, time.Since(began).Round(time.Second))
	}
	for _, o := range []*walker{w.ana, w.ben} {
		o.key("q", "q leave")
		o.restored(0)
	}
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	need(t, "tmux", "bash", "stty")
	a, b := newPatient(t), newPatient(t)
	path := admit(t, a.url, b.url, "limit: {fallback_ratio: 0.02}\nsources: {every: 1s}\n", "suspect_window: 3s", "suspect_window: 6s", "cooldown: 1s, cooldown_max: 2s", "cooldown: 2s, cooldown_max: 4s")
	dir := filepath.Dir(path)
	out, stderr, code := cli(t, dir, "token", "--json")
	var made struct{ Token, Hash string }
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != 0 {
		t.Fatalf("failback token: %d %v %s", code, err, stderr)
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(made.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &walk{ward: startWard(t, path), a: a}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Split(string(text), "\n")[1]
	address := strings.TrimSuffix(strings.TrimPrefix(line, "operator: {listen: "), "}")
	edit(t, path, line, fmt.Sprintf("operator: {listen: %q, tokens: [{name: ben, role: operator, hash: %q}]}", address, made.Hash))
	until(t, "ben's token is in force", func() bool {
		_, _, code := cli(t, dir, "status", "--connect", "http://"+address, "--token-file", token)
		return code == 0
	})
	newLoadOf(t, w.url, 60)
	w.me = w.state(t).You.Name
	w.ana, w.ben = newWalker(t, 80, 24), newWalker(t, 100, 30)
	w.ana.console(program, "console", "--connect", "unix:"+filepath.Join(dir, "failback.sock"))
	w.ben.console(program, "console", "--connect", "http://"+address, "--token-file", token)
	for _, o := range []*walker{w.ana, w.ben} {
		o.shows("TEST", "READ-ONLY (W arms)", "FALLBACK ", "limit 2%", "q leave")
		o.sees("HEALTHY", 100)
	}
	w.ana.shows("ben")
	w.ben.shows("ben (you)", w.me)
	return w
}

// notice: the first screen alone says that something is wrong, what the machine
// did, and where to begin.
func (w *walk) notice(t *testing.T) {
	t.Helper()
	w.a.mode.Store(broken)
	for _, o := range []*walker{w.ana, w.ben} {
		o.sees("SUSPECT", 100)
	}
	for _, o := range []*walker{w.ana, w.ben} {
		o.sees("DEGRADED", 0)
		o.shows("over limit 2%", "[i] incident", "[1] ", "failed 0.0%")
	}
}

// understand: what became of a request and why, when it began, and what
// happened by itself.
func (w *walk) understand(t *testing.T) {
	t.Helper()
	o := w.ana
	o.opens("d", "d decisions", "ROUTE DECISIONS")
	o.opens("Enter", "enter open", " DECISION ")
	o.until("j", "j/k line", " WHY")
	o.until("j", "j/k line", "was asked first; passed by before it: a (")
	o.opens("L", "L its lines", "own LogQL", "1 of 1", "degraded_completed")
	o.home()
	o.key("l", "l logs")
	o.until("k", "j/k query", " > first-switch")
	o.opens("Enter", "enter run", "first 1 only", "degraded_completed")
	o.home()
	o.opens("e", "e: all", "esc back", "CHANGES AND TRIPS", "SUSPECT > DEGRADED", "share 100% > 0%")
	o.home()
	o.opens("i", "[i] incident", "by auto, for degraded", "a degraded", "milestones", "first failure", "traffic back not yet")
	o.until("j", "j/k line", "CLOSING ASKS")
	o.home()
}

// follow: the runbook is read and ticked. What was ticked before writing was
// armed goes into the record with the first tick after that.
func (w *walk) follow(t *testing.T) {
	t.Helper()
	o := w.ana
	o.runbook("provider returns 5xx")
	o.shows("WHAT TO CHECK FIRST")
	o.until("j", "j/k step", " > [ ]  1. ")
	o.key("x", "x tick")
	o.shows("ticked here alone", " > [x]  1. ")
	o.opens("W", "(W arms)", "ARMED")
	o.until("j", "j/k step", " > [ ]  2. ")
	o.key("x", "x tick")
	o.shows(": 2 ticks kept")
	in := w.incident(t)
	if ticks := entries(in, api.EntryTick); len(ticks) != 2 {
		t.Errorf("ticks of the incident: %q", ticks)
	}
	o.key("i", "i incident")
	o.until("j", "j/k line", "tick: ")
	o.home()
	o.sees("DEGRADED", 0)
}

// verify: the others carry it, and nothing went where it may not.
func (w *walk) verify(t *testing.T) {
	t.Helper()
	o := w.ana
	o.await("that LIVE, which is of a minute, follows SHARE", func(screen string) bool {
		m := rowOfA.FindStringSubmatch(screen)
		if m == nil || m[1] != "0" {
			return false
		}
		live, err := strconv.ParseFloat(m[2], 64)
		return err == nil && live < 50
	})
	o.shows("failed 0.0%")
	o.key("l", "l logs")
	o.until("j", "j/k query", " > not-allowed")
	o.opens("Enter", "enter run", "none in 24h", "as it must be")
	o.home()

	// Both write down what they saw.
	o.key("i", "[i] incident")
	o.key("n", "n note")
	o.types("note", "fallback holds, nobody fails")
	o.until("j", "j/k line", "note: fallback holds, nobody fails")
	o.home()
	b := w.ben
	b.key("i", "[i] incident")
	b.opens("W", "(W arms)", "ARMED")
	b.key("n", "n note")
	b.types("note", "provider called, ticket 4412")
	b.until("j", "j/k line", "note: provider called, ticket 4412")
	b.home()
}

// survive: the gateway is killed under both consoles. They say so, wait, and
// are back by themselves with the whole record.
func (w *walk) survive(t *testing.T) {
	t.Helper()
	before := w.incident(t)
	w.kill()
	for _, o := range []*walker{w.ana, w.ben} {
		o.shows("gateway NO ANSWER", "q leave")
	}
	w.running = start(t, w.path)
	for _, o := range []*walker{w.ana, w.ben} {
		o.hides("NO ANSWER")
		o.sees("DEGRADED", 0)
		o.key("i", "[i] incident")
		o.until("j", "j/k line", "note: provider called, ticket 4412")
		o.until("j", "j/k line", "tick: ")
		o.home()
	}
	after := w.incident(t)
	if after.ID != before.ID || after.Milestones != before.Milestones || len(after.Timeline) < len(before.Timeline) {
		t.Errorf("was %+v\nis %+v", before.IncidentHead, after.IncidentHead)
	}
	for i, e := range before.Timeline {
		if !slices.ContainsFunc(after.Timeline, func(f api.IncidentEntry) bool {
			return f.Kind == e.Kind && f.By == e.By && f.Text == e.Text && f.At.Equal(e.At)
		}) {
			t.Errorf("lost entry %d: %+v", i, e)
		}
	}
}

// raise takes the next step up, which passed, from the step table.
func (w *walk) raise(t *testing.T, o *walker, share int) {
	t.Helper()
	w.passed(t)
	u := w.upstream(t, "a")
	yes, verdict := fmt.Sprintf("y  send %d%%", share), fmt.Sprintf("pass at %d%%", u.Share)
	if u.Health == api.Degraded {
		yes, verdict = fmt.Sprintf("y  recover at %d%%", share), "to leave degraded: probes passed"
	}
	o.shows(fmt.Sprintf("SHARE %d%%", u.Share), "EVIDENCE   "+verdict)
	o.key(">", "> up")
	if screen := o.shows(yes); strings.Contains(screen, "(needed)") {
		t.Errorf("%d%% needs a reason:\n%s", share, screen)
	}
	o.yes(yes, func() bool { return w.upstream(t, "a").Share == share })
	o.shows("RECOVERING", fmt.Sprintf("SHARE %d%%", share))
}

// passed waits until nothing speaks against the next step up.
func (w *walk) passed(t *testing.T) {
	t.Helper()
	until(t, "the next step is open", func() bool {
		u := w.upstream(t, "a")
		return u.NextStep.BlockedBy == "" && (u.Health == api.Degraded || u.Evidence != nil && u.Evidence.Verdict == api.Pass)
	})
}

// back: traffic comes back by the table, each step on its evidence, with two
// who act at once.
func (w *walk) back(t *testing.T) {
	t.Helper()
	a, b := w.ana, w.ben
	a.shows("not now: ")
	w.a.mode.Store(well)
	a.shows("waits for")
	a.shows("next 5%: ")
	a.runbook("manual failback by the table")
	a.until("j", "j/k step", "press [b] on overview")
	a.reads("b", "press [b] on overview")
	a.home()
	a.recall("b")
	a.shows("DEGRADED", "SHARE 0%", "EVIDENCE   to leave degraded: probes passed")
	w.raise(t, a, 5)
	w.raise(t, a, 25)

	// Ana is about to raise it; Ben, who sees something, lowers it.
	w.passed(t)
	a.shows("EVIDENCE   pass at 25%")
	a.key(">", "> up")
	a.shows("y  send 75%", "nothing changed since you opened this")
	b.key("<", "< down")
	b.yes("y  lower to 5%", func() bool { return w.upstream(t, "a").Share == 5 })
	a.shows("it changed meanwhile: ben", "y is off: it changed meanwhile: r rereads")
	rev := w.upstream(t, "a").Revision
	a.key("y", "y is off: it changed meanwhile: r rereads")
	a.key("r", "r rereads")
	a.shows("y is off: type why first", "its name (typed)", "it skips a step: the next is 25%")
	if u := w.upstream(t, "a"); u.Share != 5 || u.Revision != rev {
		t.Errorf("a y that is off sent it to %d%%", u.Share)
	}
	a.drop("esc change nothing")
	w.refusesStale(t, rev-1)

	// Ben's way down is open while Ana raises it: it goes through all the same.
	w.raise(t, a, 25)
	b.shows("[ 25% ]")
	b.key("<", "< down")
	b.shows("y  lower to 5%", "left right: another step")
	w.raise(t, a, 75)
	b.shows("it changed meanwhile: "+w.me, "y  lower to 5%")
	b.key("Right", "left right: another step")
	b.yes("y  lower to 25%", func() bool { return w.upstream(t, "a").Share == 25 })
	a.shows("ben", "SHARE 25%")
	w.raise(t, a, 75)
	w.raise(t, a, 100)
	a.home()
	a.sees("HEALTHY", 100)
	b.sees("HEALTHY", 100)
}

// refusesStale gives a command that has seen an older revision.
func (w *walk) refusesStale(t *testing.T, revision uint64) {
	t.Helper()
	var refused *api.Error
	if _, err := w.client.SetShare(t.Context(), "a", api.Command{Share: new(25), Revision: &revision}); !errors.As(err, &refused) || refused.Code != api.CodeStaleRevision {
		t.Errorf("a stale command: %v", err)
	}
	w.ben.shows("a share 5% > 25% STALE  a changed meanwhile")
}

// end: what closing asks is answered by both, and it is closed by Ana.
func (w *walk) end(t *testing.T) {
	t.Helper()
	a, b := w.ana, w.ben
	until(t, "traffic is back", func() bool { return !w.incident(t).Milestones.TrafficBack.IsZero() })
	for _, o := range []*walker{a, b} {
		o.opens("i", "[i] incident", "milestones")
	}
	a.key("x", "x close")
	a.shows("Not answered yet: window, sampled, forbidden,", "1/6  ")
	a.until("Up", "up down  choose", "Without an answer: ") // the form is deaf at first
	a.shows("Without an answer: window, sampled, forbidden,", "recorded as an override")
	a.drop("esc  close")
	for i, q := range api.ClosingQuestions {
		o := a
		if i%2 == 1 {
			o = b
		}
		o.answers(i, "seen to, "+q)
		until(t, q+" is answered", func() bool { return !slices.Contains(w.incident(t).Unanswered, q) })
	}
	a.closes()
	b.shows("CLOSED")
	for _, o := range []*walker{a, b} {
		o.home()
		o.hides("[i] incident")
	}
}

// report: the document has what is in the record, and nothing else.
func (w *walk) report(t *testing.T) {
	t.Helper()
	in := w.incident(t)
	report, stderr, code := cli(t, w.dir, "incident", "report", in.ID)
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, text := range []string{
		"# a degraded", "closed by " + w.me, "| first failure |", "| first switch |", "| technically recovered |", "| traffic back |", "| closed |",
		"note: fallback holds, nobody fails", "note: provider called, ticket 4412", "tick: ", "## Decisions",
	} {
		if !strings.Contains(report, text) {
			t.Errorf("it has no %q", text)
		}
	}
	for _, q := range api.ClosingQuestions {
		if !strings.Contains(report, "seen to, "+q) {
			t.Errorf("no answer to %s", q)
		}
	}
	_, rest, _ := strings.Cut(report, "## Timeline\n")
	timeline, rest, _ := strings.Cut(rest, "\n## Decisions\n")
	decisions, _, _ := strings.Cut(rest, "\n## Closing\n")
	var lines []string
	for l := range strings.Lines(timeline) {
		if strings.HasPrefix(l, "| 20") {
			lines = append(lines, l)
		}
	}
	if len(lines) != len(in.Timeline) {
		t.Errorf("%d lines for %d entries", len(lines), len(in.Timeline))
	}
	who := map[string]bool{}
	for i, l := range lines {
		cells := strings.Split(l, " | ")
		e := in.Timeline[min(i, len(in.Timeline)-1)]
		who[e.By] = true
		kind := e.Kind + ": "
		if e.Kind == api.EntryEvent { // it says what it is
			kind = ""
		}
		if len(cells) < 3 || !strings.HasPrefix(cells[1], e.By) || !strings.HasPrefix(cells[2], kind) {
			t.Errorf("the report has %q for %+v", l, e)
		}
	}
	for by := range who {
		if by != "auto" && by != "ben" && by != w.me {
			t.Errorf("who is %q", by)
		}
	}
	for _, by := range []string{w.me, "ben"} {
		if !strings.Contains(decisions, ", "+by+": ") {
			t.Errorf("no decision of %s in\n%s", by, decisions)
		}
	}
	if t.Failed() {
		t.Log(report)
	}
}
