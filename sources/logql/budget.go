package logql

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// bad is an error in what was asked.
func bad(message string) error {
	return &QueryError{Status: http.StatusBadRequest, Message: message}
}

// room counts the bytes that are kept for an answer. It is safe for concurrent
// use.
type room struct {
	max  int64 // 0: no bound
	kept atomic.Int64
}

// spend reports whether n bytes more may be kept.
func (r *room) spend(n int) bool { return r.kept.Add(int64(n)) <= r.max || r.max <= 0 }

func (r *room) exceeded() error { return tooLarge(r.max) }

func tooLarge(most int64) error {
	return bad("the answer is larger than " + strconv.FormatInt(most, 10) +
		" bytes, which is the most that is allowed: ask for less time, fewer or shorter lines, or fewer series")
}

// budget is what one query may take, all of its goroutines together. It is safe
// for concurrent use.
type budget struct {
	room room

	maxMade int64         // 0: no bound
	maxWork time.Duration // 0: no bound

	made, samples, work atomic.Int64

	over atomic.Bool           // why is set: nobody need go on
	why  atomic.Pointer[error] // the first bound that was met
}

func newBudget(r Request) *budget {
	return &budget{room: room{max: r.MaxBytes}, maxMade: r.MaxMade, maxWork: r.MaxWork}
}

// refuse ends the query, unless it has been already.
func (b *budget) refuse(message string) {
	err := bad(message)
	b.why.CompareAndSwap(nil, &err)
	b.over.Store(true)
}

// err is why the query was ended, or nil.
func (b *budget) err() error {
	if why := b.why.Load(); why != nil {
		return *why
	}
	return nil
}

// worked counts work that was done.
func (b *budget) worked(d time.Duration) error {
	if total := b.work.Add(int64(d)); b.maxWork > 0 && total > int64(b.maxWork) {
		b.overworked()
	}
	return b.err()
}

func (b *budget) overworked() {
	b.refuse("the query works longer than " + b.maxWork.String() + ", which is the most that is allowed: " +
		"consider adding more specific stream selectors or line filters, reducing the time range, or taking stages out of the pipeline")
}

type budgetKey struct{}

// Worked counts the time that a Source has worked for the query that ctx belongs
// to. A Source calls it now and then, for what it did itself and for what yield
// did; time in which it waited or rested is no work. The error says that the
// query has worked for as long as it may: the Source ends with it.
func Worked(ctx context.Context, d time.Duration) error {
	if b, ok := ctx.Value(budgetKey{}).(*budget); ok {
		return b.worked(d)
	}
	return nil
}

// looked is how many bytes are made between two looks at the clock and at the
// bounds.
const looked = 64 << 10

// long is how many bytes take an expression so long that the clock costs nothing
// beside it.
const long = 4 << 10

// meter counts what the pipeline of one part makes. It belongs to one goroutine;
// nil counts nothing.
type meter struct {
	b     *budget
	ended *atomic.Bool // nobody needs the part any more

	made  int       // since the last look
	since time.Time // of the first look in the line; zero: none yet
}

// line begins a line.
func (m *meter) line() {
	if m != nil {
		m.since = time.Time{}
	}
}

// make counts n bytes and reports whether the pipeline may go on.
func (m *meter) make(n int) bool {
	if m == nil {
		return true
	}
	if m.made += n; m.made < looked {
		return true
	}
	return m.look()
}

// reads reports whether the pipeline may go on to compare n bytes with an
// expression, which cannot be stopped.
func (m *meter) reads(n int) bool { return m == nil || n < long || m.look() }

func (m *meter) look() bool {
	b := m.b
	total := b.made.Add(int64(m.made))
	m.made = 0
	if b.maxMade > 0 && total > b.maxMade {
		b.refuse("the templates of the query make more than " + strconv.FormatInt(b.maxMade, 10) +
			" bytes, which is the most that is allowed: filter the lines before line_format and label_format, or make them shorter")
	}
	if b.maxWork > 0 { // the source counts the time only behind the line
		now := time.Now()
		if m.since.IsZero() {
			m.since = now
		} else if b.work.Load()+int64(now.Sub(m.since)) > int64(b.maxWork) {
			b.overworked()
		}
	}
	return !b.over.Load() && !m.ended.Load()
}
