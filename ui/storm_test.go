package ui

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/gatewaytest"
)

var (
	stormFor  = flag.Duration("storm", 0, "how long TestStorm goes on; 0: 8s, with -short 3s")
	stormSeed = flag.Uint64("storm-seed", 0, "the keys of TestStorm; 0: others each time")
)

const (
	stormUpstreams = 200
	stormRate      = 5000 // decisions a second
)

// judgedGuard is the guard of a console that looks at each of its frames. What it
// holds is used by the program's own goroutine, and by others when that ended.
type judgedGuard struct {
	*guard
	frames int
	broken []string // laws, the first of them
}

func (j *judgedGuard) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	_, cmd := j.guard.Update(msg)
	return j, cmd
}

func (j *judgedGuard) View() tea.View {
	due := j.pace.due()
	v := j.guard.View()
	j.frames++
	m := j.m
	if !due { // it is the one before
		return v
	}
	if m.width <= 0 || m.height <= 0 || len(j.broken) > 10 {
		return v
	}
	broken := func(format string, args ...any) {
		j.broken = append(j.broken, fmt.Sprintf("%dx%d on %s: ", m.width, m.height, m.screen)+fmt.Sprintf(format, args...)+"\n"+ansi.Strip(v.Content))
	}
	if escapes := strings.Contains(sgr.ReplaceAllString(v.Content, ""), "\x1b"); escapes {
		broken("another escape than a style")
	}
	lines := strings.Split(ansi.Strip(v.Content), "\n")
	if len(lines) > m.height {
		broken("%d rows", len(lines))
	}
	for i, l := range lines {
		if len(l) > m.width && max(ansi.StringWidth(l), ansi.StringWidthWc(l)) > m.width {
			broken("row %d is wider", i+1)
		}
	}
	env, mode := "PROD", "READ-ONLY"
	if m.live.state.Value() == nil {
		env = "waiting"
	}
	if m.armed() {
		mode = "ARMED"
	}
	if !strings.Contains(lines[0], env) || !strings.Contains(lines[0], mode) {
		broken("the first row has lost %s or %s", env, mode)
	}
	if c := v.Cursor; c != nil && (c.X < 0 || c.Y < 0 || c.X >= m.width || c.Y >= m.height) {
		broken("the cursor is at %d,%d", c.X, c.Y)
	}
	return v
}

// covered is a terminal that nobody sees for a while. The emulator keeps what
// scrolls off its alternate screen, which a terminal does not and which would
// be taken for a leak of the console.
type covered struct {
	*terminal
	over *atomic.Bool
}

func (c covered) Write(p []byte) (int, error) {
	if c.over.Load() {
		return len(p), nil
	}
	return c.terminal.Write(p)
}

