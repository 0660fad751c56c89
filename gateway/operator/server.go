package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// Constant limits of the server. They guard the process, whose clients matter
// more than its operators, and bind no sensible use.
const (
	maxBody         = 64 << 10 // bytes of a command
	maxHeader       = 16 << 10
	headerTimeout   = 10 * time.Second
	bodyTimeout     = 10 * time.Second
	idleTimeout     = 2 * time.Minute
	maxTCPConns     = 256
	maxStreams      = 64 // of which TCP may hold maxTCPStreams, so that it cannot shut out the socket
	maxTCPStreams   = 48
	answerTimeout   = 30 * time.Second // for the reader of an answer
	commandTimeout  = time.Minute      // a reload may run commands that print secrets
	maxNameLength   = 256
	maxReasonLength = 1000
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
	// AuditPath is the audit file, created if missing, appended to, unless
	// KeepAuditIn says otherwise. Required.
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
	// Kept is what serves api.PrometheusPath or api.LokiPath and what is below,
	// nil where nothing is kept; nil: nothing is.
	Kept func(path string) http.Handler
	// Instance names this gateway in sessions.
	Instance string
	// Log gets texts for the operator of the process; nil: discarded. It is
	// called concurrently and must not block.
	Log func(string)
}

// Server serves the operator API. Decision and Event may be called from New on
// and also after Stop.
type Server struct {
	o         Options
	auditIn   AuditStore // nil: the file
	pace      pace
	handler   http.Handler
	events    *events
	decisions *decisions
	sessions  sessions
	people    people
	writes    writes
	streams   streamCount
	anonymous limiter // refusals of callers without a valid token, on their way to the audit
	noise     limiter // texts of net/http on their way to Log

	ctx     context.Context // of commands; ends when Stop gives up waiting
	cancel  context.CancelFunc
	closing chan struct{} // closed when Stop begins: ends streams
	stopped chan struct{} // closed when Stop is done
	serving sync.WaitGroup

	commands sync.WaitGroup // under way; added to while state is stateServing only

	// mu guards everything that follows.
	mu      sync.Mutex
	state   serverState
	audit   *audit // nil until Start
	http    *http.Server
	socket  *socket
	claimed bool // by Claim, whose caller releases the socket
	tcp     net.Listener
	stopErr error
}

type serverState uint8

const (
	stateNew serverState = iota
	stateServing
	stateStopped
)

// New checks o and returns a server that does not listen yet.
func New(o Options) (*Server, error) {
	switch {
	case o.Control == nil:
		return nil, errors.New("operator: no Control")
	case o.AuditPath == "":
		return nil, errors.New("operator: no AuditPath")
	case o.Line == nil || o.EventLine == nil:
		return nil, errors.New("operator: Line and EventLine are needed")
	}
	if o.Tokens == nil {
		o.Tokens = func() []Token { return nil }
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	s := &Server{
		o:         o,
		pace:      pace{heartbeat: heartbeat, writeTimeout: writeTimeout, answerTimeout: answerTimeout, decisionTick: decisionTick},
		events:    newEvents(time.Now()),
		decisions: newDecisions(),
		anonymous: limiter{burst: 10, every: 10 * time.Second},
		noise:     limiter{burst: 5, every: 10 * time.Second},
		closing:   make(chan struct{}),
		stopped:   make(chan struct{}),
	}
	if s.o.OnEvent == nil {
		s.o.OnEvent = s.Event
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.handler = s.routes()
	return s, nil
}

// KeepAuditIn has the audit kept in a and not in the file: what the file holds
// is imported once, and the file renamed. It is for before Start.
func (s *Server) KeepAuditIn(a AuditStore) { s.auditIn = a }

// Claim takes the socket, so that no other gateway uses this data_dir, without
// serving on it yet: whoever connects waits for Start. After Stop, and after all
// else that writes there has ended, the caller releases it. Without Claim, Start
// takes the socket and Stop releases it.
func (s *Server) Claim() (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateNew {
		return nil, errors.New("operator: already started")
	}
	if s.o.Socket == "" {
		return func() {}, nil
	}
	if s.socket, err = listenSocket(s.o.Socket); err != nil {
		return nil, err
	}
	s.claimed = true
	return func() {
		s.socket.close()
		s.socket.unlock()
	}, nil
}

// Start opens the audit, listens and serves. If it fails nothing is left
// open, and the server cannot be started again.
func (s *Server) Start() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateNew {
		return errors.New("operator: already started")
	}
	s.state = stateStopped
	defer func() {
		if err != nil {
			s.closeAll()
			close(s.stopped)
		}
	}()
	// The socket comes first: its lock makes sure that no other gateway writes
	// the audit file of this data_dir.
	if s.o.Socket != "" && !s.claimed {
		if s.socket, err = listenSocket(s.o.Socket); err != nil {
			return err
		}
	}
	var recent []api.AuditEntry
	if s.audit, recent, err = s.openAudit(); err != nil {
		return err
	}
	s.writes.load(recent, s.o.EventLine)
	if s.o.Listen != "" {
		l, err := net.Listen("tcp", s.o.Listen)
		if err != nil {
			return fmt.Errorf("operator.listen %s: %w", s.o.Listen, err)
		}
		s.tcp = l
		if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && s.o.TLS == nil {
			s.o.Log(fmt.Sprintf("operator.listen %s has no TLS: from other hosts only /metrics and /healthz are served on it", s.o.Listen))
		}
	}
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       connContext,
		ErrorLog:          log.New(logWriter{s}, "", 0),
	}
	serve := func(name string, l net.Listener) {
		s.serving.Go(func() {
			if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.o.Log(fmt.Sprintf("operator API: %s is served no longer: %v", name, err))
			}
		})
	}
	if s.socket != nil {
		serve(s.o.Socket, s.socket.Listener)
	}
	if s.tcp != nil {
		l := newLimitListener(s.tcp, maxTCPConns)
		if s.o.TLS != nil {
			c := s.o.TLS.Clone()
			if c.NextProtos == nil {
				c.NextProtos = []string{"h2", "http/1.1"}
			}
			l = tls.NewListener(l, c)
		}
		serve(s.o.Listen, l)
	}
	s.state = stateServing
	return nil
}

