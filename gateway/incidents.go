package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"failback/gateway/config"
	"failback/gateway/decision"
	"failback/gateway/incident"
	"failback/gateway/operator"
	"failback/gateway/operator/api"
	"failback/gateway/telemetry"
	"failback/gateway/traffic"
)

const (
	// incidentPast is how much of what happened before an incident its timeline
	// begins with, where the first failure is not known.
	incidentPast = 10 * time.Minute
	// pastEvents are remembered, pastMost of them go into a timeline.
	pastEvents, pastMost = 256, 100
	// queuedEvents wait to be looked at.
	queuedEvents = 1024
	// countEvery is how often what requests came to is written into an incident.
	countEvery = 30 * time.Second
)

// incidents are the incidents of this gateway and of those it shares a store
// with.
type incidents struct {
	instance string
	book     *incident.Book
	look     incident.Look
	recent   *incident.Recent
	kept     *incidentStore // nil without a store
	tallies  incident.Tallies

	// What follows belongs to whoever judges.
	ratio   incident.Ratio
	probed  map[string]bool // degraded upstreams whose probes passed
	silence incident.Silence

	// changing is held from a look at the incidents to the changes that follow from
	// it, never while the store is asked. It comes before mu and the book's own.
	changing sync.Mutex
	counted  time.Time // when tallies were last written into the incidents

	mu     sync.Mutex // guards everything that follows
	queue  []decision.Event
	missed int // had no room in queue
	past   []decision.Event
}

func newIncidents(instance string) *incidents {
	return &incidents{
		instance: instance, book: incident.NewBook(strings.ToLower(rand.Text()[:10]), instance),
		recent: incident.NewRecent(), probed: map[string]bool{},
	}
}

// event takes a change. It never waits: it is called wherever something changes.
func (i *incidents) event(e decision.Event) {
	if !incident.Told(e) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.queue) >= queuedEvents {
		i.queue = i.queue[1:]
		i.missed++
	}
	i.queue = append(i.queue, e)
}

// attempt takes the end of an attempt, of a client's request or of a probe.
func (i *incidents) attempt(upstream string, o *decision.Outcome, now time.Time) {
	if ok, known := technical(o.Class); known {
		i.look.Attempt(upstream, ok, now)
	}
}

// technical reports whether an upstream answered; known is false where the end of
// the attempt does not say.
func technical(c decision.Class) (ok, known bool) {
	switch c.Blame() {
	case decision.OfBucket, decision.OfAdmission, decision.OfCredential, decision.OfUpstreamModel:
		return false, true
	}
	return true, c == decision.OK
}

// decision takes the end of a request.
func (i *incidents) decision(d *decision.Decision) {
	if d.Fallback && d.Primary != "" {
		at := d.Time
		if len(d.Attempts) > 0 && d.Attempts[0].Provider == d.Primary {
			at = at.Add(d.Attempts[0].Started + d.Attempts[0].Outcome.Duration)
		}
		i.look.Switched(d.Primary, at, time.Now())
	}
	verdict := telemetry.VerdictOf(d.Status, d.Reason)
	if verdict != telemetry.Good && verdict != telemetry.Bad {
		return
	}
	degraded := d.Fallback
	if d.Selected != "" {
		degraded = d.Selected != d.Primary
	}
	good, epoch := verdict == telemetry.Good, i.tallies.Now()
	i.recent.Add(d.RequestID, degraded, good, epoch)
	i.tallies.Add(epoch, func(c *incident.Counts) { count(c, d, degraded, good) })
}

// count adds the end of a request to c.
func count(c *incident.Counts, d *decision.Decision, degraded, good bool) {
	switch {
	case !good:
		c.Failed++
	case degraded:
		c.Degraded++
	default:
		c.Primary++
	}
	if d.Violation {
		c.Forbidden++
	}
	if (degraded || !good) && len(c.Kept) < incident.MaxKept {
		c.Kept = append(c.Kept, d.RequestID)
	}
	c.Workflow.Side(degraded).Add(good, 1)
	for n := range d.Attempts {
		a := &d.Attempts[n]
		if ok, known := technical(a.Outcome.Class); known && !a.Hurried {
			c.Technical.Side(a.Provider != d.Primary).Add(ok, 1)
		}
	}
}

