package store

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	startWait = 10 * time.Second
	// maxMemory bounds what consumers of the server in the process keep in
	// memory; maxStore what all buckets and streams may reserve on disk.
	maxMemory = 32 << 20
	maxStore  = 64 << 30
)

// embedded is a NATS server in the process that can be stopped and started
// again. As nats.InProcessConnProvider it connects to the one that runs.
type embedded struct {
	dir string
	log func(string)
	// broken is told when the server reports that it cannot write.
	broken func(error)

	// mu guards everything that follows.
	mu  sync.Mutex
	srv *server.Server // nil while none runs
}

var errStopped = errors.New("the server in the process is stopped")

// InProcessConn connects to the running server.
func (e *embedded) InProcessConn() (net.Conn, error) {
	e.mu.Lock()
	srv := e.srv
	e.mu.Unlock()
	if srv == nil {
		return nil, errStopped
	}
	return srv.InProcessConn()
}

// start starts a server. None may run. A directory that it would have to mend
// is refused.
func (e *embedded) start() error {
	if err := e.check(); err != nil {
		return err
	}
	l := &serverLog{e: e}
	srv, err := server.NewServer(&server.Options{
		ServerName:             "failback",
		DontListen:             true,
		NoSigs:                 true,
		JetStream:              true,
		StoreDir:               e.dir,
		SyncAlways:             true,
		JetStreamMaxMemory:     maxMemory,
		JetStreamMaxStore:      maxStore,
		DisableJetStreamBanner: true,
		NoSystemAccount:        true,
	})
	if err != nil {
		return err
	}
	srv.SetLoggerV2(l, false, false, false)
	srv.Start()
	switch {
	case l.fatal() != "":
		err = errors.New(l.fatal())
	case !srv.ReadyForConnections(startWait):
		err = fmt.Errorf("not ready after %s", startWait)
	case !srv.JetStreamEnabled():
		err = errors.New("JetStream did not start")
	}
	if err != nil {
		stopServer(srv)
		return err
	}
	e.mu.Lock()
	e.srv = srv
	e.mu.Unlock()
	return nil
}

// check checks the files and remembers how far they go.
func (e *embedded) check() error {
	known, err := readLasts(e.dir)
	if err != nil {
		return err
	}
	found, err := checkFiles(e.dir, known)
	if err != nil {
		return err
	}
	if maps.Equal(found, known) {
		return nil
	}
	if err := writeLasts(e.dir, found); err != nil { // a full disk must not keep the server from reading
		e.log(fmt.Sprintf("store %s: %v", e.dir, err))
	}
	return nil
}

// stop stops the server, if one runs, and waits until it has. It reports
// whether one ran.
func (e *embedded) stop() bool {
	e.mu.Lock()
	srv := e.srv
	e.srv = nil
	e.mu.Unlock()
	if srv == nil {
		return false
	}
	stopServer(srv)
	return true
}

func stopServer(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// serverLog receives what a server says. Notices are dropped.
type serverLog struct {
	e *embedded

	// mu guards everything that follows.
	mu   sync.Mutex
	died string
}

func (l *serverLog) fatal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.died
}

func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}

func (l *serverLog) Warnf(format string, v ...any) { l.say(format, v) }

func (l *serverLog) Errorf(format string, v ...any) { l.say(format, v) }

// Fatalf would end the process in the server's own logger.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.died = fmt.Sprintf(format, v...)
}

// say passes a line on. A server that cannot write answers the writer nothing
// and says so in its log alone.
func (l *serverLog) say(format string, v []any) {
	line := strings.TrimSpace(fmt.Sprintf(format, v...))
	l.e.log("store: " + line)
	if cannotWrite(line) {
		l.e.broken(errors.New(line))
	}
}

func cannotWrite(line string) bool {
	for _, sign := range []string{"critical write error", "disabling JetStream", "will be DISABLED"} {
		if strings.Contains(line, sign) {
			return true
		}
	}
	return false
}
