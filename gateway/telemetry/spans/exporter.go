package spans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

const (
	queueRoom  = 2048 // decisions that wait for the collector
	batchRoom  = 256  // decisions sent together
	batchEvery = time.Second
	// tryTime bounds one exchange with the collector, retryTime all about one
	// batch, flushTime what is still sent at the end.
	tryTime    = 10 * time.Second
	retryTime  = 30 * time.Second
	flushTime  = 3 * time.Second
	pauseFirst = 500 * time.Millisecond
	pauseMost  = 5 * time.Second
)

// Protocols.
const (
	HTTP = "http"
	GRPC = "grpc"
)

// Options say where spans go.
type Options struct {
	// Endpoint is the collector's URL, http or https. With HTTP its path is
	// followed by /v1/traces, if it does not end so.
	Endpoint *url.URL
	Protocol string // HTTP or GRPC
	// Version, Instance and Environment describe the gateway; empty ones are
	// left out. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over them.
	Version, Instance, Environment string

	// tryTime, retryTime and batchEvery stand in for the constants; 0 does not.
	tryTime, retryTime, batchEvery time.Duration
	queueRoom                      int
}

// Exporter renders decisions and sends them, in one goroutine, from a queue that
// never keeps a request waiting. Its methods may be called from any goroutine.
type Exporter struct {
	o        Options
	version  string
	resource *resourcepb.Resource
	sender   sender
	queue    chan *decision.Decision
	crowded  chan struct{} // a batch is full: send it now
	closing  chan struct{} // Stop was called: send what is queued and end
	done     chan struct{}
	once     sync.Once
	ctx      context.Context // of everything that is sent
	cancel   context.CancelFunc
	// notBefore is until when the collector asks to be left alone. It belongs to
	// run.
	notBefore time.Time
	// lastCall is when Stop waits no longer; set before closing is closed.
	lastCall time.Time

	exported, dropped atomic.Uint64

	mu      sync.Mutex // guards everything that follows
	lastOK  time.Time
	problem string
	since   time.Time // when the problem was last seen
}

// New begins to export. It connects to nobody before there is something to send;
// an error says what about the options, or the environment, is wrong. The caller
// ends the exporter with Stop.
func New(ctx context.Context, o Options) (*Exporter, error) {
	silence()
	o.tryTime, o.retryTime = cmp.Or(o.tryTime, tryTime), cmp.Or(o.retryTime, retryTime)
	o.batchEvery, o.queueRoom = cmp.Or(o.batchEvery, batchEvery), cmp.Or(o.queueRoom, queueRoom)
	s, err := newSender(ctx, &o)
	if err != nil {
		return nil, err
	}
	return begin(ctx, o, s), nil
}

