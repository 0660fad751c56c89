package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	switch args := os.Args[1:]; { // as a server
	case len(args) == 2 && args[0] == "stub":
		return serveStub(args[1])
	case len(args) == 3 && args[0] == "proxy":
		return serveProxy(args[1], args[2])
	}
	rounds := flag.Int("rounds", 5, "turns of each")
	turn := flag.Duration("turn", 2*time.Second, "length of a turn")
	streams := flag.Bool("streams", false, "2,000 open streams instead of the table")
	million := flag.Bool("million", false, "a million requests instead of the table")
	profiles := flag.String("profile", "", "write processor profiles of failback, one for each load, into this directory instead of the table")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("%q is no flag; -help lists them", flag.Arg(0))
	case *rounds < 1 || *turn <= 0:
		return errors.New("-rounds and -turn: at least one turn of some length is needed")
	}

	dir, err := os.MkdirTemp("", "failback-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "failback")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		return fmt.Errorf("building failback, from the root of the module: %w\n%s", err, out)
	}
	stub, err := startSelf("stub")
	if err != nil {
		return err
	}
	defer stub.stop()
	proxy, err := startSelf("proxy", stub.url)
	if err != nil {
		return err
	}
	defer proxy.stop()
	nobody, err := freePort()
	if err != nil {
		return err
	}
	failback, err := startFailback(program, dir, stub.url, nobody)
	if err != nil {
		return err
	}
	defer failback.stop()

	fmt.Printf("%s, %s, %d processors, %s, stub, load and servers share them\n\n", time.Now().UTC().Format("2006-01-02"), model(), runtime.NumCPU(), runtime.Version())
	switch {
	case *streams:
		return holdStreams(failback, proxy)
	case *million:
		return sendMillion(failback)
	case *profiles != "":
		return profileLoads(failback, *profiles)
	}
	return table(stub, proxy, failback, *rounds, *turn)
}

// model names the processor.
func model() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for l := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}

// load is one kind of request, and how much it may cost against ReverseProxy.
type load struct {
	name, body string
	target     float64
}

func loads() []load {
	return []load{
		{"1 KB", body("m", 1<<10, false), 1.3},
		{"100 KB", body("m", 100<<10, false), 1.5},
		{"1 MB", body("m", 1<<20, false), 1.6},
		{"60-frame stream", body("m", 1<<10, true), 1.4},
	}
}

// profileLoads writes what the processor did in failback under each load, for
// go tool pprof.
func profileLoads(failback *process, dir string) error {
	const seconds = 10
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for _, l := range loads() {
		done := make(chan error, 1)
		path := filepath.Join(dir, strings.ReplaceAll(l.name, " ", "-")+".pprof")
		go func() { done <- failback.profile(path, seconds) }()
		n, err := closed(failback.url, l.body, 8, (seconds+1)*time.Second, math.MaxInt64)
		if err := errors.Join(err, <-done); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		fmt.Printf("%s: %.0f/s, %s\n", l.name, float64(n)/(seconds+1), path)
	}
	return nil
}

