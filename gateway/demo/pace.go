package demo

import (
	"encoding/json"
	"time"
)

// waitFirst lasts as long as the time to a first token, scaled by part.
func (x *exchange) waitFirst(part float64) error {
	l := x.fake.opts.Latency
	if l.FirstMax < 0 {
		return x.wait(0)
	}
	d := l.FirstMin
	if span := l.FirstMax - l.FirstMin; span > 0 {
		d += time.Duration(x.rng.Int64N(int64(span) + 1))
	}
	return x.wait(time.Duration(float64(d) * part))
}

// waitWords lasts as long as n more words.
func (x *exchange) waitWords(n int) error {
	l := x.fake.opts.Latency
	if l.Word < 0 || n == 0 {
		return x.wait(0)
	}
	// Half to one and a half times the mean.
	d := float64(l.Word) * float64(n) * (0.5 + x.rng.Float64())
	return x.wait(time.Duration(d))
}

// wait lasts d times the fault's slowness, or until the caller or the Fake is
// gone.
func (x *exchange) wait(d time.Duration) error {
	t := time.NewTimer(time.Duration(float64(d) * x.slow))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-x.r.Context().Done():
		return errGone
	case <-x.fake.gone.Done():
		return errGone
	}
}

// whole answers r unary: after the time a model takes for all of it, v as JSON.
func (x *exchange) whole(words int, v any) error {
	if err := x.waitFirst(1); err != nil {
		return err
	}
	if err := x.waitWords(words); err != nil {
		return err
	}
	return x.sendWhole(v)
}

// sendWhole writes v, or under Break only the first half of it.
func (x *exchange) sendWhole(v any) error {
	x.headers()
	if x.fault.Kind != Break {
		x.writeJSON(200, v)
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only values built here are written
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(200)
	_, _ = x.w.Write(b[:len(b)/2])
	_ = x.flush()
	x.abort = true
	return errFault
}
