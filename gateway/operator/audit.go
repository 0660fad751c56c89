package operator

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"failback/gateway/operator/api"
)

const (
	// auditWait is how long a command waits for its line to be on disk before
	// it is refused; lateAuditWait how long an answer waits for the line of
	// what happened already.
	auditWait     = 5 * time.Second
	lateAuditWait = 2 * time.Second
	auditRetry    = 5 * time.Second
	maxPending    = 4096 // entries that wait in memory
	keptEntries   = 1000 // of GET /operator/v1/audit
)

var (
	errAuditSlow   = errors.New("the disk does not answer")
	errAuditFull   = errors.New("too many entries wait for the disk")
	errAuditClosed = errors.New("the gateway is stopping")
)

// auditLog is what an audit writes to. Its methods are called by one goroutine
// at a time.
type auditLog interface {
	// append appends entries in order and returns how many are on disk; fewer
	// than all only with an error.
	append(entries []api.AuditEntry) (int, error)
	close()
	// String names it in messages: "audit file /data/audit.jsonl".
	String() string
}

// audit writes entries to its log in the order they came, several with one
// call. What cannot be written waits in memory and is tried again.
type audit struct {
	to   auditLog
	log  func(string)
	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	// mu guards everything that follows.
	mu     sync.Mutex
	queue  []queued // not yet on disk; the writer takes from its front
	recent []api.AuditEntry
	status api.AuditStatus
	closed bool
}

type queued struct {
	entry api.AuditEntry
	done  chan error // has room for one; nil once answered
}

// openAudit opens path and starts its writer. The entries it returns are the
// newest in the file, oldest first.
func openAudit(path string, log func(string)) (*audit, []api.AuditEntry, error) {
	f, recent, err := openAuditFile(path)
	if err != nil {
		return nil, nil, err
	}
	return startAudit(f, recent, log), recent, nil
}

// startAudit starts the writer of what holds recent.
func startAudit(to auditLog, recent []api.AuditEntry, log func(string)) *audit {
	a := &audit{
		to: to, log: log,
		wake: make(chan struct{}, 1),
		stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	a.recent = append(a.recent, recent[max(0, len(recent)-keptEntries):]...)
	go a.run()
	return a
}

// append writes e and waits until it is on disk, at most wait. After an error
// it is kept and written later, if there is room.
func (a *audit) append(e api.AuditEntry, wait time.Duration) error {
	e.Target = visible(e.Target) // a command has it as it came
	q := queued{entry: e, done: make(chan error, 1)}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return errAuditClosed
	}
	if len(a.queue) >= maxPending {
		a.status.Lost++
		a.mu.Unlock()
		return errAuditFull
	}
	a.queue = append(a.queue, q)
	if len(a.recent) >= 2*keptEntries {
		a.recent = append(a.recent[:0], a.recent[len(a.recent)-keptEntries:]...)
	}
	a.recent = append(a.recent, e)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case err := <-q.done:
		return err
	case <-t.C:
		return errAuditSlow
	}
}

// newest returns the newest entries, newest first, those included that wait in
// memory.
func (a *audit) newest(limit int) ([]api.AuditEntry, api.AuditStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(limit, len(a.recent))
	l := make([]api.AuditEntry, 0, n)
	for i := range n {
		l = append(l, a.recent[len(a.recent)-1-i])
	}
	return l, a.statusNow()
}

func (a *audit) stat() api.AuditStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.statusNow()
}

// statusNow requires mu.
func (a *audit) statusNow() api.AuditStatus {
	s := a.status
	s.Pending = len(a.queue)
	return s
}

// close writes what waits, once more, and closes the file. It waits for the
// writer, at most auditWait.
func (a *audit) close() error {
	a.mu.Lock()
	was := a.closed
	a.closed = true
	a.mu.Unlock()
	if !was {
		close(a.stop)
	}
	t := time.NewTimer(auditWait)
	defer t.Stop()
	select {
	case <-a.done:
	case <-t.C:
	}
	if s := a.stat(); s.Pending > 0 {
		return fmt.Errorf("%s: %d entries could not be written: %s", a.to, s.Pending, s.Error)
	}
	return nil
}

// run is the writer.
func (a *audit) run() {
	defer close(a.done)
	defer a.to.close()
	retry := time.NewTicker(auditRetry)
	defer retry.Stop()
	for {
		select {
		case <-a.wake:
		case <-retry.C:
		case <-a.stop:
			a.flush()
			return
		}
		a.flush()
	}
}

// flush writes what is queued.
func (a *audit) flush() {
	a.mu.Lock()
	n := len(a.queue)
	if n == 0 {
		a.mu.Unlock()
		return
	}
	entries := make([]api.AuditEntry, n)
	for i, q := range a.queue {
		entries[i] = q.entry
	}
	a.mu.Unlock()

	written, err := a.to.append(entries)

	a.mu.Lock()
	batch := a.queue[:n]
	var news string
	if err != nil {
		if a.status.Error == "" {
			news = fmt.Sprintf("the %s cannot be written: %v: until it can, only %s work", a.to, err, safeSideNames)
		}
		a.status.Error = err.Error()
	} else if a.status.Error != "" {
		news = fmt.Sprintf("the %s is written again", a.to)
		a.status.Error = ""
	}
	for i := range batch {
		if batch[i].done != nil {
			if i < written {
				batch[i].done <- nil
			} else {
				batch[i].done <- err
			}
			batch[i].done = nil
		}
	}
	a.queue = append([]queued(nil), a.queue[written:]...)
	a.mu.Unlock()
	if news != "" {
		a.log(news)
	}
}

// newCommandID returns a random id that ties the entries of a command together.
func newCommandID() string { return rand.Text()[:13] }
