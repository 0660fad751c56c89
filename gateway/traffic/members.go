package traffic

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// member is what a request needs to know of one upstream. It is never changed
// once published.
type member struct {
	State
	served *atomic.Int64    // State.Served, which goes on
	heavy  map[Key]struct{} // conversations split by request
	own    *ownTraffic
}

// state is a copy of what m shows.
func (m *member) state() State {
	s := m.State
	s.Steps, s.Passed = slices.Clone(s.Steps), slices.Clone(s.Passed)
	s.Plan, s.Undo = copyOf(s.Plan), copyOf(s.Undo)
	s.Served = time.Duration(m.served.Load())
	return s
}

// admits reports whether the request is inside the share.
func (m *member) admits(conversation, request string) bool {
	if m.Share >= Full {
		return true
	}
	if m.Share <= 0 {
		return false
	}
	if conversation == "" {
		return inside(m.Share, m.Upstream, m.FailbackID, byRequest, request)
	}
	if len(m.heavy) > 0 {
		if _, split := m.heavy[Key(conversationKey(conversation))]; split {
			return inside(m.Share, m.Upstream, m.FailbackID, byRequest, request)
		}
	}
	return inside(m.Share, m.Upstream, m.FailbackID, byConversation, conversation)
}

const (
	byConversation = 'c'
	byRequest      = 'r'
)

// inside places who on a circle that upstream and failback id turn, and
// reports whether the place lies within the first share percent. The place
// does not depend on the share, so a larger share keeps every member of a
// smaller one; it depends on nothing of the process, so every process and
// every later version must compute the same.
func inside(share int, upstream, id string, kind byte, who string) bool {
	return place(upstream, id, kind, who) < uint64(share)*(math.MaxUint64/100)
}

// place hashes with SHA-256, since two upstreams that come back together must
// not share their first users: with a weaker hash the same text under two
// salts is not independent.
func place(upstream, id string, kind byte, who string) uint64 {
	var stack [192]byte
	b := binary.AppendUvarint(stack[:0], uint64(len(upstream)))
	b = append(b, upstream...)
	b = binary.AppendUvarint(b, uint64(len(id)))
	b = append(b, id...)
	b = append(b, kind)
	b = append(b, who...)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// conversationKey names a conversation in the sketch and in the file without
// keeping the client's text: FNV-1a with a final mix. It is stable, since
// split conversations are stored by it.
func conversationKey(conversation string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(conversation) {
		h = (h ^ uint64(conversation[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
