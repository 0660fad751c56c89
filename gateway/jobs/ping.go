package jobs

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"failback/gateway/internal/outbound"
)

// Bounds of a ping.
const (
	pingEvery   = time.Minute
	pingTimeout = 10 * time.Second
)

// PingOptions are what a Pinger needs.
type PingOptions struct {
	// Board is whose jobs must be in time. Required.
	Board *Board
	// URL is asked for; nil: nobody is pinged. All of it is a secret.
	URL *url.URL
	// Dial opens connections; nil: net.Dialer, with proxies of the environment.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Roots are the certificate authorities that are trusted; nil: the system's.
	Roots *x509.CertPool
}

// PingStatus says whether the dead man's switch is being held.
type PingStatus struct {
	Configured bool
	// Held says why no ping is sent: the jobs that are late. Empty if it is sent.
	Held        string
	LastOK      time.Time // last ping that was confirmed by a 2xx
	LastError   string    // of the last ping, empty if it was confirmed
	LastErrorAt time.Time
}

// Pinger asks for a URL once a minute while all jobs are in time. One ping is
// as good as the next, so none is repeated. Its methods may be called at once
// from several goroutines.
type Pinger struct {
	board  *Board
	client *http.Client
	wake   chan struct{} // tells Run of a new URL

	// mu guards everything that follows.
	mu     sync.Mutex
	url    *url.URL
	status PingStatus
}

// NewPinger returns a pinger that pings nobody before Run.
func NewPinger(o PingOptions) *Pinger {
	return &Pinger{
		board: o.Board, url: o.URL, wake: make(chan struct{}, 1),
		client: outbound.NewClient(outbound.Options{Dial: o.Dial, Roots: o.Roots}),
	}
}

// Configure makes u what is asked for from now on, nil nothing. What is known
// of another URL is forgotten.
func (p *Pinger) Configure(u *url.URL) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if outbound.SameURL(p.url, u) {
		return
	}
	p.url, p.status = u, PingStatus{}
	select {
	case p.wake <- struct{}{}:
	default: // Run will look anyway
	}
}

// Status returns what is known of the pings.
func (p *Pinger) Status() PingStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.Configured = p.url != nil
	return s
}

// Run pings until ctx ends.
func (p *Pinger) Run(ctx context.Context) error {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		p.turn(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-tick.C:
		}
	}
}

// turn pings once, unless a job is late.
func (p *Pinger) turn(ctx context.Context) {
	p.mu.Lock()
	u := p.url
	p.mu.Unlock()
	if u == nil {
		return
	}
	held := ""
	if names := p.board.Late(); len(names) > 0 {
		held = "late: " + strings.Join(names, ", ")
	}
	var err error
	if held == "" {
		err = p.ping(ctx, u)
	}
	if ctx.Err() != nil {
		return // the gateway stops: that says nothing of the other side
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !outbound.SameURL(p.url, u) {
		return // it was about another URL
	}
	p.status.Held = held
	switch {
	case held != "":
	case err != nil:
		p.status.LastError, p.status.LastErrorAt = err.Error(), time.Now()
	default:
		p.status.LastOK, p.status.LastError = time.Now(), ""
	}
}

func (p *Pinger) ping(ctx context.Context, u *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return errors.New("jobs.ping is not a URL")
	}
	return outbound.Confirmed(p.client, q)
}
