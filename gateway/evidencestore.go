package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"failback/gateway/store"
	"failback/gateway/traffic/evidence"
)

// evidenceStore keeps the evidence of steps under way, and what is usual for
// each upstream, so that a restart goes on where the gateway was.
type evidenceStore struct {
	steps     *store.Bucket[keptStep]
	histories *store.Bucket[json.RawMessage]
	// prefix tells gateways apart that share a store: each judges what it saw.
	prefix string
	// wrote is when histories were last written.
	wrote time.Time
}

// keptStep is the evidence of one step.
type keptStep struct {
	Failback string            `json:"failback"`
	Epoch    string            `json:"epoch"`
	Share    int               `json:"share"`
	Taken    int64             `json:"taken"` // see step
	Window   evidence.Window   `json:"window"`
	Earlier  []evidence.Window `json:"earlier"`
}

// historyEvery is how often histories are written: they are summed by the minute.
const historyEvery = time.Minute

func newEvidenceStore(s *store.Store, instance string) (*evidenceStore, error) {
	e := &evidenceStore{}
	if s.Status().Kind == store.NATS {
		e.prefix = instance + "/"
	}
	var err error
	if e.steps, err = store.NewBucket[keptStep](s, store.BucketOptions{Name: "evidence"}); err != nil {
		return nil, err
	}
	e.histories, err = store.NewBucket[json.RawMessage](s, store.BucketOptions{Name: "history"})
	return e, err
}

// save writes the evidence of the upstreams of s. It is not called twice at a
// time.
func (e *evidenceStore) save(ctx context.Context, s *setup) error {
	var errs []error
	whole := time.Since(e.wrote) >= historyEvery
	for name, w := range s.watched {
		key := e.prefix + name
		if step, ok := w.kept(); ok {
			_, err := e.steps.Put(ctx, key, step)
			errs = append(errs, err)
		}
		if whole {
			data, err := w.evidence.SaveHistory()
			if err == nil {
				_, err = e.histories.Put(ctx, key, data)
			}
			errs = append(errs, err)
		}
	}
	err := errors.Join(errs...)
	if whole && err == nil {
		e.wrote = time.Now()
	}
	return err
}

// restore gives the upstreams of s what is known of them. Evidence that belongs
// to another step than the one in force counts for nothing. What cannot be read
// is told, and begins anew.
func (e *evidenceStore) restore(ctx context.Context, s *setup, problem func(string)) {
	for name, w := range s.watched {
		history, err := e.histories.Get(ctx, e.prefix+name)
		if err == nil {
			err = w.evidence.RestoreHistory(history.Value)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			problem(fmt.Sprintf("history of %s: %v; its baseline begins anew", name, err))
		}
		step, err := e.steps.Get(ctx, e.prefix+name)
		switch {
		case err == nil:
			w.restore(step.Value)
		case !errors.Is(err, store.ErrNotFound):
			problem(fmt.Sprintf("evidence of %s: %v; the window of its step begins anew", name, err))
		}
	}
}

// kept is the evidence of the step in force, if there is one.
func (w *watched) kept() (keptStep, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	window, earlier, ok := w.evidence.Step()
	return keptStep{Failback: w.step.failback, Epoch: w.step.epoch, Share: w.step.share, Taken: w.step.taken, Window: window, Earlier: earlier}, ok
}

// restore goes on with k if that is the step in force.
func (w *watched) restore(k keptStep) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.step.failback != "" && w.step == (step{failback: k.Failback, epoch: k.Epoch, share: k.Share, taken: k.Taken}) {
		w.evidence.Restore(k.Window, k.Earlier)
	}
}
