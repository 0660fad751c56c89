package dependency

import (
	"context"
	"crypto/x509"
	"net"
	"sync"
	"time"
)

// Options are what a Runner needs. The zero value checks nothing.
type Options struct {
	Checks []Check
	// Dial opens connections; nil: net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolver looks names up; nil: net.DefaultResolver.
	Resolver interface {
		LookupHost(ctx context.Context, host string) ([]string, error)
	}
	// Roots are the certificate authorities that are trusted; nil: the system's.
	Roots *x509.CertPool
	// Margin returns how long before its end a certificate counts as failed
	// (health.expiry_margin); nil: only one that has ended does. It may be called
	// at any time, so that a reload takes effect.
	Margin func() time.Duration
	// OnResult is told of every check that was made, one at a time, from Run. It
	// must not wait for Configure or for the end of Run. nil: nobody is.
	OnResult func(Result)
}

func (o Options) margin() time.Duration {
	if o.Margin == nil {
		return 0
	}
	return o.Margin()
}

// Runner makes the checks, each at its own pace: one that hangs delays no
// other. Its methods may be called at once from several goroutines.
type Runner struct {
	checker *checker

	// telling keeps calls of OnResult apart.
	telling sync.Mutex

	// mu guards everything that follows.
	mu      sync.Mutex
	watches []*watch        // in the order of the configuration
	run     context.Context // of Run, nil while it does not
	running sync.WaitGroup  // the loops of watches
}

// watch is one check with what it found.
type watch struct {
	check Check
	files stats // used by the loop alone

	result Result             // guarded by Runner.mu
	stop   context.CancelFunc // ends the loop; nil while there is none; guarded by Runner.mu
}

// New returns a runner of o.Checks. It checks nothing before Run.
func New(o Options) *Runner {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	r := &Runner{checker: newChecker(o)}
	r.Configure(o.Checks)
	return r
}

// Configure makes checks the ones there are. What is checked as before keeps
// its result and its pace; what is new or changed begins as unknown and is
// checked at once. Of checks with the same name the first counts.
func (r *Runner) Configure(checks []Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := make(map[string]*watch, len(r.watches))
	for _, w := range r.watches {
		before[w.check.Name] = w
	}
	seen := make(map[string]bool, len(checks))
	var after []*watch
	for _, c := range checks {
		if seen[c.Name] {
			continue
		}
		seen[c.Name] = true
		if w := before[c.Name]; w != nil && w.check == c {
			delete(before, c.Name)
			after = append(after, w)
			continue
		}
		w := &watch{check: c, result: Result{Name: c.Name, Domain: c.Domain, Kind: c.Kind, State: Unknown}}
		r.start(w)
		after = append(after, w)
	}
	for _, w := range before {
		if w.stop != nil {
			w.stop()
		}
	}
	r.watches = after
}

// start begins the loop of w if Run runs. It requires mu.
func (r *Runner) start(w *watch) {
	if r.run == nil {
		return
	}
	ctx, cancel := context.WithCancel(r.run)
	w.stop = cancel
	r.running.Go(func() { r.loop(ctx, w) })
}

// Run makes the checks until ctx ends, and returns when none is under way. It
// may be called again afterwards, but not twice at once.
func (r *Runner) Run(ctx context.Context) error {
	r.mu.Lock()
	r.run = ctx
	for _, w := range r.watches {
		r.start(w)
	}
	r.mu.Unlock()

	<-ctx.Done()

	r.mu.Lock()
	r.run = nil
	for _, w := range r.watches {
		w.stop()
		w.stop = nil
	}
	r.mu.Unlock()
	r.running.Wait()
	return nil
}

// Snapshot returns what is known of each dependency, in the order of the
// configuration.
func (r *Runner) Snapshot() []Result {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Result, 0, len(r.watches))
	for _, w := range r.watches {
		out = append(out, w.result.as(now, w.check.every()))
	}
	return out
}

// loop checks until ctx ends.
func (r *Runner) loop(ctx context.Context, w *watch) {
	for {
		began := time.Now()
		result, ok := r.note(ctx, w, r.checker.check(ctx, w.check, &w.files))
		if !ok {
			return
		}
		r.tell(result)
		wait := time.NewTimer(w.check.pause(result.State) - time.Since(began))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// note keeps what a check found, unless it was broken off: then it says nothing
// of the dependency.
func (r *Runner) note(ctx context.Context, w *watch, f finding) (Result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return Result{}, false
	}
	w.result = w.result.after(f, time.Now())
	return w.result, true
}

func (r *Runner) tell(result Result) {
	if r.checker.o.OnResult == nil {
		return
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	r.checker.o.OnResult(result)
}
