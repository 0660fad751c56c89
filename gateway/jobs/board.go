package jobs

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Board holds the jobs, by name. The zero value is one without jobs. Its methods
// may be called at once from several goroutines.
type Board struct {
	mu   sync.Mutex // guards everything that follows
	jobs map[string]*job
}

// job is the heartbeat of one job.
type job struct {
	every   time.Duration
	from    time.Time // since when it is waited for
	success time.Time // last; zero: never
	failure string    // of the last run; empty: it succeeded, or there was none
}

// Status is what is known of one job.
type Status struct {
	Name        string
	Every       time.Duration
	LastSuccess time.Time // zero: never yet
	Late        bool      // it should have succeeded since
	Error       string    // of the last run, empty if it succeeded
}

// Register puts a job on the board, which is to succeed every so often and is
// waited for from now on. One that is there already has the new pace.
func (b *Board) Register(name string, every time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.jobs[name]; j != nil {
		j.every = every
		return
	}
	if b.jobs == nil {
		b.jobs = map[string]*job{}
	}
	b.jobs[name] = &job{every: every, from: time.Now()}
}

// Remove takes a job off the board: nobody waits for it any more.
func (b *Board) Remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.jobs, name)
}

// Ran says that a job ran now, and how that ended. Of one that is not on the
// board it says nothing: it may have been under way when it was removed. err is
// shown to operators: it holds no secret.
func (b *Board) Ran(name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch j := b.jobs[name]; {
	case j == nil:
	case err != nil:
		j.failure = err.Error()
	default:
		j.failure, j.success = "", time.Now()
	}
}

// Snapshot returns the jobs by name.
func (b *Board) Snapshot() []Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	out := make([]Status, 0, len(b.jobs))
	for name, j := range b.jobs {
		out = append(out, Status{
			Name: name, Every: j.every, LastSuccess: j.success, Error: j.failure,
			Late: late(now.Sub(latest(j.from, j.success)), j.every),
		})
	}
	slices.SortFunc(out, func(x, y Status) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// Late returns the names of the jobs that are late.
func (b *Board) Late() []string {
	var names []string
	for _, s := range b.Snapshot() {
		if s.Late {
			names = append(names, s.Name)
		}
	}
	return names
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
