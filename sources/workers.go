package sources

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// workers run functions beside the one that starts them, which waits for them.
// A panic of one is raised again by Wait, as a *WorkerPanic: where somebody
// asked there is somebody to catch it, while in a goroutine of its own it ends
// the process at once, and leaves a console's terminal as it is.
//
// Nothing in this package starts a goroutine in another way.
type workers struct {
	// failed is called when one panics, for whoever waits for its work; nil:
	// nobody does before Wait.
	failed func()

	wg sync.WaitGroup
	mu sync.Mutex // guards first
	// first is the first panic.
	first *WorkerPanic
}

// WorkerPanic is a panic of a goroutine, raised again where it was waited for.
type WorkerPanic struct {
	Value any    // what it was called with
	Stack []byte // of the goroutine that panicked
}

func (p *WorkerPanic) Error() string { return fmt.Sprint(p.Value) }

func (w *workers) Go(f func()) {
	w.wg.Go(func() {
		defer w.catch()
		mayPanic()
		f()
	})
}

func (w *workers) catch() {
	v := recover()
	if v == nil {
		return
	}
	w.mu.Lock()
	if w.first == nil {
		w.first = &WorkerPanic{v, debug.Stack()}
	}
	w.mu.Unlock()
	if w.failed != nil {
		w.failed()
	}
}

// Wait waits for all of them.
func (w *workers) Wait() {
	w.wg.Wait()
	if w.first != nil {
		panic(w.first)
	}
}