// flushCounts writes what was counted into the open incidents. It requires
// changing.
func (i *incidents) flushCounts(now time.Time) {
	i.follow()
	p := i.tallies.Take()
	i.counted = now
	for _, r := range i.book.Records() {
		if !r.Open() {
			continue
		}
		c, notes := p.Of(r.ID)
		// One that this gateway is part of hears of it even if nothing was counted.
		if !c.IsZero() || i.concerns(r) {
			i.book.Do(r.ID, incident.Op{Kind: incident.OpCount, At: now, Counts: c}, false)
		}
		for _, text := range notes[:max(0, min(len(notes), outcomeNotes-clientNotes(r)))] {
			i.book.Do(r.ID, incident.Op{Kind: incident.OpNote, At: now, By: byClient, Text: text}, false)
		}
	}
}

// follow has the tallies count for those that are open. It requires changing.
func (i *incidents) follow() {
	var open []string
	for _, r := range i.book.Records() {
		if r.Open() {
			open = append(open, r.ID)
		}
	}
	i.tallies.Follow(open, i.book.Current)
}

// byClient is who wrote the notes of outcomes.
const byClient = "client"

// clientNotes are how many notes of outcomes r has.
func clientNotes(r incident.Record) (n int) {
	for _, e := range r.Entries {
		if e.Kind == api.EntryNote && e.By == byClient {
			n++
		}
	}
	return n
}

// flush has the records hold all that happened until now.
func (i *incidents) flush(now time.Time) {
	i.changing.Lock()
	defer i.changing.Unlock()
	i.tell(now)
	i.flushCounts(now)
}

// concerns reports whether r has a trouble that this gateway alone sees.
func (i *incidents) concerns(r incident.Record) bool {
	for _, t := range r.Troubles {
		if t.Instance == i.instance && t.Phase != incident.Back {
			return true
		}
	}
	return false
}

// step looks at s and at what happened since, and has the incidents follow.
func (i *incidents) step(now time.Time, s incident.Situation) {
	i.changing.Lock()
	defer i.changing.Unlock()
	i.tell(now)
	if i.kept != nil && !i.kept.ready(now) {
		return // it is not known yet what is open
	}
	s.Silent = i.silence.Of(i.book.Records(), now)
	for range incident.MaxOpen {
		records := i.book.Records()
		found := incident.Observe(now, s, records)
		if len(found) == 0 {
			break
		}
		for _, f := range found {
			if f.Incident != "" {
				i.trouble(now, f.Incident, f, s)
				continue
			}
			i.open(now, f, s)
			break // the others may belong to it
		}
	}
	for _, r := range i.book.Records() {
		if r.Open() && r.Milestones.FirstSwitch.IsZero() && len(r.Troubles) > 0 {
			if at, upstream := i.firstSwitch(names(r.Upstreams, s), cmp.Or(r.Milestones.FirstFailure, r.OpenedAt), now); !at.IsZero() {
				i.book.Do(r.ID, incident.Op{Kind: incident.OpSwitch, At: now, FirstSwitch: at, Upstream: upstream}, false)
			}
		}
	}
	if i.follow(); now.Sub(i.counted) >= countEvery {
		i.flushCounts(now)
	}
}

// tell puts what happened into the timeline that it belongs to. It requires
// changing.
func (i *incidents) tell(now time.Time) {
	i.mu.Lock()
	queue, missed := i.queue, i.missed
	i.queue, i.missed = nil, 0
	i.past = append(i.past, queue...)
	i.past = i.past[max(0, len(i.past)-pastEvents):]
	i.mu.Unlock()
	if len(queue) == 0 {
		return
	}
	records := i.book.Records()
	for _, e := range queue {
		if r, ok := incident.Concerned(records, e, now); ok {
			op := eventOp(e)
			op.Lost, missed = missed, 0
			i.book.Do(r.ID, op, false)
		}
	}
}

