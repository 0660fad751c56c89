package ui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/term"

	"failback/gateway/operator/api"
	"failback/runbooks"
	"failback/sources"
)

const logFile = "console.log"

// Options says what console to run. Client is required; the zero value of
// everything else is usable.
type Options struct {
	// Client asks the gateway; an *api.Client, which is told of the operator's
	// keys and takes leave at the end. The console closes nothing.
	Client sources.API
	// Connect returns what to ask for numbers and log lines, once the gateway has
	// said where they are; as sources.Connect. It does no I/O; nil: there are none.
	Connect func(api.Sources) (sources.Metrics, sources.Logs, error)
	// TokenFile is the file that the client's token is from, to be named where
	// the gateway does not accept it; empty: there is none.
	TokenFile string
	// ReadOnly makes arming impossible.
	ReadOnly bool
	// Started says that this console's program started the gateway: leaving
	// asks whether to stop it.
	Started bool
	// Demo ends everything with the console: nothing is asked, and Stop is
	// called on every way out.
	Demo bool
	// Stop stops the gateway. It is called after the terminal is restored, if the
	// operator said so or Demo is set, with a context that ends with Run's; nil:
	// nothing is stopped.
	Stop func(context.Context) error
	// ASCII draws with ASCII alone. It is set by itself where the locale is not UTF-8.
	ASCII bool
	// DataDir takes the console's log, copies and crash files; empty: a
	// directory of the user's own.
	DataDir string
	// Report writes an incident as a document, to be copied; nil: what the screen
	// shows is copied. It does no I/O.
	Report func(api.Incident) string
	// Runbooks extend the program's own, or take the place of those with their ids.
	Runbooks runbooks.Extra
	// Version is that of the program, for the log and crash files.
	Version string

	// Input and Output are the terminal; nil: standard input and output.
	Input, Output *os.File
	// Environ is the environment; nil: os.Environ.
	Environ []string

	noColour bool // from NO_COLOR
}

// ErrNoTerminal says that there is no terminal to run a console on. Its text
// names what to use instead.
var ErrNoTerminal = errors.New("the console needs a terminal on standard input and output: use failback status, or failback status --json")

// CrashError says that the console panicked. The terminal is restored, and
// File holds what is known of it, if it could be written.
type CrashError struct {
	What string
	File string
}

func (e *CrashError) Error() string {
	s := "the console crashed: " + e.What + "; the gateway is another process and serves on"
	if e.File != "" {
		s += "; details are in " + e.File
	}
	return s
}

// Run runs a console until the operator leaves it, ctx ends, the terminal goes
// away or a signal ends it; all of these return nil. It returns ErrNoTerminal
// at once without a terminal, a *CrashError after a panic, and what Stop
// returns. Whatever the end, the terminal is as it was before.
func Run(ctx context.Context, o Options) error {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.Input == nil {
		o.Input = os.Stdin
	}
	if o.Output == nil {
		o.Output = os.Stdout
	}
	if err := checkTerminal(o); err != nil {
		return errors.Join(err, stopDemo(ctx, o))
	}
	o.noColour = environ(o.Environ, "NO_COLOR") != ""
	o.ASCII = o.ASCII || !utf8Locale(o.Environ)
	if o.DataDir == "" {
		o.DataDir = ownDir()
	}
	stop, err := run(ctx, o)
	if (stop || o.Demo) && o.Stop != nil {
		err = errors.Join(err, o.Stop(ctx))
	}
	return err
}

func stopDemo(ctx context.Context, o Options) error {
	if o.Demo && o.Stop != nil {
		return o.Stop(ctx)
	}
	return nil
}

func checkTerminal(o Options) error {
	switch t := environ(o.Environ, "TERM"); {
	case !term.IsTerminal(o.Input.Fd()) || !term.IsTerminal(o.Output.Fd()):
		return ErrNoTerminal
	case t == "" || t == "dumb":
		return fmt.Errorf("TERM is %q: %w", t, ErrNoTerminal)
	}
	return nil
}

// run runs a console. It reports whether the gateway shall be stopped.
func run(ctx context.Context, o Options) (stop bool, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	m := newModel(ctx, o)
	err = m.run(end)
	goodbye(ctx, o)
	return m.stop, err
}

