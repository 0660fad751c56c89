package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"failback/gateway/config"
	"failback/gateway/operator/api"
	"failback/gateway/store"
)

const (
	// peerEvery is how often a gateway of a shared store says that it is there.
	peerEvery = 10 * time.Second
	// peerSilent is after how many periods without a word one does not answer.
	peerSilent = 3
	// peerKept is how long one that went without a word is remembered: until
	// then it counts, and is said to be silent.
	peerKept = 24 * time.Hour
	// peerAway bounds taking leave of the others.
	peerAway = 2 * time.Second
)

// peerRecord is what a gateway says of itself to those that share its store.
type peerRecord struct {
	Instance string `json:"instance"`
	Boot     string `json:"boot"` // differs with every start
	// Placed is since when there is its data directory, by its clock; zero if it
	// is of a version that does not say.
	Placed   time.Time     `json:"placed,omitzero"`
	Version  string        `json:"version"`
	Since    time.Time     `json:"since"`
	Now      time.Time     `json:"now"` // its clock when it wrote this
	Sessions []api.Session `json:"sessions,omitempty"`
}

// peers knows the gateways of a shared store. How long one has been silent is
// measured here, from when its record last changed, and counts only while this
// gateway hears its own record come back: without the store nobody is known to
// be silent. The clocks of two hosts are never compared. Safe for concurrent
// use.
type peers struct {
	bucket   *store.Bucket[peerRecord]
	key      string
	self     peerRecord // without Now and Sessions
	every    time.Duration
	sessions func() []api.Session
	alarm    func(string)

	// mu guards everything that follows.
	mu       sync.Mutex
	known    map[string]*peer // by key, without this gateway
	anchored bool             // its own record has come back
	// double is the boot of another process that was last heard in this place.
	double string
}

// peer is another gateway, as it was last heard of.
type peer struct {
	record peerRecord
	seen   time.Time // when its record last changed
	missed int       // how often this gateway's own record came back since
	// alike says that it was heard beside this gateway, under the same name.
	alike bool
	// found says that the record was there already when this gateway began to
	// look, written at that time of the store.
	found   bool
	written time.Time
	// ahead is by how much this gateway's clock is ahead of its clock.
	ahead time.Duration
}

// newPeers opens the list. Gateways are told apart by their names and their
// places: see place.
func newPeers(s *store.Store, every time.Duration, self peerRecord, in place) (*peers, error) {
	b, err := store.NewBucket[peerRecord](s, store.BucketOptions{Name: "gateways", TTL: max(peerKept/peerEvery*every, time.Second)})
	if err != nil {
		return nil, err
	}
	self.Boot, self.Placed = rand.Text(), in.Since
	return &peers{
		bucket: b, key: self.Instance + "/" + in.ID, self: self, every: every,
		sessions: func() []api.Session { return nil }, alarm: func(string) {},
		known: map[string]*peer{},
	}, nil
}

// run says over and over that this gateway is there, and takes leave when ctx
// ends. That the store cannot be written is its own status, and said there.
func (p *peers) run(ctx context.Context) error {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		r := p.self
		r.Now, r.Sessions = time.Now(), p.sessions()
		_, _ = p.bucket.Put(ctx, p.key, r)
		select {
		case <-tick.C:
		case <-ctx.Done():
			away, done := context.WithTimeout(context.WithoutCancel(ctx), peerAway)
			defer done()
			_ = p.bucket.Delete(away, p.key)
			return nil
		}
	}
}

