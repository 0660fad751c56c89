package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// How the server knows who somebody is.
const (
	viaSocket      = "socket" // peer credentials
	viaSocketToken = "socket token"
	viaTCPToken    = "tcp token"
	viaNone        = "none"
)

// conn is what the server knows of a connection before any request.
type conn struct {
	unix   bool
	uid    uint32
	hasUID bool
	// private: nobody between can read along. True of the socket, TLS and loopback.
	private bool
}

type connKey struct{}

// connContext notes whose connection c is. It runs between two accepts and
// must be quick: the uid's name is looked up later.
func connContext(ctx context.Context, c net.Conn) context.Context {
	var k conn
	if t, ok := c.(*tls.Conn); ok {
		k.private = true
		c = t.NetConn()
	}
	if l, ok := c.(*limitConn); ok {
		c = l.Conn
	}
	switch c := c.(type) {
	case *net.UnixConn:
		k.unix, k.private = true, true
		k.uid, k.hasUID = peerUID(c)
	case *net.TCPConn:
		if a, ok := c.LocalAddr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
			k.private = true
		}
	}
	return context.WithValue(ctx, connKey{}, k)
}

// identity is who makes a request.
type identity struct {
	name, role, via string
	readOnlyWhy     string
}

func (id identity) you() api.You {
	return api.You{Name: id.name, Role: id.role, ReadOnlyWhy: id.readOnlyWhy}
}

func (id identity) actor() Actor { return Actor{Name: id.name, Role: id.role, Via: id.via} }

// nobody is who is known of a caller that was not let in.
var nobody = identity{name: "unknown", via: viaNone}

// errUnauthorized is the one answer to a missing token and to every wrong one:
// nothing in it comes from the request.
var errUnauthorized = &api.Error{
	Code:    api.CodeUnauthorized,
	Message: "a valid token is needed",
	Hint:    "send it as Authorization: Bearer TOKEN",
}

var errNotPrivate = &api.Error{
	Code:    api.CodeForbidden,
	Message: "this connection is not encrypted: only /metrics and /healthz are served on it",
	Hint:    "set operator.tls, connect over loopback, or use the socket",
}

// identify says who makes r, and as what.
func (s *Server) identify(r *http.Request) (identity, *api.Error) {
	id, refused := s.known(r)
	if refused == nil && id.readOnlyWhy == "" && len(r.Header.Values(api.ReadOnlyHeader)) > 0 {
		id.role, id.readOnlyWhy = api.RoleViewer, "it was started read-only"
	}
	return id, refused
}

// known says who makes r.
func (s *Server) known(r *http.Request) (identity, *api.Error) {
	c, _ := r.Context().Value(connKey{}).(conn)
	if !c.private {
		return nobody, errNotPrivate
	}
	auth := r.Header.Values("Authorization")
	if len(auth) > 0 || !c.unix {
		if len(auth) != 1 {
			return nobody, errUnauthorized
		}
		scheme, presented, _ := strings.Cut(auth[0], " ")
		t, ok := match(s.o.Tokens(), strings.TrimSpace(presented))
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return nobody, errUnauthorized
		}
		id := identity{name: t.Name, role: api.RoleViewer, via: viaTCPToken, readOnlyWhy: "the role of this token is viewer"}
		if c.unix {
			id.via = viaSocketToken
		}
		if t.Role == api.RoleOperator {
			id.role, id.readOnlyWhy = api.RoleOperator, ""
		}
		return id, nil
	}
	id := identity{name: "unknown", role: api.RoleViewer, via: viaSocket}
	if !c.hasUID {
		id.readOnlyWhy = "the system does not say who you are: writes need a token"
		return id, nil
	}
	name, ok := s.people.name(c.uid)
	if !ok {
		id.name = "uid " + strconv.FormatUint(uint64(c.uid), 10)
		id.readOnlyWhy = fmt.Sprintf("uid %d has no entry in the user database: writes need a token", c.uid)
		return id, nil
	}
	id.name, id.role = userName(name), api.RoleOperator
	return id, nil
}

// userName is what an operator is called whom the system knows by name. A person
// must never be taken for the machine.
func userName(name string) string {
	if decision.ByMachine(name) {
		return "user " + name
	}
	return name
}

// people finds the names of uids and remembers them for a minute: a user
// database may be on the network. The zero value is ready.
type people struct {
	// mu guards everything that follows.
	mu    sync.Mutex
	known map[uint32]person
}

type person struct {
	name  string
	until time.Time
}

// name is the user name of uid, false if it has none or cannot be found now.
func (p *people) name(uid uint32) (string, bool) {
	now := time.Now()
	p.mu.Lock()
	k, ok := p.known[uid]
	p.mu.Unlock()
	if ok && now.Before(k.until) {
		return k.name, k.name != ""
	}
	k = person{until: now.Add(time.Minute)}
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	var unknown user.UnknownUserIdError
	switch {
	case err == nil:
		k.name = u.Username
	case !errors.As(err, &unknown):
		k.until = now.Add(5 * time.Second)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) > 1000 {
		p.known = make(map[uint32]person)
	}
	p.known[uid] = k
	return k.name, k.name != ""
}
