package evidence

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// Collector gathers the evidence of one upstream: its history at all times and,
// while it comes back, the window of the step in force. The zero value watches
// no step and takes the upstream for not healthy until Tick says otherwise. It
// is safe for concurrent use.
type Collector struct {
	mu sync.Mutex // guards everything that follows

	history History
	healthy bool
	step    bool
	window  Window
	earlier []Window // of lower steps, lowest first
	// lost are the connections whose loss was counted last; next is written next.
	lost [rememberedConns]uint64
	next int
}

// rememberedConns is how many lost connections are told apart. Requests that
// one carried end together, so few are needed.
const rememberedConns = 16

// Add counts a request, in the history and in the window of the step in force.
// Of the requests that one lost connection carried the first is counted.
func (c *Collector) Add(s Sample, now time.Time) {
	if !s.Valid {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.ConnID != 0 {
		if slices.Contains(c.lost[:], s.ConnID) {
			return
		}
		c.lost[c.next] = s.ConnID
		c.next = (c.next + 1) % rememberedConns
	}
	c.history.Add(s, c.healthy, now)
	if c.step {
		c.window.Add(s)
	}
}

// Tick says whether the upstream is healthy (suspect is not). It is due about
// every second and at each change of health.
func (c *Collector) Tick(healthy bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.healthy = healthy
	c.history.Tick(healthy, now)
}

// Begin starts the window of a step. That of the step before is kept among the
// earlier ones if share is above it; windows of share and above are forgotten,
// as after a retreat they speak of another state of the upstream.
func (c *Collector) Begin(share int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.step {
		c.earlier = append(c.earlier, c.window.Clone())
	}
	c.earlier = slices.DeleteFunc(c.earlier, func(w Window) bool { return w.Share >= share })
	c.step, c.window = true, Window{Share: share}
}

// End forgets all windows: the failback is over, or was called off.
func (c *Collector) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step, c.window, c.earlier = false, Window{}, nil
}

// Restore goes on with stored windows.
func (c *Collector) Restore(window Window, earlier []Window) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step, c.window, c.earlier = true, window.Clone(), cloneAll(earlier)
}

// Step returns copies of the window of the step in force and of the earlier
// ones; false if there is no step.
func (c *Collector) Step() (window Window, earlier []Window, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.window.Clone(), cloneAll(c.earlier), c.step
}

// Trip counts a breaker that opened.
func (c *Collector) Trip() { c.inStep((*Window).Trip) }

// Probe counts a probe's end; see Window.Probe.
func (c *Collector) Probe(target string, ok bool) {
	c.inStep(func(w *Window) { w.Probe(target, ok) })
}

// Serve adds time in which the gateway was up.
func (c *Collector) Serve(d time.Duration) { c.inStep(func(w *Window) { w.Serve(d) }) }

func (c *Collector) inStep(do func(*Window)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.step {
		do(&c.window)
	}
}

// Baseline makes a baseline of the history; false if it is not enough for one.
func (c *Collector) Baseline(now time.Time) (Baseline, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fromHistory(&c.history, now)
}

// SaveHistory writes the history for the store.
func (c *Collector) SaveHistory() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return json.Marshal(&c.history)
}

// RestoreHistory reads what SaveHistory wrote. With an error the history is as
// it was.
func (c *Collector) RestoreHistory(data []byte) error {
	var h History
	if err := json.Unmarshal(data, &h); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = h
	return nil
}

func cloneAll(ws []Window) []Window {
	if ws == nil {
		return nil
	}
	all := make([]Window, len(ws))
	for i := range ws {
		all[i] = ws[i].Clone()
	}
	return all
}