// slowPrometheus answers after a while, and one question in four never.
func slowPrometheus(after time.Duration) http.Handler {
	var mu sync.Mutex
	n := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		never := n%4 == 0
		mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body)
		t := time.NewTimer(after)
		defer t.Stop()
		answer := t.C
		if never {
			answer = nil
		}
		select {
		case <-r.Context().Done():
		case <-answer:
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%d,"0.381"]}]}}`, time.Now().Unix())
		}
	})
}

// htmlLoki answers as something that stands before a Loki does, and refuses to
// be followed.
func htmlLoki() http.Handler {
	var mu sync.Mutex
	n := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		status := []int{http.StatusOK, http.StatusBadGateway, http.StatusForbidden}[n%3]
		mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/tail") {
			status = http.StatusForbidden
		}
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<!DOCTYPE html><html><head><title>Sign in\x1b[31m</title></head><body>"+strings.Repeat("<p>please sign in</p>", 200)+"</body></html>")
	})
}

// stormState is a large gateway in trouble.
func stormState(prometheus, loki string) api.State {
	s := placesState()
	s.Upstreams = incidentState().Upstreams
	for i := len(s.Upstreams); i < stormUpstreams; i++ {
		u := up("upstream-number-"+strconv.Itoa(i), "region-"+strconv.Itoa(i), i%3 > 0, float64(i))
		if i%17 == 0 {
			u.Breakers[0] = bucket(u.Name, "stream", "ramping", time.Minute)
			u.Breakers[0].RampLimit = 4
		}
		s.Upstreams = append(s.Upstreams, u)
	}
	s.Sources.Prometheus = api.Source{URL: prometheus, Selector: `job="failback"`, EverySeconds: 1}
	s.Sources.Loki = api.Source{URL: loki, Selector: sources.DefaultStreams}
	s.Incidents = []api.IncidentHead{theIncident().IncidentHead}
	return s
}

// weather changes what the gateway says until its context ends: decisions,
// events, shares, health, the incident, and now and then an upstream goes.
func weather(ctx context.Context, g *gatewaytest.Gateway, rnd *rand.Rand) {
	const every = 100 * time.Millisecond
	t := time.NewTicker(every)
	defer t.Stop()
	some := append(decisionsOf("breaker_open"), decisionsOf("overloaded")...)
	steps := []int{0, 5, 25, 75, 100}
	states := []string{"", api.Suspect, api.Degraded, api.Recovering}
	breakers := []string{"closed", "open", "half_open", "ramping"}
	gone := stormState("", "").Upstreams[stormUpstreams-1]
	n := 0
	for tick := 0; ; tick++ {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		// More come than anybody is shown: of each tenth the newest.
		n += stormRate * int(every) / int(time.Second)
		newest := make([]api.Decision, manyDecisions)
		for i := range newest {
			d := some[(n-i)%len(some)]
			d.RequestID, d.Time = "storm-"+strconv.Itoa(n-i), now.Add(-time.Duration(i)*time.Second/stormRate)
			newest[i] = d
		}
		g.Decide(newest...)
		var e api.Event
		g.Set(func(s *api.State) {
			us := append([]api.Upstream(nil), s.Upstreams...)
			u := &us[rnd.IntN(len(us))]
			if rnd.IntN(2) == 0 {
				u = &us[rnd.IntN(4)] // those that are looked at
			}
			from := u.Share
			u.Share, u.Since, u.StateBy = steps[rnd.IntN(len(steps))], now, "ben"
			u.Revision++
			u.Health, u.HealthSince = states[rnd.IntN(len(states))], now
			u.Breakers = append([]api.Breaker(nil), u.Breakers...)
			b := &u.Breakers[rnd.IntN(len(u.Breakers))]
			b.State, b.Since = breakers[rnd.IntN(len(breakers))], now
			u.ErrorRatio, u.Live = val(rnd.Float64()), val(rnd.Float64())
			if tick%7 == 0 {
				u.ErrorRatio, u.FirstOutputP95 = idle(), none()
			}
			if tick%20 == 19 { // the last goes, and comes again
				if len(us) == stormUpstreams {
					us = us[:len(us)-1]
				} else {
					us = append(us, gone)
				}
			}
			s.Upstreams = us
			e = api.Event{Event: "traffic_step", Time: now, Provider: u.Name, From: strconv.Itoa(from), To: strconv.Itoa(u.Share), By: "ben", Why: "storm", Revision: u.Revision}
			last := e
			s.LastWrite = &last
		})
		for range 5 {
			g.Happen(e)
			e = api.Event{Event: "breaker_transition", Time: now, Provider: e.Provider, Capability: "text", From: "closed", To: "open", Reason: "server_error", Detail: "12/20 failed"}
		}
		if tick%10 == 0 {
			v := theIncident()
			for i := range tick / 10 % 50 {
				v.Timeline = append(v.Timeline, api.IncidentEntry{At: now, Kind: "note", By: "ben", Text: "line " + strconv.Itoa(i)})
			}
			if tick%200 == 100 {
				v = closedIncident()
			}
			g.Record(*v)
		}
	}
}

// stormKeys are the keys of the whole table as a terminal sends them, what
// leads somewhere more often than the rest. Those that leave or suspend are not
// among them, and neither is y: without it nothing may change traffic.
func stormKeys() []string {
	special := map[string]string{
		"enter": "\r", "esc": "\x1b", "tab": "\t", "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D",
		"home": "\x1b[H", "end": "\x1b[F", "pgup": "\x1b[5~", "pgdown": "\x1b[6~", "space": " ",
	}
	var ks []string
	for i := range table {
		for _, k := range table[i].Keys() {
			switch k {
			case "q", "y", "ctrl+c", "ctrl+z":
				continue
			}
			if r, ok := strings.CutPrefix(k, "ctrl+"); ok {
				k = string(r[0] & 0x1f)
			} else if s, ok := special[k]; ok {
				k = s
			}
			ks = append(ks, k)
		}
	}
	often := []string{"o", "b", "d", "e", "l", "i", "m", "w", "$", "1", "j", "j", "j", "k", "G", "g", "\r", "\r", "\x1b", "\x1b", "\x1b", "\t", "/", ">", "<", "D", "p", "u", "W"}
	ks = append(ks, often...)
	ks = append(ks, often...)
	return append(ks, "9", "x", "0", "\x7f", "\x15", "\x1b[200~y\r y\x1b[201~", "r", "n", "é", "漢")
}

// TestStorm: a whole console before a large gateway in trouble, whose numbers
// come late or never and whose log lines are a sign-in page, while the window
// changes ten times a second and keys are hit at random. It goes on, holds each
// law on each frame, keeps its memory, sends nothing, and works afterwards as
// before.
func TestStorm(t *testing.T) {
	length, late := 8*time.Second, 8*time.Second
	if testing.Short() {
		length = 3 * time.Second
	}
	if *stormFor > 0 {
		length = *stormFor
	}
	late = min(late, length/3)
	seed := *stormSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("%s of storm, -storm-seed %d", length, seed)
	source := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }

	before := runtime.NumGoroutine()
	prometheus, loki := httptest.NewServer(slowPrometheus(late)), httptest.NewServer(htmlLoki())
	g := gatewaytest.New(t)
	g.Set(func(s *api.State) { *s = stormState(prometheus.URL, loki.URL) })
	g.Record(*theIncident())
	for range maxChanges / 6 {
		for _, e := range incidentEvents() {
			g.Happen(e)
		}
	}
	client := g.Client(t)

	ctx, end := context.WithCancel(t.Context())
	defer end()
	m := newModel(ctx, Options{
		Client: client, Version: "v1", DataDir: t.TempDir(),
		Connect: func(s api.Sources) (sources.Metrics, sources.Logs, error) {
			return sources.Connect(client, s, func(string) (string, bool) { return "", false })
		},
	})
	// It is as full as it gets, so that what grows from here on is a leak.
	some := decisionsOf("breaker_open")
	for i := range seenChunk * seenChunks / manyDecisions {
		ds := make([]api.Decision, manyDecisions)
		for j := range ds {
			ds[j] = some[j%len(some)]
			ds[j].RequestID = "before-" + strconv.Itoa((i+1)*manyDecisions-j)
		}
		m.live.seen.merge(ds, &m.words)
	}
	j := &judgedGuard{guard: &guard{m: m, end: end}}
	r, typed := io.Pipe()
	s := &started{terminal: newTerminal(t, 100, 30), keys: typed, done: make(chan error, 1)}
	var cover atomic.Bool
	s.p = tea.NewProgram(j, tea.WithContext(ctx), tea.WithInput(r), tea.WithOutput(covered{s.terminal, &cover}), tea.WithWindowSize(100, 30), tea.WithFPS(20),
		tea.WithEnvironment([]string{"TERM=xterm-256color"}), tea.WithColorProfile(colorprofile.ANSI), tea.WithoutSignalHandler(), tea.WithoutCatchPanics())
	go func() {
		_, err := s.p.Run()
		end()
		j.wait()
		s.done <- err
	}()
	s.wait(t, "anthropic-us-east-1")

	cover.Store(true)
	over, calm := context.WithTimeout(ctx, length)
	defer calm()
	var wg sync.WaitGroup
	wg.Go(func() { weather(over, g, source(1)) })
	wg.Go(func() { // the window
		rnd := source(2)
		every(over, 100*time.Millisecond, func() {
			s.p.Send(tea.WindowSizeMsg{Width: 20 + rnd.IntN(181), Height: 5 + rnd.IntN(56)})
		})
	})
	pressed := 0
	wg.Go(func() { // the keys
		rnd := source(3)
		ks := stormKeys()
		every(over, 10*time.Millisecond, func() {
			if rnd.IntN(3) == 0 {
				return
			}
			k := ks[rnd.IntN(len(ks))]
			for range 1 + rnd.IntN(20)/19*30 { // now and then one is held
				pressed++
				_, _ = io.WriteString(typed, k)
			}
		})
	})
	// What the last collection found alive: a search over all decisions makes
	// more in passing. What it makes while one runs counts as alive, so that the
	// least of several tells.
	var heap []uint64
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	wg.Go(func() {
		every(over, length/12, func() {
			runtime.GC()
			metrics.Read(live)
			heap = append(heap, live[0].Value.Uint64())
		})
	})
	wg.Wait()
	select {
	case err := <-s.done:
		t.Fatalf("it ended in the storm: %v %+v", err, j.crashed())
	default:
	}

	// Each screen is still one key away.
	s.p.Send(tea.WindowSizeMsg{Width: 100, Height: 29})
	for range 12 {
		_, _ = io.WriteString(typed, "\x1b")
		pause(deafFor / 4)
	}
	cover.Store(false)
	s.p.Send(tea.WindowSizeMsg{Width: 100, Height: 30}) // draws all of it anew
	for _, step := range []struct{ key, want string }{
		{"o", "USERS"}, {"b", "FAILBACK"}, {"d", "ROUTE DECISIONS"}, {"e", "CHANGES"}, {"l", "own query"}, {"i", "INCIDENT"}, {"m", " MAP "}, {"w", " QUEUE"}, {"$", " MONEY "}, {"?", "KEYS"}, {"!", "OWN LOG"}, {"o", "USERS"},
	} {
		_, _ = io.WriteString(typed, step.key)
		if !within(10*time.Second, func() bool { return strings.Contains(s.screen(), step.want) }) {
			t.Fatalf("after the storm %q leads nowhere with %q:\n%s", step.key, step.want, s.screen())
		}
	}
	for _, c := range g.Commands() {
		if !strings.HasPrefix(c.Path, "/operator/v1/incidents") {
			t.Errorf("%+v was sent without a y", c)
		}
	}
	_, _ = io.WriteString(typed, "q")
	select {
	case err := <-s.done:
		if err != nil || j.crashed() != nil {
			t.Errorf("q left with %v %+v", err, j.crashed())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("q does not leave")
	}
	for _, b := range j.broken {
		t.Error(b)
	}
	if j.frames < int(length/time.Second) {
		t.Errorf("only %d frames were drawn", j.frames)
	}

	half := len(heap) / 2
	if half == 0 {
		t.Fatal("the heap was not looked at twice")
	}
	first, second := slices.Min(heap[:half]), slices.Min(heap[half:])
	if second > first+first/5+8<<20 {
		t.Errorf("the heap grew from %d to %d MB: %v", first>>20, second>>20, heap)
	}
	t.Logf("%d frames, %d keys, heap %d MB, then %d MB", j.frames, pressed, first>>20, second>>20)

	r.Close()
	client.Close()
	for _, srv := range []*httptest.Server{prometheus, loki} {
		srv.CloseClientConnections()
		srv.Close()
	}
	g.Stop()
	_ = s.InputPipe().(io.Closer).Close()
	if !within(10*time.Second, func() bool { return runtime.NumGoroutine() <= before }) {
		b := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d afterwards:\n%s", before, runtime.NumGoroutine(), b[:runtime.Stack(b, true)])
	}
	g.Start(t) // its end stops it again
}

// every calls f at intervals until ctx ends.
func every(ctx context.Context, d time.Duration, f func()) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			f()
		}
	}
}

// pause lets a key be one of its own.
func pause(d time.Duration) {
	t := time.NewTimer(d)
	<-t.C
}

// within reports whether a condition of another goroutine comes to hold.
func within(d time.Duration, ok func() bool) bool {
	over := time.After(d)
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for !ok() {
		select {
		case <-over:
			return false
		case <-t.C:
		}
	}
	return true
}
