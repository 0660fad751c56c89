package notify

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"failback/gateway/decision"
	"failback/gateway/internal/outbound"
)

// Where is what Event.Notified says of a confirmed delivery. The webhook's own
// address is a secret.
const Where = "webhook"

// IDHeader carries the id of a message, the same in every repetition.
const IDHeader = "Failback-Message-Id"

// What Event.Result says of an escalation.
const (
	resultOK     = "ok"     // delivery was confirmed
	resultFailed = "failed" // it was given up
)

const (
	postTimeout = 10 * time.Second
	// maxEvents is how many events wait for Run; above it the oldest is dropped.
	maxEvents = 1024
)

// Options are what a Notifier needs. The zero value tells nobody.
type Options struct {
	// URL is posted to; nil: there is nobody to tell, and every message ends as
	// an escalation that reached nobody. All of it is a secret.
	URL *url.URL
	// Environment and Instance are repeated in every message.
	Environment, Instance string
	// Dial opens connections; nil: net.Dialer, with proxies of the environment.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Roots are the certificate authorities that are trusted; nil: the system's.
	Roots *x509.CertPool
	// OnEvent is told, from Run, when a person is needed, and when it is sure
	// that somebody was told or was not. nil: nobody is.
	OnEvent func(decision.Event)
}

// Status says whether those who were to be told have been.
type Status struct {
	Configured  bool
	Pending     int       // messages whose delivery is not confirmed yet
	Oldest      time.Time // when the oldest of them was told
	LastOK      time.Time // last confirmation
	LastError   string    // of the last attempt, empty if it was confirmed
	LastErrorAt time.Time
	Lost        uint64 // messages that were given up
}

// target is where messages go, and from where they say to come.
type target struct {
	url         *url.URL // nil: nowhere
	environment string
}

// Notifier posts messages, one at a time. Its methods may be called at once
// from several goroutines.
type Notifier struct {
	o      Options
	client *http.Client
	wake   chan struct{} // tells Run that there is something new

	// mu guards everything that follows.
	mu     sync.Mutex
	to     target
	queue  queue
	events []decision.Event // that Run has not told yet
	status Status
}

// New returns a notifier that posts nothing before Run.
func New(o Options) *Notifier {
	return &Notifier{
		o: o, to: target{o.URL, o.Environment}, wake: make(chan struct{}, 1),
		client: outbound.NewClient(outbound.Options{Dial: o.Dial, Roots: o.Roots}),
	}
}

// Tell takes m in and returns at once. That a person is needed is an event right
// away, of the time of m; where there is nobody to tell, that is all. Of several
// messages of one kind and upstream within a minute the first and the last are
// posted. m.Fields is not changed afterwards.
func (n *Notifier) Tell(m Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.awake()
	now := time.Now()
	p := newPending(m, now)
	n.event(p.event(p.At, decision.NotifiedNone, "", p.Text))
	if n.to.url == nil {
		return
	}
	n.lose(n.queue.add(p, now), now, "too many messages wait: the oldest was given up")
}

// Configure makes u what is posted to from now on, nil nothing, and environment
// what messages say. What waits is tried at another URL at once, or given up
// where there is none any more.
func (n *Notifier) Configure(u *url.URL, environment string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.to.url
	n.to = target{u, environment}
	if outbound.SameURL(before, u) {
		return
	}
	now := time.Now()
	n.status.LastOK, n.status.LastError, n.status.LastErrorAt = time.Time{}, "", time.Time{}
	if u == nil {
		for _, p := range n.queue.clear() {
			n.lose(p, now, "there is no webhook any more")
		}
	}
	for _, p := range n.queue.waiting {
		p.next = now
	}
	n.awake()
}

// Status returns how things stand.
func (n *Notifier) Status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.status
	s.Configured = n.to.url != nil
	for _, p := range n.queue.all() {
		s.Pending++
		if s.Oldest.IsZero() || p.since.Before(s.Oldest) {
			s.Oldest = p.since
		}
	}
	return s
}

