package upstream

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"failback/gateway/decision"
)

// How long a credential is left alone after it failed: coolFirst, twice as
// long after each further failure, at most coolMost.
const (
	coolFirst = 5 * time.Minute
	coolMost  = time.Hour
	// trialFor is how long one attempt alone may try a credential whose time
	// is over, before another one may.
	trialFor = 10 * time.Second
)

// Book keeps which credentials cool, for all upstreams of a gateway: a key
// value that was refused (class credential) cools for everyone who uses that
// value, an account without credit (quota_exhausted) for everyone who is
// billed to it. All methods may be called at once from several goroutines.
type Book struct {
	onEvent func(decision.Event)
	began   time.Time

	mu sync.Mutex
	// mu guards everything that follows, and the entries but for their atomic fields.
	entries map[entryID]*entry
}

// entryID names what cools: a key value, or a billing account.
type entryID struct {
	class decision.Class
	value string
}

// entry is one thing that may cool.
type entry struct {
	id    entryID
	users map[string]int // upstream name → keys of it that depend on this entry

	// failing is set from the first failure until a success or a Clear: the
	// one thing that is read for every request, without the book's mu.
	failing atomic.Bool
	// refused is set by whatever was refused last, probes too, until the same:
	// it keeps nobody from using the entry.
	refused atomic.Bool
	fails   int
	until   time.Duration // since Book.began
	trial   time.Duration // until when somebody else tries it
	// age counts failures and clearings, so that a success of an attempt that
	// began before the last of them proves nothing.
	age uint64
}

// NewBook returns an empty book. onEvent, which may be nil, learns when a
// credential begins and ceases to cool; it is called without locks held.
func NewBook(onEvent func(decision.Event)) *Book {
	return &Book{onEvent: onEvent, began: time.Now(), entries: make(map[entryID]*entry)}
}

// Failed tells that an attempt with k ended with class credential or
// quota_exhausted; other classes, and a Key that is none, are ignored. A
// failure of what cools already changes nothing: it was sent before.
func (b *Book) Failed(u *Upstream, k Key, class decision.Class) {
	e := k.entry(class)
	if e == nil {
		return
	}
	b.mu.Lock()
	now := time.Since(b.began)
	if e.failing.Load() && now < e.until || b.entries[e.id] != e {
		b.mu.Unlock()
		return // known, or nobody has that key any more
	}
	e.fails++
	d := coolMost
	if e.fails < 8 {
		d = min(coolFirst<<(e.fails-1), coolMost)
	}
	e.until, e.trial = now+d, 0
	e.age++
	e.failing.Store(true)
	e.refused.Store(true)
	detail := fmt.Sprintf("%s cools for %v", k, d)
	if others := e.others(u.name); others != "" {
		detail += "; shared with " + others
	}
	b.mu.Unlock()
	b.emit(u.name, u.Region(), "ok", "cooling", string(class), detail)
}

// Refused tells that a probe with k ended with class credential or
// quota_exhausted. Nothing cools for it, but Upstream.Refuses says so.
func (b *Book) Refused(k Key, class decision.Class) {
	if e := k.entry(class); e != nil {
		e.refused.Store(true)
	}
}

// OK tells that an attempt with k succeeded, which ends the cooling of its
// value and its account unless they failed after the attempt had its key.
func (b *Book) OK(u *Upstream, k Key) {
	if !k.failing() {
		return
	}
	for i, e := range k.entries {
		if e == nil {
			continue
		}
		b.mu.Lock()
		cleared := (!e.failing.Load() || e.age == k.ages[i]) && b.clear(e)
		b.mu.Unlock()
		if cleared {
			b.emit(u.name, u.Region(), "cooling", "ok", "success", k.String()+" works again")
		}
	}
}

// Clear ends the cooling of every credential upstream uses, also for those
// that share one with it.
func (b *Book) Clear(upstream string) {
	b.clearWhere(func(e *entry) bool { return e.users[upstream] > 0 }, upstream)
}

// ClearAll ends the cooling of every credential.
func (b *Book) ClearAll() { b.clearWhere(func(*entry) bool { return true }, "") }

func (b *Book) clearWhere(match func(*entry) bool, upstream string) {
	type done struct{ name, class string }
	var cleared []done
	b.mu.Lock()
	for id, e := range b.entries {
		if match(e) && b.clear(e) {
			name := upstream
			if name == "" {
				name = e.first()
			}
			cleared = append(cleared, done{name, string(id.class)})
		}
	}
	b.mu.Unlock()
	for _, c := range cleared {
		b.emit(c.name, "", "cooling", "ok", "cleared", c.class+" is tried again")
	}
}

// clear requires mu. It reports whether e was cooling or failing at all.
func (b *Book) clear(e *entry) bool {
	e.refused.Store(false)
	if !e.failing.Load() {
		return false
	}
	e.fails, e.until, e.trial = 0, 0, 0
	e.age++
	e.failing.Store(false)
	return true
}

// blocked reports whether e may not be used now, and until when it cools.
func (b *Book) blocked(e *entry) (until time.Time, blocked bool) {
	if e == nil || !e.failing.Load() {
		return time.Time{}, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Since(b.began)
	if !e.failing.Load() || now >= max(e.until, e.trial) {
		return time.Time{}, false
	}
	return b.began.Add(max(e.until, e.trial)), true
}

// try marks that one attempt tries what failed before, so that others wait for
// its end.
func (b *Book) try(e *entry) {
	if e == nil || !e.failing.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Since(b.began); e.failing.Load() && now >= e.until {
		e.trial = now + trialFor
	}
}

// register returns the entry of id and counts upstream as its user.
func (b *Book) register(id entryID, upstream string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil {
		e = &entry{id: id, users: make(map[string]int, 1)}
		b.entries[id] = e
	}
	e.users[upstream]++
	return e
}

// unregister is register's opposite; an entry nobody uses is forgotten.
func (b *Book) unregister(e *entry, upstream string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.users[upstream]--; e.users[upstream] <= 0 {
		delete(e.users, upstream)
	}
	if len(e.users) == 0 && b.entries[e.id] == e {
		delete(b.entries, e.id)
	}
}

// age returns e's age, 0 for nil.
func (b *Book) age(e *entry) uint64 {
	if e == nil || !e.failing.Load() {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.age
}

// changed ends the cooling of an account some key of which was replaced.
func (b *Book) changed(e *entry, upstream, region string) {
	b.mu.Lock()
	cleared := b.clear(e)
	b.mu.Unlock()
	if cleared {
		b.emit(upstream, region, "cooling", "ok", "changed", string(e.id.class)+" is tried again with a new key")
	}
}

func (b *Book) emit(upstream, region, from, to, reason, detail string) {
	if b.onEvent == nil {
		return
	}
	b.onEvent(decision.Event{
		Kind: decision.KindCredential, Time: time.Now(), Provider: upstream, Region: region,
		From: from, To: to, Reason: reason, Detail: detail, By: decision.Auto,
	})
}

// others names the users of e but name. It requires the book's mu.
func (e *entry) others(name string) string {
	var l []string
	for u := range e.users {
		if u != name {
			l = append(l, u)
		}
	}
	slices.Sort(l)
	return strings.Join(l, ", ")
}

// first names one user of e, always the same. It requires the book's mu.
func (e *entry) first() string {
	name := ""
	for u := range e.users {
		if name == "" || u < name {
			name = u
		}
	}
	return name
}
