package operator

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
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
	m  map[sessionKey]*session
}

// session is one of them.
type session struct {
	api.Session
	says bool // it says how long its operator has been idle
}

// sessionKey holds the name too: nobody speaks in another's session.
type sessionKey struct{ id, name string }

// seen notes a request of r's session, if it has one; write says that it is a
// command.
func (s *sessions) seen(r *http.Request, name, instance string, write bool, now time.Time) {
	id := r.Header.Get(api.SessionHeader)
	if !validSession(id) {
		return
	}
	idle, says := idleOf(r.Header)
	k := sessionKey{id, name}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.m[k]
	if v == nil {
		if s.m == nil {
			s.m = make(map[sessionKey]*session)
		}
		s.expire(now)
		if len(s.m) >= maxSessions {
			return
		}
		v = &session{Session: api.Session{Name: name, Instance: instance, Since: now}}
		s.m[k] = v
	}
	v.LastSeen = now
	v.says = v.says || says
	switch active := now.Add(-idle); {
	case !v.says:
		v.Active = now // who asks is there, as far as anybody knows
	case says && active.After(v.Active): // requests overtake each other
		v.Active = active
	}
	if write {
		v.Writes = now
	}
}

// leave forgets r's session: its console ended.
func (s *sessions) leave(r *http.Request, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, sessionKey{r.Header.Get(api.SessionHeader), name})
}

// idleOf is how long the operator of a console has pressed no key; false if it
// does not say, or nothing that can be.
func idleOf(h http.Header) (time.Duration, bool) {
	seconds, err := strconv.ParseUint(h.Get(api.IdleHeader), 10, 32)
	return time.Duration(seconds) * time.Second, err == nil
}

// deleteSession takes leave of a console. The answer is the same for one that
// was not there.
func (s *Server) deleteSession(w http.ResponseWriter, r *http.Request, id identity) {
	s.sessions.leave(r, id.name)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// list returns the sessions, oldest first, and marks that of (id, name).
func (s *sessions) list(id, name string, now time.Time) []api.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	l := make([]api.Session, 0, len(s.m))
	for k, v := range s.m {
		c := v.Session
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
