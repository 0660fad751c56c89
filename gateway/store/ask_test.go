package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// asker is one that asks, and serves until the test ends what it is told to.
type asker struct {
	*Question[thing, thing]
	s      *Store
	unread logs
	ended  chan error // what Serve returned
}

// newAsker is of a store of its own; with an answer it serves.
func newAsker(t *testing.T, url string, o QuestionOptions, answer func(from string, q thing) (thing, error)) *asker {
	t.Helper()
	return askerOf(t, open(t, Options{URL: url, Timeout: patient}), o, answer)
}

func askerOf(t *testing.T, s *Store, o QuestionOptions, answer func(from string, q thing) (thing, error)) *asker {
	t.Helper()
	a := &asker{s: s, ended: make(chan error, 1)}
	o.Unread = func(err error) { a.unread.add(err.Error()) }
	if o.Name == "" {
		o.Name = "sum"
	}
	q, err := NewQuestion[thing, thing](a.s, o)
	if err != nil {
		t.Fatal(err)
	}
	a.Question = q
	if answer == nil {
		return a
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { a.ended <- q.Serve(ctx, answer) })
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	return a
}

// patient is a bound that is for what never comes.
const patient = time.Minute

// answers asks with n until want have answered, at most for bound, and returns who did.
func (a *asker) answers(t *testing.T, bound time.Duration, n, want int) ([]string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	var got []string
	err := a.Ask(ctx, thing{N: n}, func(from string, answer thing) bool {
		got = append(got, fmt.Sprintf("%s:%d", from, answer.N))
		return len(got) == want
	})
	slices.Sort(got)
	return got, err
}

// hears waits until want answer a question with n.
func (a *asker) hears(t *testing.T, n int, want ...string) {
	t.Helper()
	var got []string
	var err error
	eventually(t, fmt.Sprint("answers of ", want), func() bool {
		got, err = a.answers(t, time.Second, n, len(want))
		return err == nil && slices.Equal(got, want)
	})
}

func plus(add int) func(string, thing) (thing, error) {
	return func(_ string, q thing) (thing, error) {
		if q.N < 0 {
			return thing{}, errors.New("it is less than nothing")
		}
		return thing{N: q.N + add}, nil
	}
}

// Everybody else answers, whatever server they are on by now; nobody asks itself.
func TestAsk(t *testing.T) {
	o := newOutside(t)
	a := newAsker(t, o.url(), QuestionOptions{From: "a"}, plus(1))
	b := newAsker(t, o.url(), QuestionOptions{From: "b"}, plus(2))
	c := newAsker(t, o.url(), QuestionOptions{From: "c"}, plus(3))
	a.hears(t, 10, "b:12", "c:13")
	b.hears(t, 20, "a:21", "c:23")
	if got, err := a.answers(t, patient, 10, 1); err != nil || len(got) != 1 {
		t.Errorf("of one that is enough: %v %v", got, err)
	}

	// One that refuses does not answer.
	if got, err := a.answers(t, time.Second, -1, 1); err != nil || len(got) != 0 {
		t.Errorf("refused: %v %v", got, err)
	}
	eventually(t, "refusing is told", func() bool { return strings.Contains(b.unread.text(), `from "a": it is less than nothing`) })

	// Without the server nobody waits, and what was not heard is not served when it
	// is back.
	o.stop()
	eventually(t, "the loss is known", func() bool { return a.s.Status().Err != nil })
	began := time.Now()
	if got, err := a.answers(t, patient, 10, 2); !isUnavailable(err) || len(got) != 0 || time.Since(began) > patient/2 {
		t.Errorf("without a server: %v %v after %v", got, err, time.Since(began))
	}
	o.start()
	a.hears(t, 10, "b:12", "c:13")

	// Closing ends serving.
	closeStore(t, c.s)
	if err := <-c.ended; !errors.Is(err, ErrClosed) {
		t.Errorf("serving ended with %v", err)
	}
	if _, err := c.answers(t, patient, 1, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("asking: %v", err)
	}
	a.hears(t, 10, "b:12")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Ask(ctx, thing{}, func(string, thing) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("asking for nobody: %v", err)
	}
}