// run runs m on its terminal until it ends or m.ctx does. It calls done, which
// ends m.ctx, for the commands that still run.
func (m *model) run(done context.CancelFunc) error {
	o := m.o
	e := newEnder()
	end := e.end
	g := &guard{m: m, end: end}
	in := &hangup{File: o.Input, gone: end}
	out := &hangup{File: o.Output, gone: end}
	profile := colorprofile.ANSI // 16 colours
	if o.noColour {
		profile = colorprofile.ASCII
	}
	p := tea.NewProgram(g,
		tea.WithContext(e.ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithEnvironment(o.Environ),
		tea.WithColorProfile(profile), tea.WithFPS(20),
		tea.WithoutSignalHandler(), tea.WithoutCatchPanics(), // both are done here: more signals, and no stack trace on the terminal
	)
	e.quit = p.Quit
	defer context.AfterFunc(m.ctx, end)()
	signals := watchSignals(end, p.Send)
	m.sig = signals.suspender()
	_, err := p.Run()
	done()
	signals.stop()
	e.stop()
	g.wait()
	if lines := m.log.take(); len(lines) > 0 {
		_ = appendLines(o.DataDir, logFile, lines)
	}
	if c := g.crashed(); c != nil {
		m.stop = false
		return c.report(o, m)
	}
	if errors.Is(err, tea.ErrProgramKilled) && e.ctx.Err() != nil || gone(err) {
		return nil // asked to end, or nobody is there any more
	}
	return err
}

// endGrace is how long a program may take to end in order.
const endGrace = time.Second

// ender ends a program from anywhere: in order, and if that does not help, as
// when it hangs on a terminal that takes nothing more, not in order.
type ender struct {
	ctx    context.Context // the program's own
	cancel context.CancelFunc
	quit   func() // ends it in order; blocks until it listens
	once   sync.Once
	wg     sync.WaitGroup
}

func newEnder() *ender {
	e := &ender{}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

func (e *ender) end() {
	e.once.Do(func() {
		e.wg.Go(e.quit)
		e.wg.Go(func() {
			t := time.NewTimer(endGrace)
			defer t.Stop()
			select {
			case <-t.C:
				e.cancel()
			case <-e.ctx.Done():
			}
		})
	})
}

// stop waits for what end began, when the program has ended.
func (e *ender) stop() {
	e.once.Do(func() {}) // none begins any more
	e.cancel()
	e.wg.Wait()
}

// guard is the root model: it keeps a panic of the console from reaching the
// terminal. Whatever panics ends the program in order, and its report is
// written when the terminal is restored.
type guard struct {
	m        *model
	end      func()
	pace     pace           // of Update and View
	commands sync.WaitGroup // those that run

	mu sync.Mutex
	// mu guards everything that follows, and adding to commands.
	over  bool // none begins any more
	crash *crash
}

func (g *guard) Init() (cmd tea.Cmd) {
	defer g.catch("Init")
	return g.guarded(g.m.Init())
}

func (g *guard) Update(msg tea.Msg) (next tea.Model, cmd tea.Cmd) {
	next = g // also after a panic
	defer g.catch("Update")
	_, cmd = g.m.Update(msg)
	if g.pace.take(msg) {
		cmd = tea.Batch(cmd, g.m.later(together, drawMsg{}))
	}
	return g, g.guarded(cmd)
}

func (g *guard) View() (v tea.View) {
	v.AltScreen = true
	if g.crashed() != nil {
		return v
	}
	defer g.catch("View")
	return g.pace.view(g.m.View)
}

// guarded lets a command run, and those of a batch, under the same care.
func (g *guard) guarded(cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() (msg tea.Msg) {
		if !g.begin() {
			return nil
		}
		defer g.commands.Done()
		defer g.catch("a command")
		msg = cmd()
		if b, ok := msg.(tea.BatchMsg); ok {
			for i := range b {
				b[i] = g.guarded(b[i])
			}
		}
		return msg
	}
}

func (g *guard) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		g.commands.Add(1)
	}
	return !g.over
}

// wait waits for the commands that run, of which none outlives its context.
func (g *guard) wait() {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.commands.Wait()
}

func (g *guard) catch(where string) {
	v := recover()
	if v == nil {
		return
	}
	c := newCrash(where, v)
	g.mu.Lock()
	if g.crash == nil {
		g.crash = c
	}
	g.mu.Unlock()
	g.end()
}

func (g *guard) crashed() *crash {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.crash
}

// utf8Locale reports whether the locale says UTF-8; without any, it does not.
func utf8Locale(env []string) bool {
	for _, k := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := environ(env, k); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

func environ(env []string, key string) string {
	v := ""
	for _, e := range env {
		if k, val, ok := strings.Cut(e, "="); ok && k == key {
			v = val
		}
	}
	return v
}

// ownDir is where the console of a gateway elsewhere keeps its files.
func ownDir() string {
	d, err := os.UserCacheDir()
	if err != nil {
		d = os.TempDir()
	}
	return d + string(os.PathSeparator) + "failback"
}

// stamp is the time in the name of a file.
func stamp(t time.Time) string { return t.UTC().Format("20060102T150405.000Z") }