// begin exports to s; o has no zero values left.
func begin(ctx context.Context, o Options, s sender) *Exporter {
	e := &Exporter{
		o: o, version: o.Version, resource: resource(ctx, &o), sender: s,
		queue: make(chan *decision.Decision, o.queueRoom), crowded: make(chan struct{}, 1),
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	go e.run()
	return e
}

// Observe exports d, which must not be changed any more, if it is sampled. It
// never blocks: without room d is dropped and counted.
func (e *Exporter) Observe(d *decision.Decision) {
	if !d.Sampled || d.Span.IsZero() {
		return
	}
	select {
	case <-e.closing:
		e.drop(d)
		return
	default:
	}
	select {
	case e.queue <- d:
	default:
		e.drop(d)
		return
	}
	if len(e.queue) >= batchRoom { // not only at it: others observe beside this
		select {
		case e.crowded <- struct{}{}:
		default:
		}
	}
}

func (e *Exporter) drop(d *decision.Decision) { e.dropped.Add(uint64(count(d))) }

// Stats says how the export is doing.
func (e *Exporter) Stats() api.Traces {
	e.mu.Lock()
	defer e.mu.Unlock()
	return api.Traces{
		Configured: true, Exported: e.exported.Load(), Dropped: e.dropped.Load(),
		LastOK: e.lastOK, Error: e.problem, ErrorAt: e.since,
	}
}

// Stop sends what is queued, at most until ctx ends or for 3 s, and ends. What
// comes later is dropped. An error says how many spans were lost thereby.
func (e *Exporter) Stop(ctx context.Context) error {
	before := e.dropped.Load()
	e.once.Do(func() {
		ctx, enough := context.WithTimeout(ctx, flushTime)
		defer enough()
		e.lastCall, _ = ctx.Deadline()
		close(e.closing)
		select {
		case <-e.done:
		case <-ctx.Done():
			e.cancel()
			<-e.done
		}
		e.cancel()
		e.sender.close()
		for len(e.queue) > 0 {
			e.drop(<-e.queue) // observed while Stop began
		}
	})
	<-e.done
	if n := e.dropped.Load() - before; n > 0 {
		return fmt.Errorf("traces: %d spans were lost at the end: %s", n, e.Stats().Error)
	}
	return nil
}

// run is the sender's goroutine.
func (e *Exporter) run() {
	defer close(e.done)
	batch := make([]*decision.Decision, 0, batchRoom)
	for {
		if !e.awaitTurn() {
			for len(e.queue) > 0 {
				e.drop(<-e.queue)
			}
			return
		}
		batch = e.gather(batch[:0])
		if len(batch) == 0 {
			return
		}
		e.export(batch)
		clear(batch) // whoever waits for the next one keeps no decisions
	}
}

// awaitTurn waits as long as the collector asked for; spans wait in the queue
// meanwhile. It reports false if that is not over before Stop's time is.
func (e *Exporter) awaitTurn() bool {
	closing := e.closing
	turn := time.NewTimer(time.Until(e.notBefore))
	defer turn.Stop()
	for {
		select {
		case <-turn.C:
			return true
		case <-closing:
			closing = nil
			if e.lastCall.Before(e.notBefore) {
				return false
			}
		case <-e.ctx.Done():
			return false
		}
	}
}

// gather waits for decisions and a while for more. It returns none after Stop.
func (e *Exporter) gather(batch []*decision.Decision) []*decision.Decision {
	select {
	case d := <-e.queue:
		batch = append(batch, d)
	case <-e.closing:
	}
	if len(e.queue) < batchRoom {
		more := time.NewTimer(e.o.batchEvery)
		defer more.Stop()
		select {
		case <-more.C:
		case <-e.crowded:
		case <-e.closing:
		}
	}
	for len(batch) < batchRoom {
		select {
		case d := <-e.queue:
			batch = append(batch, d)
		default:
			return batch
		}
	}
	return batch
}

// export sends batch, and again where that may help.
func (e *Exporter) export(batch []*decision.Decision) {
	var list []*tracepb.Span
	for _, d := range batch {
		list = render(list, d)
	}
	n := uint64(len(list))
	upload := []*tracepb.ResourceSpans{{
		Resource: e.resource,
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: "failback", Version: e.version}, Spans: list,
		}},
	}}
	began, pause := time.Now(), pauseFirst
	for {
		ctx, cancel := context.WithTimeout(e.ctx, e.o.tryTime)
		err := e.sender.send(ctx, upload)
		cancel()
		var f *failure
		switch {
		case err == nil:
			e.sent(n, 0, "")
			return
		case errors.As(err, &f) && f.rejected > 0:
			e.sent(n, min(f.rejected, n), f.text)
			return
		}
		e.failed(f)
		wait, rest := pause, e.rest
		if f.after > 0 {
			wait = max(pause, f.after)
			e.notBefore, rest = time.Now().Add(wait), func(time.Duration) bool { return e.awaitTurn() }
		}
		if !f.again || time.Since(began)+wait > e.o.retryTime || !rest(wait) {
			e.dropped.Add(n)
			return
		}
		pause = min(2*pause, pauseMost)
	}
}

// rest waits before the next attempt. It reports false when there must be none.
func (e *Exporter) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-e.closing:
		return false
	}
}

// sent notes that the collector took n spans but for those it rejected.
func (e *Exporter) sent(n, rejected uint64, problem string) {
	e.exported.Add(n - rejected)
	e.dropped.Add(rejected)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastOK, e.problem = time.Now(), problem
	if problem != "" {
		e.since = e.lastOK
	} else {
		e.since = time.Time{}
	}
}

func (e *Exporter) failed(f *failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.problem, e.since = f.text, time.Now()
}