// follow listens to the others until ctx ends.
func (p *peers) follow(ctx context.Context) error {
	ready := false
	err := p.bucket.Watch(ctx, func(c store.Change[peerRecord]) {
		if c.Ready {
			ready = true
			return
		}
		p.heard(c, !ready, time.Now())
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// heard takes in a change; found says that it was there before anybody looked.
func (p *peers) heard(c store.Change[peerRecord], found bool, now time.Time) {
	if c.Err != nil {
		p.alarm(fmt.Sprintf("gateways of the store: %s: %v", c.Key, c.Err))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case c.Key == p.key && c.Deleted:
	case c.Key == p.key && c.Value.Boot == p.self.Boot:
		p.echo(c.Written, now)
	case c.Key == p.key:
		// Before the first echo it is this gateway's own, of its last run.
		if p.anchored && p.double != c.Value.Boot {
			p.double = c.Value.Boot
			p.alarm(fmt.Sprintf("another gateway of the store is called %q, too, and has a copy of this data_dir, so that neither is missed if it falls silent: "+
				"stop one, delete %s in its data_dir and give it its own --instance", p.self.Instance, placeFile))
		}
	case c.Deleted:
		delete(p.known, c.Key)
	default:
		k := p.known[c.Key]
		if k == nil || k.record.Boot != c.Value.Boot {
			k = &peer{}
			p.known[c.Key] = k
		}
		// One that was found may have ended: the next word of it says that it runs.
		if !found && !k.alike && c.Value.Instance == p.self.Instance {
			k.alike = true
			p.alarm(fmt.Sprintf("another gateway of the store is called %q, too: their metrics and log lines cannot be told apart, "+
				"and they overwrite each other's evidence and error budgets: give each its own --instance", p.self.Instance))
		}
		// What it takes to arrive is no change of a clock.
		if ahead := now.Sub(c.Value.Now); k.seen.IsZero() || k.found || (ahead-k.ahead).Abs() > time.Second {
			k.ahead = ahead
		}
		k.record, k.seen, k.missed, k.found, k.written = c.Value, now, 0, found, c.Written
	}
}

// echo takes in that this gateway's own record came back, written at that time
// of the store. It requires mu.
func (p *peers) echo(written, now time.Time) {
	for _, k := range p.known {
		k.missed++
		if k.found {
			// Both times are the store's.
			silent := max(written.Sub(k.written), 0)
			k.seen, k.ahead = k.seen.Add(-silent), k.ahead-silent
			k.missed, k.found = int(silent/p.every), false
		}
	}
	p.anchored = true
}

// answers reports whether k is not known to be silent.
func (p *peers) answers(k *peer, now time.Time) bool {
	return k.missed < peerSilent || now.Sub(k.seen) < peerSilent*p.every
}

// replaced reports whether k, which is silent, started anew elsewhere: a gateway
// of its name answers whose place was made after k's last word. One that was
// there before is another gateway. It requires mu.
func (p *peers) replaced(k *peer, now time.Time) bool {
	if k.record.Instance == p.self.Instance && p.self.placed().After(k.seen) {
		return true
	}
	for _, other := range p.known {
		if other.record.Instance == k.record.Instance && p.answers(other, now) && other.record.placed().Add(other.ahead).After(k.seen) {
			return true
		}
	}
	return false
}

// placed is since when there is r's place, as far as r says.
func (r *peerRecord) placed() time.Time {
	if r.Placed.IsZero() {
		return r.Since
	}
	return r.Placed
}

// list returns the gateways of the store, this one among them, and the consoles
// of the others that answer. One that is silent is among them until it has been
// for peerKept, unless it took leave or started anew elsewhere. Those that share
// a name are numbered, the same way at each of them. Of nil there are none.
func (p *peers) list(now time.Time) (gateways []api.Peer, sessions []api.Session) {
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	shown := map[string]api.Peer{p.key: {
		Instance: p.self.Instance, Version: p.self.Version, Since: p.self.Since, LastSeen: now, Answers: true, You: true,
	}}
	for key, k := range p.known {
		answers := p.answers(k, now)
		if !answers && p.replaced(k, now) {
			continue
		}
		shown[key] = api.Peer{
			Instance: k.record.Instance, Version: k.record.Version, Since: k.record.Since, LastSeen: k.seen, Answers: answers,
		}
	}
	keys := slices.SortedFunc(maps.Keys(shown), func(a, b string) int {
		return cmp.Or(cmp.Compare(shown[a].Instance, shown[b].Instance), cmp.Compare(a, b))
	})
	named := map[string]int{}
	for _, key := range keys {
		g := shown[key]
		named[g.Instance]++
		if n := named[g.Instance]; n > 1 {
			g.Instance += " (" + strconv.Itoa(n) + ")"
		}
		gateways = append(gateways, g)
		if g.Answers && !g.You {
			sessions = append(sessions, p.known[key].consoles(g.Instance)...)
		}
	}
	slices.SortFunc(sessions, func(a, b api.Session) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Instance, b.Instance))
	})
	return gateways, sessions
}

// consoles returns those of k, a gateway of the given name, by this gateway's
// clock.
func (k *peer) consoles(instance string) []api.Session {
	sessions := slices.Clone(k.record.Sessions)
	for i := range sessions {
		s := &sessions[i]
		s.You, s.Instance = false, instance
		s.Since, s.LastSeen = s.Since.Add(k.ahead), s.LastSeen.Add(k.ahead)
		if !s.Active.IsZero() { // else that gateway is of a version that does not say
			s.Active = s.Active.Add(k.ahead)
		}
		if !s.Writes.IsZero() {
			s.Writes = s.Writes.Add(k.ahead)
		}
	}
	return sessions
}

// others returns the boots of the other gateways that answer, and whether there may
// be more of them: silent ones, or all while nothing was heard yet.
func (p *peers) others(now time.Time) (boots map[string]bool, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	boots, more = map[string]bool{}, !p.anchored
	for _, k := range p.known {
		if p.answers(k, now) {
			boots[k.record.Boot] = true
		} else if !p.replaced(k, now) {
			more = true
		}
	}
	return boots, more
}

// openPeers makes the list of gateways, and what they ask each other, if the store
// is shared.
func (g *Gateway) openPeers(s *store.Store, cfg *config.Config) error {
	if s.Status().Kind != store.NATS {
		return nil
	}
	in, err := placeOf(cfg.DataDir)
	if err != nil {
		g.alarm(err.Error())
	}
	p, err := newPeers(s, peerEvery, peerRecord{Instance: g.instance, Version: g.o.Version, Since: g.started}, in)
	if err != nil {
		return err
	}
	p.sessions, p.alarm = g.operator.Sessions, g.alarm
	g.peers = p
	return g.openOutcomes(s)
}
