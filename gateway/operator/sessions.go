package operator

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"failback/gateway/operator/api"
)

const (
	sessionLife  = 5 * time.Minute // without a request
	maxSessions  = 256
	maxSessionID = 64
)

// sessions remembers the consoles that asked lately. The zero value is ready.
type sessions struct {
	// mu guards everything that follows.
	mu sync.Mutex
	m  map[sessionKey]*api.Session
}

// sessionKey holds the name too: nobody speaks in another's session.
type sessionKey struct{ id, name string }

// seen notes a request of id; write says that it is a command.
func (s *sessions) seen(id, name, instance string, write bool, now time.Time) {
	if !validSession(id) {
		return
	}
	k := sessionKey{id, name}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.m[k]
	if v == nil {
		if s.m == nil {
			s.m = make(map[sessionKey]*api.Session)
		}
		s.expire(now)
		if len(s.m) >= maxSessions {
			return
		}
		v = &api.Session{Name: name, Instance: instance, Since: now}
		s.m[k] = v
	}
	v.LastSeen = now
	if write {
		v.Writes = now
	}
}

// list returns the sessions, oldest first, and marks that of (id, name).
func (s *sessions) list(id, name string, now time.Time) []api.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	l := make([]api.Session, 0, len(s.m))
	for k, v := range s.m {
		c := *v
		c.You = k == sessionKey{id, name}
		l = append(l, c)
	}
	slices.SortFunc(l, func(a, b api.Session) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return l
}

// Sessions are the consoles that asked this gateway lately, oldest first.
func (s *Server) Sessions() []api.Session { return s.sessions.list("", "", time.Now()) }

// gathered are own sessions and those of other gateways, oldest first.
func gathered(own, others []api.Session) []api.Session {
	l := append(own, others...)
	slices.SortStableFunc(l, func(a, b api.Session) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name))
	})
	return l
}

// expire forgets who was silent for too long. It requires mu.
func (s *sessions) expire(now time.Time) {
	for k, v := range s.m {
		if now.Sub(v.LastSeen) > sessionLife {
			delete(s.m, k)
		}
	}
}

func validSession(id string) bool {
	return id != "" && len(id) <= maxSessionID &&
		!strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
