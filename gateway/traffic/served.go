package traffic

import "time"

// servedEvery is how often served time alone is stored.
const servedEvery = 10 * time.Second

// Serve adds d, which must be measured by a monotonic clock while the gateway
// was up, to State.Served of every failback under way. What was added is stored
// every 10 s at most, with every change, and by Close; a crash loses the rest,
// which makes a window longer and never shorter.
func (t *Table) Serve(d time.Duration) {
	if d <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	store := time.Since(t.servedAt) >= servedEvery
	for _, e := range t.entries {
		if !e.known || e.rec.FailbackID == "" {
			continue
		}
		e.served.Add(int64(d))
		if store {
			t.touch(e)
			t.servedAt = time.Now()
		}
	}
}

// touchServed has what was served since it was last stored stored. Requires mu.
func (t *Table) touchServed() {
	for _, e := range t.entries {
		if e.known && e.rec.Served != time.Duration(e.served.Load()) {
			t.touch(e)
		}
	}
}
