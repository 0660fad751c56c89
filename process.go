package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"failback/gateway"
	"failback/gateway/config"
	"failback/gateway/demo"
	"failback/gateway/heap"
	"failback/gateway/incident"
	"failback/gateway/operator/api"
	"failback/launch"
	"failback/runbooks"
	"failback/sources"
	"failback/sources/embedded"
	"failback/ui"
)

// runServe runs the gateway in this process until SIGTERM or SIGINT.
func runServe(in *invocation) error {
	if err := in.want(0); err != nil {
		return err
	}
	return in.serve(in.load, nil, nil)
}

// serve runs a gateway until in.ctx ends. During it runs alongside once the
// gateway serves, with its client address, until the gateway ends.
func (in *invocation) serve(load func(context.Context) (*config.Config, error), banner func(*api.State) string, during func(ctx context.Context, url string) error) error {
	defer heap.CollectLater()()
	log := newLogger(in.err)
	defer log.close()
	stdlog.SetOutput(io.Discard) // net/http quotes upstreams' bytes on it
	g := gateway.New(gateway.Options{
		Load: load, Version: programVersion(), Instance: in.instance, Stdout: in.out, Log: log.print, Banner: banner,
		Keeper: func(k gateway.Keep) gateway.Keeper {
			own := k.Config.Sources
			return embedded.Open(embedded.Options{
				Dir: k.Config.DataDir, Instance: k.Instance, Gatherer: k.Metrics, Log: log.print, OnScrape: k.Scraped, Lost: k.Lost,
				Metrics: own.Prometheus == nil, Logs: own.Loki == nil,
				Every: own.Every, MaxAge: own.Embedded.MaxAge, MaxBytes: own.Embedded.MaxBytes,
			})
		},
	})
	// A hang-up reloads; it is caught before there is anything to reload, since
	// its default is death.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	if err := g.Start(in.ctx); err != nil {
		return err
	}
	log.print(fmt.Sprintf("failback %s serves on %s", programVersion(), g.ClientAddr()))
	ctx, cancel := context.WithCancel(in.ctx)
	defer cancel()
	var running sync.WaitGroup
	if during != nil {
		running.Go(func() {
			if err := during(ctx, "http://"+g.ClientAddr()); err != nil && ctx.Err() == nil {
				log.print(err.Error())
			}
		})
	}
	for {
		select {
		case <-hangups:
			if _, err := g.Reload(ctx, "SIGHUP"); err != nil {
				log.print("the configuration was refused, the one in force stays:\n" + err.Error())
			}
		case <-in.ctx.Done():
			cancel()
			running.Wait()
			return stopOn(g)
		}
	}
}

// stopOn stops g, at once when asked a second time.
func stopOn(g *gateway.Gateway) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return g.Stop(ctx)
}

// runDefault starts the gateway as a process of its own, unless one answers
// already, and the console on its socket.
func runDefault(in *invocation) error {
	if err := in.want(0); err != nil {
		return err
	}
	if in.connect != "" {
		return usagef("--connect belongs to failback console")
	}
	if err := ui.CheckTerminal(); err != nil {
		return err
	}
	cfg, err := in.load(in.ctx)
	if err != nil {
		return err
	}
	socket := filepath.Join(cfg.DataDir, gateway.SocketName)
	gw, err := launch.Start(in.ctx, launch.Options{
		Args:   []string{"serve", "--config", in.config},
		Socket: socket,
		Log:    filepath.Join(cfg.DataDir, "gateway.log"),
	})
	if launch.IsRunning(err) {
		fmt.Fprintln(in.err, err.Error()+"; opening a console on it")
		return in.console("unix:"+socket, cfg.DataDir, nil, false)
	}
	if err != nil {
		return err
	}
	stop := func(ctx context.Context) error {
		fmt.Fprintln(in.err, "failback: stopping the gateway; requests under way end first")
		return gw.Stop(ctx, cfg.DrainDelay+cfg.ShutdownGrace+5*time.Second)
	}
	return in.console("unix:"+socket, cfg.DataDir, stop, false)
}

// runConsole opens a console on a gateway that runs.
func runConsole(in *invocation) error {
	if err := in.want(0); err != nil {
		return err
	}
	if err := ui.CheckTerminal(); err != nil {
		return err
	}
	target, err := in.target()
	if err != nil {
		return err
	}
	return in.console(target, "", nil, false)
}