// table prints what a request costs through each of the servers.
func table(stub, proxy, failback *process, rounds int, turn time.Duration) error {
	fmt.Println("| one request, closed loop of 8 | stub alone | ReverseProxy | failback | processor time against ReverseProxy | target |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, load := range loads() {
		cost := map[string][]float64{}
		rate := map[string][]float64{}
		var ratios []float64
		for range rounds {
			per := map[string]float64{}
			for _, p := range []*process{stub, proxy, failback} {
				before, err := p.cpu()
				if err != nil {
					return err
				}
				began := time.Now()
				n, err := closed(p.url, load.body, 8, turn, math.MaxInt64)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", p.name, load.name, err)
				}
				after, err := p.cpu()
				if err != nil {
					return err
				}
				per[p.name] = float64(after-before) / float64(n)
				cost[p.name] = append(cost[p.name], per[p.name])
				rate[p.name] = append(rate[p.name], float64(n)/time.Since(began).Seconds())
			}
			ratios = append(ratios, per["failback"]/per["proxy"])
		}
		cell := func(name string) string {
			return fmt.Sprintf("%s, %.0f/s", time.Duration(median(cost[name])).Round(time.Microsecond), median(rate[name]))
		}
		fmt.Printf("| %s | %s | %s | %s | %.2f × | ≤ %.1f × |\n", load.name, cell("stub"), cell("proxy"), cell("failback"), median(ratios), load.target)
	}

	fmt.Printf("\n| 300 requests a second, 1 KB, open loop | p50 | p99 |\n|---|---|---|\n")
	added := map[string][2][]time.Duration{}
	for range rounds {
		var base [2]time.Duration
		for _, p := range []*process{stub, proxy, failback} {
			took, err := open(p.url, body("m", 1<<10, false), 300, turn)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			at := [2]time.Duration{percentile(took, 0.5), percentile(took, 0.99)}
			if p == stub {
				base = at
			} else {
				at[0], at[1] = at[0]-base[0], at[1]-base[1]
			}
			a := added[p.name]
			added[p.name] = [2][]time.Duration{append(a[0], at[0]), append(a[1], at[1])}
		}
	}
	line := func(name, what string) {
		a := added[name]
		fmt.Printf("| %s | %s | %s |\n", what, median(a[0]).Round(10*time.Microsecond), median(a[1]).Round(10*time.Microsecond))
	}
	line("stub", "stub alone")
	line("proxy", "added by ReverseProxy")
	line("failback", "added by failback (target: ≤ 300µs, ≤ 1ms)")

	var direct, over []time.Duration
	for range rounds {
		for _, m := range []struct {
			model string
			into  *[]time.Duration
		}{{"m", &direct}, {"failover", &over}} {
			took, err := open(failback.url, body(m.model, 1<<10, false), 100, turn)
			if err != nil {
				return fmt.Errorf("failover: %w", err)
			}
			*m.into = append(*m.into, percentile(took, 0.5))
		}
	}
	fmt.Printf("\nfailover after a refused connection adds %s to the fallback's own %s (median; target ≤ 1ms)\n",
		(median(over) - median(direct)).Round(10*time.Microsecond), median(direct).Round(10*time.Microsecond))
	fmt.Printf("memory of failback after it all: %d MB\n", failback.memory()>>20)
	return nil
}

// holdStreams keeps 2,000 streams open through each server.
func holdStreams(failback, proxy *process) error {
	const n = 2000
	per := map[string]float64{}
	for _, p := range []*process{proxy, failback} {
		if _, err := closed(p.url, body("m", 1<<10, true), 64, 2*time.Second, math.MaxInt64); err != nil { // warm
			return err
		}
		time.Sleep(time.Second)
		before, sockets := p.memory(), p.sockets()
		goroutines := 0
		if p == failback {
			goroutines = p.goroutines()
		}
		c := client(n)
		var wg sync.WaitGroup
		errs := make(chan error, n)
		for range n {
			wg.Go(func() { errs <- ask(c, p.url, body("hold", 1<<10, true)) })
			time.Sleep(time.Millisecond)
		}
		time.Sleep(holdFor / 2)
		during, open := p.memory(), p.sockets()
		wg.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		c.CloseIdleConnections()
		per[p.name] = float64(during-before) / n
		fmt.Printf("%-9s %d MB before, %d MB with %d streams (%d sockets): %.1f KB a stream\n", p.name, before>>20, during>>20, n, open, per[p.name]/1024)
		if p == failback {
			// Idle connections to the stub are kept for a while by design.
			left := goroutines
			for range 60 {
				time.Sleep(2 * time.Second)
				if left = p.goroutines(); left <= goroutines {
					break
				}
			}
			fmt.Printf("%-9s afterwards: goroutines %d, before %d; sockets %d, before %d\n", p.name, left, goroutines, p.sockets(), sockets)
		}
	}
	fmt.Printf("failback against ReverseProxy: %.2f × (target ≤ 1.25 ×)\n", per["failback"]/per["proxy"])
	return nil
}

// sendMillion sends a million requests and says how much memory there is on
// the way.
func sendMillion(failback *process) error {
	fmt.Printf("idle: %d MB (target < 90 MB)\n", failback.memory()>>20)
	for i := range 10 {
		began := time.Now()
		n, err := closed(failback.url, body("m", 1<<10, false), 16, time.Hour, 100_000)
		if err != nil {
			return err
		}
		fmt.Printf("after %7d requests: %d MB, %.0f/s\n", (i+1)*100_000, failback.memory()>>20, float64(n)/time.Since(began).Seconds())
	}
	return nil
}