// Where nobody serves, nobody waits.
func TestAskNobody(t *testing.T) {
	o := newOutside(t)
	a := newAsker(t, o.url(), QuestionOptions{From: "a"}, nil)
	began := time.Now()
	if got, err := a.answers(t, patient, 1, 1); err != nil || len(got) != 0 || time.Since(began) > patient/2 {
		t.Errorf("%v %v after %v", got, err, time.Since(began))
	}
	// Another prefix, and another question, is somebody else's.
	newAsker(t, o.url(), QuestionOptions{From: "b", Name: "product"}, plus(1))
	q, err := NewQuestion[thing, thing](open(t, Options{URL: o.url(), Prefix: "another"}), QuestionOptions{From: "c", Name: "sum"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = q.Serve(ctx, plus(1)) })
	defer func() { cancel(); serving.Wait() }()
	if got, _ := a.answers(t, time.Second, 1, 1); len(got) != 0 {
		t.Errorf("%v", got)
	}
	// One that starts while the server is away serves when it comes.
	o.stop()
	away := open(t, Options{URL: o.url(), Timeout: 2 * time.Second}) // so long it is waited for
	askerOf(t, away, QuestionOptions{From: "d"}, plus(1))
	o.start()
	a.hears(t, 1, "d:2")
}

// Neither a question nor an answer of another version is read, nor what is too
// large or no such thing at all.
func TestAskReadsWhatItWrites(t *testing.T) {
	o := newOutside(t)
	a := newAsker(t, o.url(), QuestionOptions{From: "a", MaxBytes: 200}, nil)
	old := newAsker(t, o.url(), QuestionOptions{From: "old"}, plus(1))
	newer := newAsker(t, o.url(), QuestionOptions{From: "newer", Version: 2}, plus(1))
	a.hears(t, 1, "old:2")
	eventually(t, "the newer one serves", func() bool {
		_, _ = a.answers(t, time.Second, 1, 1)
		return strings.Contains(newer.unread.text(), `"a" sends version 1, this program 2`)
	})
	if got, err := newer.answers(t, time.Second, 1, 1); err != nil || len(got) != 0 {
		t.Errorf("%v %v", got, err)
	}
	eventually(t, "the older one is told", func() bool { return strings.Contains(old.unread.text(), "has version 2, this program knows 1") })
	err := a.Ask(t.Context(), thing{Text: strings.Repeat("x", 200)}, func(string, thing) bool { return true })
	if full, is := errors.AsType[*FullError](err); !is || !strings.Contains(full.Error(), "more than 200") {
		t.Errorf("too much: %v", err)
	}
	for data, says := range map[string]string{
		`{"v":1,"d":{"n":1},"from":"b"}`:                               "",
		`{"v":2,"d":{"n":1},"from":"b"}`:                               "version 2",
		`{"v":0,"d":{"n":1},"from":"b"}`:                               "version 0",
		`{"v":1,"d":{"n":1,"m":2},"from":"b"}`:                         "unknown field",
		`{"v":1,"d":{"n":"1"},"from":"b"}`:                             "cannot unmarshal",
		`{"v":1,"d":{"n":1}}`:                                          "not sent by this program",
		`{"v":1,"from":"b"}`:                                           "not sent by this program",
		`{"v":1,"d":{"n":1},"from":"` + strings.Repeat("b", 65) + `"}`: "not sent by this program",
		`{"v":1,"d":{"n":1},"from":"b"} `:                              "",
		`{"v":1,"d":{"n":1},"from":"b"}{}`:                             "invalid character",
		`{"v":1,"d":{"n":1},"from":"b"}` + strings.Repeat(" ", 200):    "more than 200",
		``: "unexpected end",
	} {
		var v thing
		from, err := a.read([]byte(data), &v)
		switch {
		case says == "" && (err != nil || from != "b" || v.N != 1):
			t.Errorf("%s: %q %+v %v", data, from, v, err)
		case says != "" && (err == nil || from != "" || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %q %v", data, from, err)
		}
	}
	for _, o := range []QuestionOptions{{Name: "a.b", From: "x"}, {Name: "sum"}, {Name: "sum", From: strings.Repeat("x", 65)}} {
		if _, err := NewQuestion[thing, thing](a.s, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