// console runs the console on target, which keeps its files in dir or, if that
// is empty, in a directory of the user's own; stop stops a gateway that was
// started for it, nil if none was.
func (in *invocation) console(target, dir string, stop func(context.Context) error, isDemo bool) error {
	in.connect = target
	client, err := in.client(api.NewSession())
	if err != nil {
		return err
	}
	defer client.Close()
	connect := func(s api.Sources) (sources.Metrics, sources.Logs, error) {
		return sources.Connect(client, s, os.LookupEnv)
	}
	return ui.Run(in.ctx, ui.Options{
		TokenFile: in.tokenFile,
		Client:    client, Connect: connect, ReadOnly: in.readOnly, ASCII: in.ascii, Started: stop != nil, Stop: stop, Demo: isDemo,
		DataDir: dir, Version: programVersion(), Report: incident.Report, Runbooks: in.runbookDir(),
	})
}

// runbookDir reads the runbooks of --runbooks. What is wrong with them is said on
// the console, which starts all the same.
func (in *invocation) runbookDir() runbooks.Extra {
	if in.runbooks == "" {
		return runbooks.Extra{}
	}
	return runbooks.ReadDir(in.runbooks)
}

// runDemo shows the product on fake upstreams: a child process with the
// gateway, the upstreams and their traffic, and the console here.
func runDemo(in *invocation) error {
	if err := in.want(0); err != nil {
		return err
	}
	if in.headless {
		return in.demoGateway()
	}
	if err := ui.CheckTerminal(); err != nil {
		return fmt.Errorf("%w; or failback demo --headless", err)
	}
	// A terminal that goes away hangs up more than once: by itself and through
	// its shell. The second one must not end what the first one began.
	var stop context.CancelFunc
	in.ctx, stop = signal.NotifyContext(in.ctx, syscall.SIGHUP)
	defer stop()
	dir, remove, err := in.demoDir()
	if err != nil {
		return err
	}
	defer remove()
	// The child reads this pipe and ends with it, however this process ends.
	childsEnd, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ours.Close()
	socket := filepath.Join(dir, gateway.SocketName)
	gw, err := launch.Start(in.ctx, launch.Options{
		Args:   []string{"demo", "--headless", "--ends-with-stdin", "--script", in.script, "--dir", dir},
		Socket: socket,
		Log:    filepath.Join(dir, "gateway.log"),
		Stdin:  childsEnd,
	})
	_ = childsEnd.Close()
	if err != nil {
		return err
	}
	err = in.console("unix:"+socket, "", nil, true) // what was copied outlives the demo
	const grace = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), 2*grace)
	defer cancel()
	if stopErr := gw.Stop(ctx, grace); stopErr != nil {
		return errors.Join(err, gw.Kill(ctx, grace))
	}
	return err
}

// demoDir is where the demo keeps its data: the directory that was named, made
// if it is not there, or a new one that remove takes away.
func (in *invocation) demoDir() (dir string, remove func(), err error) {
	if in.dir == "" {
		dir, err = os.MkdirTemp("", "failback-demo-")
		return dir, func() { _ = os.RemoveAll(dir) }, err
	}
	if dir, err = filepath.Abs(in.dir); err == nil {
		err = os.MkdirAll(dir, 0o750)
	}
	if err != nil {
		return "", nil, fmt.Errorf("--dir: %w", err)
	}
	return dir, func() {}, nil
}

// demoGateway is the demo without its console. Started by a console it ends
// with the pipe that is its standard input.
func (in *invocation) demoGateway() error {
	dir, remove, err := in.demoDir()
	if err != nil {
		return err
	}
	defer remove()
	if !in.endsWithStdin {
		fmt.Fprintf(in.err, "failback: look at it with: failback status --connect unix:%s\n", filepath.Join(dir, gateway.SocketName))
	} else {
		var end context.CancelFunc
		in.ctx, end = context.WithCancel(in.ctx)
		defer end()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			end()
		}()
	}
	d, err := demo.Start(in.ctx, demo.Options{Script: demo.Script(in.script), Dir: dir})
	if err != nil {
		return err
	}
	defer d.Close()
	path := filepath.Join(dir, "failback.yaml")
	if err := os.WriteFile(path, d.Config(), 0o600); err != nil {
		return err
	}
	load := func(ctx context.Context) (*config.Config, error) {
		return config.Load(ctx, config.Source{Path: path, Env: os.LookupEnv})
	}
	banner := func(s *api.State) string { return d.Phase(demoStanding(s)) }
	return in.serve(load, banner, d.Play)
}

// demoStanding is how far the primary of the demo is on its way back.
func demoStanding(s *api.State) demo.Standing {
	for i := range s.Upstreams {
		switch u := &s.Upstreams[i]; {
		case u.Name != demo.East || u.Share >= 100:
		case u.NextStep.BlockedBy != "":
			return demo.Held
		default:
			return demo.Away
		}
	}
	if len(s.Incidents) > 0 {
		return demo.Back
	}
	return demo.Over
}
