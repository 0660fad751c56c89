package upstream

import (
	"fmt"
	"time"

	"failback/gateway/decision"
)

// maxKeys is how many keys of one upstream are used: as many as a set of used
// ones has bits.
const maxKeys = 64

// Key is one credential of one upstream as PickKey returned it. The zero value
// is no key. It never prints its value.
type Key struct {
	version *version // whose key it is: a key never meets another host
	index   int
	header  string
	value   []string
	// entries are what may cool: the value itself, and its account. ages are
	// theirs when the key was picked.
	entries [2]*entry
	ages    [2]uint64
}

// Bit is k's bit in the set of used keys given to PickKey, 0 for no key.
func (k Key) Bit() uint64 {
	if k.version == nil {
		return 0
	}
	return 1 << k.index
}

// String names the key by its position, from 1.
func (k Key) String() string {
	if k.version == nil {
		return "no key"
	}
	return fmt.Sprintf("key %d of %d", k.index+1, len(k.version.keys))
}

// Format writes String whatever the verb, so that no format reaches the value.
func (k Key) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(k.String())) }

// entry returns what of k cools after class, nil if nothing does.
func (k *Key) entry(class decision.Class) *entry {
	switch class {
	case decision.Credential:
		return k.entries[0]
	case decision.QuotaExhausted:
		return k.entries[1]
	}
	return nil
}

// failing reports whether there is anything that a success would clear.
func (k *Key) failing() bool {
	for _, e := range k.entries {
		if e != nil && (e.failing.Load() || e.refused.Load()) {
			return true
		}
	}
	return false
}

// PickKey returns a key that may be used now and whose bit is not in used, and
// an empty reason; without one the reason is credential or quota_exhausted, as
// the keys' cooling has it. It takes nothing and may be called to ask only.
// Attempts are spread evenly over the keys. An upstream configured without
// keys gives the Key that sends no credential; it can be used once per request
// like any other.
func (u *Upstream) PickKey(used uint64) (Key, decision.Reason) {
	v := u.current.Load()
	reason := decision.ReasonOf(decision.Credential)
	first := 0
	if len(v.keys) > 1 {
		first = int(u.turn.Load() % uint32(len(v.keys)))
	}
	for i := range v.keys {
		k := &v.keys[(first+i)%len(v.keys)]
		class, _ := u.blocked(k)
		switch {
		case class == decision.QuotaExhausted:
			reason = decision.ReasonOf(class)
		case class == "" && used&k.Bit() == 0:
			picked := *k
			for j, e := range k.entries {
				picked.ages[j] = u.book.age(e)
			}
			return picked, ""
		}
	}
	return Key{}, reason
}

// Cooling returns the class for which no key of u may be used, and until when;
// an empty class if one may.
func (u *Upstream) Cooling() (decision.Class, time.Time) {
	v := u.current.Load()
	var class decision.Class
	var soonest time.Time
	for i := range v.keys {
		c, until := u.blocked(&v.keys[i])
		if c == "" {
			return "", time.Time{}
		}
		if class == "" || until.Before(soonest) {
			class, soonest = c, until
		}
	}
	return class, soonest
}

// Refuses reports whether any key of u, or its account, was refused with class
// when it was last tried, by a request or a probe, whether it cools or not.
func (u *Upstream) Refuses(class decision.Class) bool {
	v := u.current.Load()
	for i := range v.keys {
		if e := v.keys[i].entry(class); e != nil && e.refused.Load() {
			return true
		}
	}
	return false
}

// blocked returns the class for which k may not be used now, and until when;
// an empty class if it may.
func (u *Upstream) blocked(k *Key) (class decision.Class, until time.Time) {
	for _, e := range k.entries {
		if t, blocked := u.book.blocked(e); blocked && t.After(until) {
			class, until = e.id.class, t
		}
	}
	return class, until
}