// attempt is how one post ended.
type attempt struct {
	p   *pending
	url *url.URL
	err error
}

// Run posts until ctx ends; what is not confirmed then is lost.
func (n *Notifier) Run(ctx context.Context) error {
	ended := make(chan attempt, 1)
	posting := false
	for {
		p, to, wait := n.turn(posting)
		if p != nil {
			posting = true
			go func() { ended <- attempt{p, to.url, n.post(ctx, to, p)} }()
		}
		n.tell()
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			if posting {
				n.settle(<-ended)
			}
			n.stop()
			n.tell()
			return nil
		case a := <-ended:
			posting = false
			n.settle(a)
		case <-timer:
		case <-n.wake:
		}
	}
}

// turn says what to post next, those included whose minute is over, or how long to
// wait.
func (n *Notifier) turn(posting bool) (p *pending, to target, wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for _, p := range n.queue.release(now) {
		n.lose(p, now, "too many messages wait: the oldest was given up")
	}
	p, wait = n.queue.due(now)
	if posting {
		return nil, target{}, wait
	}
	return p, n.to, wait
}

// lose gives p up. It requires mu.
func (n *Notifier) lose(p *pending, now time.Time, why string) {
	if p == nil {
		return
	}
	n.status.Lost++
	n.event(p.event(now, decision.NotifiedNone, resultFailed, why))
}

// event keeps e for Run. It requires mu.
func (n *Notifier) event(e decision.Event) {
	if len(n.events) >= maxEvents {
		n.events = slices.Delete(n.events, 0, 1)
	}
	n.events = append(n.events, e)
}

func (n *Notifier) awake() {
	select {
	case n.wake <- struct{}{}:
	default: // Run will look anyway
	}
}

// tell passes on the events, in order and without a lock.
func (n *Notifier) tell() {
	n.mu.Lock()
	events := n.events
	n.events = nil
	n.mu.Unlock()
	if n.o.OnEvent == nil {
		return
	}
	for _, e := range events {
		n.o.OnEvent(e)
	}
}

// settle takes note of how an attempt ended. One that was confirmed counts even
// where its message was given up meanwhile.
func (n *Notifier) settle(a attempt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	waits := slices.Contains(n.queue.waiting, a.p)
	if a.err == nil {
		n.queue.remove(a.p)
		n.event(a.p.event(now, Where, resultOK, a.p.Text))
		if outbound.SameURL(a.url, n.to.url) {
			n.status.LastOK, n.status.LastError, n.status.LastErrorAt = now, "", time.Time{}
		}
		return
	}
	if errors.Is(a.err, context.Canceled) {
		return // the gateway stops
	}
	if outbound.SameURL(a.url, n.to.url) {
		n.status.LastError, n.status.LastErrorAt = a.err.Error(), now
	}
	switch {
	case !waits:
	case !outbound.SameURL(a.url, n.to.url): // tried at once at the new one
	case a.p.failed(now):
	default:
		n.queue.remove(a.p)
		n.lose(a.p, now, fmt.Sprintf("given up after %d attempts: %s", a.p.failures, a.err))
	}
}

// stop gives up what waits.
func (n *Notifier) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for _, p := range n.queue.clear() {
		n.lose(p, now, "the gateway stopped before the delivery was confirmed")
	}
}

// post makes one attempt. It fails with context.Canceled if ctx ended, else
// with words that may be shown.
func (n *Notifier) post(ctx context.Context, to target, p *pending) error {
	payload, err := p.encode(to.environment, n.o.Instance)
	if err != nil {
		return errors.New("the message cannot be written as JSON")
	}
	limited, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(limited, http.MethodPost, to.url.String(), bytes.NewReader(payload))
	if err != nil {
		return errors.New("notify.webhook is not a URL")
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set(IDHeader, p.id)
	if err = outbound.Confirmed(n.client, q); err != nil && ctx.Err() != nil {
		return context.Canceled
	}
	return err
}