func eventOp(e decision.Event) incident.Op {
	line := telemetry.EventLine(e)
	return incident.Op{Kind: incident.OpEvent, At: e.Time, By: cmp.Or(e.By, decision.Auto), Event: &line}
}

// begin opens an incident with what led to it since a time; zero: not known. It
// requires changing.
func (i *incidents) begin(id string, op incident.Op, since time.Time, claim bool) {
	op.Kind, op.ID = incident.OpOpen, id
	i.book.Do(id, op, claim)
	i.follow()
	if since.IsZero() {
		since = op.At.Add(-incidentPast)
	}
	i.mu.Lock()
	past := slices.DeleteFunc(slices.Clone(i.past), func(e decision.Event) bool { return e.Time.Before(since) })
	i.mu.Unlock()
	for _, e := range past[max(0, len(past)-pastMost):] {
		i.book.Do(id, eventOp(e), false)
	}
}

func (i *incidents) open(now time.Time, f incident.Finding, s incident.Situation) {
	id := incident.NewID(now, salt())
	first, _ := i.firstFailure(upstreamsOf(f.Upstream, s), now)
	i.begin(id, incident.Op{At: now, By: decision.Auto, Cause: f.Cause, Title: f.Title}, first, true)
	i.trouble(now, id, f, s)
}

// salt tells incidents of one second apart.
func salt() string { return strings.ToLower(rand.Text()[:4]) }

func (i *incidents) trouble(now time.Time, id string, f incident.Finding, s incident.Situation) {
	op := incident.Op{
		Kind: incident.OpTrouble, At: now, By: decision.Auto, Key: f.Key, Cause: f.Cause, Upstream: f.Upstream,
		Phase: f.Phase, Shared: f.Shared, Text: f.Text,
	}
	if f.Since.After(now) {
		op.At = f.Since // by another gateway's clock
	}
	if f.Phase == incident.Ill {
		upstreams := upstreamsOf(f.Upstream, s)
		op.FirstFailure, _ = i.firstFailure(upstreams, now)
		op.FirstSwitch, _ = i.firstSwitch(upstreams, cmp.Or(op.FirstFailure, f.Since), now)
	}
	i.book.Do(id, op, false)
}

// upstreamsOf is the upstream that something is about, all of s if it is about none.
func upstreamsOf(upstream string, s incident.Situation) []string {
	if upstream != "" {
		return []string{upstream}
	}
	return names(nil, s)
}

func names(upstreams []string, s incident.Situation) []string {
	if len(upstreams) == 0 {
		for _, u := range s.Upstreams {
			upstreams = append(upstreams, u.Name)
		}
	}
	return upstreams
}

func (i *incidents) firstFailure(upstreams []string, now time.Time) (time.Time, string) {
	return earliest(upstreams, func(name string) time.Time { return i.look.FirstFailure(name, now) })
}

func (i *incidents) firstSwitch(upstreams []string, since, now time.Time) (time.Time, string) {
	return earliest(upstreams, func(name string) time.Time { return i.look.FirstSwitch(name, since, now) })
}

// earliest is the first of the times that are not zero, and of whom.
func earliest(names []string, of func(string) time.Time) (first time.Time, whose string) {
	for _, name := range names {
		if at := of(name); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first, whose = at, name
		}
	}
	return first, whose
}

// view is r with what is not written into it yet.
func (i *incidents) view(r incident.Record) incident.Record {
	if r.Open() {
		r.Counts = r.Counts.Plus(i.tallies.Of(r.ID))
	}
	return r
}

// heads are the incidents, newest first; of the open ones alone the oldest first.
func (i *incidents) heads(open bool) (l []api.IncidentHead) {
	for _, r := range i.book.Records() {
		if open && !r.Open() {
			continue
		}
		_, unsynced, _ := i.book.Get(r.ID)
		l = append(l, incident.Head(r, unsynced))
	}
	if open {
		slices.Reverse(l)
	}
	return l
}

