package store

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
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

// start starts a server. None may run.
func (e *embedded) start() error {
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

// stop stops the server, if one runs, and waits until it has.
func (e *embedded) stop() {
	e.mu.Lock()
	srv := e.srv
	e.srv = nil
	e.mu.Unlock()
	if srv != nil {
		stopServer(srv)
	}
}

func stopServer(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// streams returns the names of the streams that the directory holds, before a
// server reads them.
func (e *embedded) streams() ([]string, error) {
	dirs, err := os.ReadDir(filepath.Join(e.dir, server.JetStreamStoreDir, "$G", "streams"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range dirs {
		if d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, d.Name())
		}
	}
	return names, nil
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
