package operator

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// Options of a Server.
type Options struct {
	// Socket is the path of the unix socket; empty: none.
	Socket string
	// Listen is the TCP address; empty: none.
	Listen string
	// TLS serves Listen over TLS; nil: plain HTTP, on which only /metrics and
	// /healthz are served unless the connection is on loopback. A certificate
	// that changes comes by its GetCertificate.
	TLS *tls.Config
	// Tokens are the tokens in force, asked for at every request, so that a
	// reload takes effect at once; nil: none.
	Tokens func() []Token
	// AuditPath is the audit file, created if missing, appended to. Required.
	AuditPath string
	// Control is the gateway. Required.
	Control Control
	// Line and EventLine render for the API what the log renders too. Required.
	Line      func(*decision.Decision) api.Decision
	EventLine func(decision.Event) api.Event
	// OnEvent gets an operator_command event for every command, refused ones
	// included. It is the gateway's fan-out to log and metrics and hands the
	// event back to Server.Event, as it does with every event; nil: the server
	// records its own.
	OnEvent func(decision.Event)
	// Metrics serves /metrics; nil: not found.
	Metrics http.Handler
	// Instance names this gateway in sessions.
	Instance string
	// Log gets texts for the operator of the process; nil: discarded.
	Log func(string)
}

// Server serves the operator API. Decision and Event may be called from New on
// and also after Stop.
type Server struct{}

// New checks o and returns a server that does not listen yet.
func New(o Options) (*Server, error) { return &Server{}, nil }

// Start opens the audit file, listens and serves. If it fails nothing is left
// open.
func (s *Server) Start() error { return nil }

// Stop stops listening, ends event streams, waits for commands under way until
// ctx ends, and closes the audit file. It is idempotent.
func (s *Server) Stop(ctx context.Context) error { return nil }

// Addr is the address of the TCP listener, nil without one.
func (s *Server) Addr() net.Addr { return nil }

// Decision records d for /decisions and for streams that ask for decisions. It
// keeps d, which must not change any more, and does not block.
func (s *Server) Decision(d *decision.Decision) {}

// Event records e for /events and its streams. It does not block.
func (s *Server) Event(e decision.Event) {}