// observeIncidents has the incidents follow what in shows.
func (g *Gateway) observeIncidents(in *inspection) {
	i := g.incidents
	s := incident.Situation{Instance: g.instance}
	for k := range in.setup.cfg.Upstreams {
		name := in.setup.cfg.Upstreams[k].Name
		state, ok := g.traffic.Get(name)
		if !ok {
			continue
		}
		u := incident.Upstream{Name: name, State: in.healthOf(name), Share: state.Share, Since: state.StateSince, Why: state.Reason}
		if state.Condition() == traffic.Degraded {
			u.Probed = in.probed(in.probes[name])
			u.Failed = i.probed[name] && !u.Probed
			i.probed[name] = i.probed[name] || u.Probed
		} else {
			delete(i.probed, name)
		}
		s.Upstreams = append(s.Upstreams, u)
	}
	if in.fault != nil {
		s.Fault = &incident.Fault{Since: in.fault.Since, Reason: in.fault.Reason(), Detail: in.fault.Detail}
	}
	s.Ratio = i.ratio.Step(in.now, in.live.Traffic.FallbackRatio.Value, int(in.live.Traffic.RPS.Value*60), ratioLimit(in.setup.cfg))
	i.step(in.now, s)
	if i.kept != nil {
		i.kept.wake()
	}
}

// ratioLimit is the configured limit of the fallback ratio, 0 without one.
func ratioLimit(cfg *config.Config) float64 {
	if l := limit(cfg); l != nil {
		return l.FallbackRatio
	}
	return 0
}

func (c *control) Incidents() api.Incidents {
	return api.Incidents{Incidents: c.incidents.heads(false), At: time.Now()}
}

func (c *control) Incident(id string) (api.Incident, error) {
	g := (*Gateway)(c)
	r, unsynced, ok := g.incidents.book.Get(id)
	if !ok {
		return api.Incident{}, noIncident(id)
	}
	r = g.incidents.view(r)
	return incident.View(r, unsynced, g.incidentFacts(r), time.Now()), nil
}

func noIncident(id string) error {
	return &api.Error{Code: api.CodeNotFound, Message: fmt.Sprintf("no incident %q", id), Hint: "failback incident list lists them"}
}

// incidentFacts is what is known of the closing questions of r.
func (g *Gateway) incidentFacts(r incident.Record) map[string]string {
	if len(r.Upstreams) == 0 {
		return incident.Facts(r, nil)
	}
	v := g.view()
	var standings []incident.Standing
	for _, name := range r.Upstreams {
		state, ok := g.traffic.Get(name)
		if !ok || v.setup.watched[name] == nil {
			continue
		}
		standings = append(standings, incident.Standing{
			Upstream: name, State: v.healthOf(name), Share: state.Share, Window: windowOf(v.setup, state),
		})
	}
	return incident.Facts(r, standings)
}

// windowOf says how far the window of the step in force is.
func windowOf(s *setup, state traffic.State) string {
	switch state.Condition() {
	case traffic.Degraded:
		return "none, its share is 0%"
	case traffic.Recovering:
		observe := s.observe(state)
		return fmt.Sprintf("share %d%%, %s of %s served", state.Share, min(state.Served, observe).Round(time.Second), observe)
	}
	if state.Share == traffic.Full {
		return "no failback is under way, share 100% since " + incident.Clock(state.Since)
	}
	return fmt.Sprintf("no failback is under way, share %d%%", state.Share)
}

// ChangeIncident does what an operator asks for of an incident; see
// operator.Control.
func (c *control) ChangeIncident(ctx context.Context, who operator.Actor, action, id string, cmd api.Command) (api.Result, error) {
	g := (*Gateway)(c)
	op, err := incidentOp(time.Now(), who, action, cmd)
	if err != nil {
		return api.Result{}, err
	}
	id, said, err := g.changeIncident(id, op, cmd.Override)
	if err != nil {
		return api.Result{}, err
	}
	return g.incidentResult(ctx, id, op, said)
}

