package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"failback/gateway/decision"
)

// Options says what Start builds.
type Options struct {
	// Script is played by Play; empty: Outage.
	Script Script
	// Dir is the data directory of the demo's gateway.
	Dir string
	// Listen is where the gateway will accept clients. Empty: 127.0.0.1:8080
	// if it is free, else a free port of 127.0.0.1.
	Listen string
	// Rate is the traffic in requests a second; 0: 20.
	Rate float64
	// Latency of the fakes.
	Latency Latency
	// Seed makes a demo repeatable as far as timing allows.
	Seed uint64
}

// Demo is the surroundings of one gateway: upstreams, clients and a script. Its
// methods may be called from any goroutine.
type Demo struct {
	opts    Options
	stages  []stage
	addrs   Addrs
	fakes   []*Fake
	traffic *Traffic
	closing context.Context
	close   context.CancelFunc

	mu sync.Mutex // guards everything that follows

	began   time.Time // zero until Play
	closed  bool
	playing sync.WaitGroup // Add only while !closed
}

// Start starts the fake upstreams. They serve until Close, also after ctx's
// end stopped Play; ctx bounds the start alone.
func Start(ctx context.Context, o Options) (*Demo, error) {
	if o.Script == "" {
		o.Script = Outage
	}
	if !slices.Contains(Scripts, o.Script) {
		return nil, fmt.Errorf("no script %q: there is %s and %s", o.Script, Outage, Quiet)
	}
	d := &Demo{opts: o, stages: o.Script.stages()}
	for _, f := range []FakeOptions{
		{Name: East, Dialect: decision.Anthropic, Key: keyEast, Models: []string{upstreamSonnet}},
		{Name: West, Dialect: decision.Anthropic, Key: keyWest, Models: []string{upstreamSonnet}},
		{Name: OpenAI, Dialect: decision.OpenAI, Key: keyOpenAI, Models: []string{upstreamGPT, upstreamEmbed}},
	} {
		f.Latency, f.Seed = o.Latency, o.Seed
		k, err := StartFake(f)
		if err != nil {
			return nil, errors.Join(err, d.closeFakes())
		}
		d.fakes = append(d.fakes, k)
	}
	listen, err := choose(ctx, o.Listen)
	if err != nil {
		return nil, errors.Join(err, d.closeFakes())
	}
	d.addrs = Addrs{Listen: listen, East: d.Fake(East).BaseURL(), West: d.Fake(West).BaseURL(), OpenAI: d.Fake(OpenAI).BaseURL()}
	d.traffic = &Traffic{Rate: o.Rate, Seed: o.Seed}
	d.closing, d.close = context.WithCancel(context.Background())
	return d, nil
}

// choose finds where a gateway can listen. Another process may still take a
// port between this and the gateway's start, which then says so.
func choose(ctx context.Context, listen string) (string, error) {
	if listen != "" {
		return listen, nil
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:8080")
	if err != nil {
		ln, err = lc.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return "", fmt.Errorf("find a port for the gateway: %w", err)
	}
	addr := ln.Addr().String()
	return addr, ln.Close()
}

// Fakes returns the upstreams in the configuration's order.
func (d *Demo) Fakes() []*Fake { return slices.Clone(d.fakes) }

// Fake returns the upstream of that name, nil if there is none.
func (d *Demo) Fake(name string) *Fake {
	for _, f := range d.fakes {
		if f.Name() == name {
			return f
		}
	}
	return nil
}

// Addrs returns the addresses chosen at the start.
func (d *Demo) Addrs() Addrs { return d.addrs }

// GatewayURL is where clients reach a gateway with this demo's configuration.
func (d *Demo) GatewayURL() string { return "http://" + d.addrs.Listen }

// Config returns the configuration of a gateway for this demo.
func (d *Demo) Config() []byte { return ConfigYAML(d.opts.Dir, d.addrs) }

// Stats returns what the clients saw so far.
func (d *Demo) Stats() TrafficStats { return d.traffic.Stats() }

// Play plays script and traffic against the gateway at gatewayURL until ctx
// ends or Close is called, and returns once all of it has stopped. The script
// begins with the call. A Demo plays once.
func (d *Demo) Play(ctx context.Context, gatewayURL string) error {
	d.mu.Lock()
	switch {
	case d.closed:
		d.mu.Unlock()
		return errors.New("demo is closed")
	case !d.began.IsZero():
		d.mu.Unlock()
		return errors.New("demo has already been played: start another one")
	}
	d.began = time.Now()
	d.playing.Add(1)
	d.mu.Unlock()
	defer d.playing.Done()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.closing, cancel)()

	d.traffic.URL = gatewayURL
	var parts sync.WaitGroup
	parts.Go(func() { d.traffic.Run(ctx) })
	parts.Go(func() { run(ctx, d.stages, d.Fake(East).SetFault) })
	parts.Wait()
	d.Fake(East).SetFault(Fault{})
	return nil
}

// Phase says in one line where the script is and what to look at or do where
// things stand so, for people.
func (d *Demo) Phase(now Standing) string {
	d.mu.Lock()
	began := d.began
	d.mu.Unlock()
	if began.IsZero() {
		return "starting"
	}
	st, left := at(d.stages, time.Since(began))
	return st.phase(left, now)
}

// Close stops Play and the upstreams and waits for both.
func (d *Demo) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.close()
	d.playing.Wait()
	return d.closeFakes()
}

func (d *Demo) closeFakes() error {
	var errs []error
	for _, f := range d.fakes {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