// Stop stops listening, ends event streams, waits for commands under way until
// ctx ends, and closes the audit. It is idempotent.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	was := s.state
	s.state = stateStopped
	s.mu.Unlock()
	switch was {
	case stateNew:
		s.cancel()
		close(s.stopped)
		return nil
	case stateStopped:
		select {
		case <-s.stopped:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.stopErr
	}
	close(s.closing)
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("operator API: commands were still under way: %w", err)
		s.cancel()
		_ = s.http.Close()
		s.awaitCommands()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = errors.Join(err, s.closeAll())
	s.stopErr = err
	close(s.stopped)
	return err
}

// begin notes that a command is under way, until end; false if the server is
// stopping.
func (s *Server) begin() (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateServing {
		return nil, false
	}
	s.commands.Add(1)
	return s.commands.Done, true
}

// awaitCommands gives commands that were told to end the time to do so, so
// that their results are in the audit.
func (s *Server) awaitCommands() {
	ended := make(chan struct{})
	go func() {
		s.commands.Wait()
		close(ended)
	}()
	t := time.NewTimer(lateAuditWait)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	}
}

// closeAll closes what is open. It requires mu.
func (s *Server) closeAll() (err error) {
	s.cancel()
	if s.socket != nil {
		s.socket.close()
	}
	if s.tcp != nil {
		_ = s.tcp.Close()
	}
	s.serving.Wait()
	if s.audit != nil {
		err = s.audit.close()
	}
	if s.socket != nil && !s.claimed {
		s.socket.unlock()
	}
	return err
}

// Addr is the address of the TCP listener, with the port the system chose for
// port 0; empty without one.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tcp == nil {
		return ""
	}
	return s.tcp.Addr().String()
}

// Decision records d for /decisions and for streams that ask for decisions. It
// copies d but keeps its slices, which must not change any more, and does not
// block.
func (s *Server) Decision(d *decision.Decision) { s.decisions.add(d, time.Now()) }

// Event records e for /events and its streams. It does not block.
func (s *Server) Event(e decision.Event) {
	a := s.o.EventLine(e)
	if a.Time.IsZero() {
		a.Time = time.Now()
	}
	s.events.add(a)
}

// logWriter hands the texts of net/http to Log, not more than a few: they come
// from whoever connects.
type logWriter struct{ s *Server }

func (w logWriter) Write(p []byte) (int, error) {
	if n, ok := w.s.noise.allow(time.Now()); ok {
		text := "operator API: " + strings.TrimSpace(string(p))
		if n > 0 {
			text += fmt.Sprintf(" (%d such texts left out before)", n)
		}
		w.s.o.Log(text)
	}
	return len(p), nil
}

// limiter lets a burst through and then one every so often. Its zero counters
// are full.
type limiter struct {
	burst int
	every time.Duration

	// mu guards everything that follows.
	mu      sync.Mutex
	used    float64
	last    time.Time
	skipped int
}

// allow reports whether one more may pass, and how many did not since the last
// one that did.
func (l *limiter) allow(now time.Time) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = max(0, l.used-float64(now.Sub(l.last))/float64(l.every))
	l.last = now
	if l.used+1 > float64(l.burst) {
		l.skipped++
		return 0, false
	}
	l.used++
	skipped, l.skipped = l.skipped, 0
	return skipped, true
}