// incidentOp is what is asked for, as a change of a record.
func incidentOp(now time.Time, who operator.Actor, action string, cmd api.Command) (incident.Op, error) {
	op := incident.Op{At: now, By: who.Name, Text: cmd.Reason}
	switch action {
	case operator.ActionIncidentOpen:
		op.Kind, op.Cause, op.Title, op.Text = incident.OpOpen, api.CauseOperator, cmd.Reason, ""
	case operator.ActionIncidentNote:
		op.Kind = incident.OpNote
	case operator.ActionIncidentTick:
		op.Kind, op.Runbook, op.Step, op.Done = incident.OpTick, cmd.Runbook, cmd.Step, *cmd.Done
	case operator.ActionIncidentAnswer:
		op.Kind, op.Question, op.Text, op.Seen = incident.OpAnswer, cmd.Question, cmd.Answer, cmd.Seen
	case operator.ActionIncidentClose:
		op.Kind = incident.OpClose
	case operator.ActionIncidentReopen:
		op.Kind = incident.OpReopen
	default:
		return op, fmt.Errorf("incidents: no such action: %s", action)
	}
	return op, nil
}

// changeIncident has op change the record of id, or open one, and says what was
// done. It waits for nothing.
func (g *Gateway) changeIncident(id string, op incident.Op, anyway bool) (_, said string, err error) {
	i := g.incidents
	i.changing.Lock()
	defer i.changing.Unlock()
	if op.Kind == incident.OpOpen {
		if err := i.room(); err != nil {
			return "", "", err
		}
		id = incident.NewID(op.At, salt())
		i.tell(op.At)
		i.begin(id, op, time.Time{}, false)
		return id, "opened", nil
	}
	r, _, ok := i.book.Get(id)
	if !ok {
		return "", "", noIncident(id)
	}
	does, said, err := r.Weigh(op, anyway)
	if err != nil || !does {
		return id, said, err
	}
	switch op.Kind {
	case incident.OpClose:
		i.tell(op.At)
		i.flushCounts(op.At)
		r, _, _ = i.book.Get(id)
		op.Facts = g.incidentFacts(r)
	case incident.OpReopen:
		if err := i.room(); err != nil {
			return "", "", err
		}
	}
	i.book.Do(id, op, false)
	i.follow()
	return id, said, nil
}

// room refuses to open one more incident where too many are.
func (i *incidents) room() error {
	if n := len(i.heads(true)); n >= incident.MaxOpen {
		return &api.Error{Code: api.CodeFailed, Message: fmt.Sprintf("%d incidents are open already", n), Hint: "close those that are over"}
	}
	return nil
}

// incidentResult writes id down and says what became of op.
func (g *Gateway) incidentResult(ctx context.Context, id string, op incident.Op, said string) (api.Result, error) {
	i := g.incidents
	var err error
	if i.kept != nil {
		if err = i.kept.write(ctx, id); err != nil {
			g.alarm("incident " + id + ": " + err.Error())
		}
	}
	r, unsynced, ok := i.book.Get(id)
	if !ok {
		return api.Result{}, noIncident(id)
	}
	head := incident.Head(r, unsynced)
	said, refused := r.Became(op, said)
	if refused != nil {
		return api.Result{}, refused
	}
	message := fmt.Sprintf("incident %s: %s", r.ID, said)
	if err != nil {
		message += "; not written down yet: it is in memory alone"
	}
	return api.Result{Message: message, Incident: &head}, nil
}

// openIncidents begins with what the store has. The last of it is written when the
// gateway stops.
func (g *Gateway) openIncidents() error {
	if g.store == nil {
		return nil
	}
	kept, err := newIncidentStore(g.store, g.incidents.book, g.alarm)
	if err != nil {
		return err
	}
	g.incidents.kept = kept
	g.onStop(func(ctx context.Context) error {
		g.incidents.flush(time.Now())
		return kept.writeAll(ctx)
	})
	if err := kept.load(g.ctx); err != nil && !errors.Is(err, context.Canceled) {
		g.alarm("incidents: " + err.Error())
	}
	return nil
}
