package jobs

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Board holds the jobs. The zero value is one without jobs. Its methods and
// those of its jobs may be called at once from several goroutines.
type Board struct {
	// mu guards everything that follows, and what the jobs hold.
	mu   sync.Mutex
	jobs map[string]*Job
}

// Job is the heartbeat of one job.
type Job struct {
	board *Board
	name  string

	// Guarded by Board.mu.
	every   time.Duration
	from    time.Time // since when it is waited for: registered or resumed
	success time.Time // last; zero: never
	failure string    // of the last run; empty: it succeeded, or there was none
	paused  bool
}

// Status is what is known of one job.
type Status struct {
	Name        string
	Every       time.Duration
	LastSuccess time.Time // zero: never yet
	Late        bool      // it should have succeeded since
	Paused      bool      // there is nothing for it to do, so it is never late
	Error       string    // of the last run, empty if it succeeded
}

// Register returns the job of that name, which is to succeed every so often; it
// is waited for from now on. A name that is there already gives the same job
// with the new pace.
func (b *Board) Register(name string, every time.Duration) *Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.jobs[name]; j != nil {
		j.every = every
		return j
	}
	if b.jobs == nil {
		b.jobs = map[string]*Job{}
	}
	j := &Job{board: b, name: name, every: every, from: time.Now()}
	b.jobs[name] = j
	return j
}

// Remove takes the job off the board: it is not known any more.
func (j *Job) Remove() {
	j.board.mu.Lock()
	defer j.board.mu.Unlock()
	if j.board.jobs[j.name] == j {
		delete(j.board.jobs, j.name)
	}
}

// Ran says that the job ran now, and how that ended. A job that was paused is
// waited for again. err is shown to operators: it holds no secret.
func (j *Job) Ran(err error) {
	j.board.mu.Lock()
	defer j.board.mu.Unlock()
	now := time.Now()
	if j.paused {
		j.paused, j.from = false, now
	}
	if err != nil {
		j.failure = err.Error()
		return
	}
	j.failure, j.success = "", now
}

// Pause says that there is nothing for the job to do until it runs again.
func (j *Job) Pause() {
	j.board.mu.Lock()
	defer j.board.mu.Unlock()
	j.paused, j.failure = true, ""
}

// Snapshot returns the jobs by name.
func (b *Board) Snapshot() []Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	out := make([]Status, 0, len(b.jobs))
	for _, j := range b.jobs {
		out = append(out, Status{
			Name: j.name, Every: j.every, LastSuccess: j.success, Paused: j.paused, Error: j.failure,
			Late: !j.paused && late(now.Sub(latest(j.from, j.success)), j.every),
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
