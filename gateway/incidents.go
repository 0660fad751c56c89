package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"failback/gateway/decision"
	"failback/gateway/incident"
	"failback/gateway/telemetry"
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
	if ok, known := incident.Technical(o.Class); known {
		i.look.Attempt(upstream, ok, now)
	}
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
	good := verdict == telemetry.Good
	epoch := i.tallies.Count(time.Now(), func(c *incident.Counts) { c.Request(d, degraded, good) })
	i.recent.Add(d.RequestID, d.Key, degraded, good, epoch)
}

// flushCounts writes what was counted into the open incidents. It requires
// changing.
func (i *incidents) flushCounts(now time.Time) {
	i.follow(now)
	p := i.tallies.Take()
	i.counted = now
	for _, r := range i.book.Records() {
		if !r.Open() {
			continue
		}
		c, notes := p.Of(r.ID)
		// One that this gateway is part of hears of it even if nothing was counted.
		if !c.IsZero() || c.Since.Before(r.CountsSince()) && !c.Since.IsZero() || i.concerns(r) {
			i.book.Do(r.ID, incident.Op{Kind: incident.OpCount, At: now, Counts: c}, false)
		}
		for _, text := range notes[:max(0, min(len(notes), outcomeNotes-r.NotesBy(byClient)))] {
			i.book.Do(r.ID, incident.Op{Kind: incident.OpNote, At: now, By: byClient, Text: text}, false)
		}
	}
}

// follow has the tallies count for those that are open. It requires changing.
func (i *incidents) follow(now time.Time) {
	open := map[string]time.Time{}
	for _, r := range i.book.Records() {
		if r.Open() {
			open[r.ID] = r.CountsFrom()
		}
	}
	i.tallies.Follow(now, open, i.book.Current)
}

// byClient is who wrote the notes of outcomes.
const byClient = "client"

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
