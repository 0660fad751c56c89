package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

const (
	// waitingQuestions are kept for one that serves them; of more the newest are lost.
	waitingQuestions = 256
	// maxFrom bounds the name of who asks or answers.
	maxFrom = 64
)

// QuestionOptions says what is asked, and by whom.
type QuestionOptions struct {
	// Name of the question: letters, digits, "-", "_".
	Name string
	// From names who asks and answers here, of all that use the store; up to 64
	// bytes.
	From string
	// Version of the questions and answers. Those of another one are not read.
	// 0: 1.
	Version int
	// MaxBytes of a question or an answer as it is sent. 0: 64 KiB.
	MaxBytes int
	// Unread is told what came and cannot be read. It must not block. Nil: nobody
	// is.
	Unread func(error)
}

// Question is what those who use one cluster ask each other: a Q, answered with an
// A. Nothing of it is kept, and what is sent while a connection is lost does not
// arrive. Its methods may be called concurrently.
type Question[Q, A any] struct {
	s       *Store
	o       QuestionOptions
	subject string
}

// NewQuestion returns a question that may be asked and served.
func NewQuestion[Q, A any](s *Store, o QuestionOptions) (*Question[Q, A], error) {
	if err := checkName("question", o.Name); err != nil {
		return nil, err
	}
	if o.From == "" || len(o.From) > maxFrom {
		return nil, fmt.Errorf("store: question %s: from %q must have 1 to %d bytes", o.Name, o.From, maxFrom)
	}
	o.Version = max(1, o.Version)
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 10
	}
	if o.Unread == nil {
		o.Unread = func(error) {}
	}
	// A stream has two tokens: none takes this for a value of its own.
	return &Question[Q, A]{s: s, o: o, subject: s.o.Prefix + ".ask." + o.Name}, nil
}

func (q *Question[Q, A]) where() string { return "question " + q.o.Name }

// Ask asks all others who serve the question, and calls hear with the answer of
// each, until hear reports that it has heard enough, nobody serves it, or ctx ends.
// An error says that nobody was asked; who did not answer is the caller's to know.
func (q *Question[Q, A]) Ask(ctx context.Context, question Q, hear func(from string, answer A) (enough bool)) error {
	s := q.s
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := q.write(question)
	if err != nil {
		return err
	}
	ctx, cancel := s.bound(ctx, s.ctx)
	defer cancel()
	inbox := s.nc.NewInbox()
	answers, err := s.nc.SubscribeSync(inbox)
	if err == nil {
		defer func() { _ = answers.Unsubscribe() }()
		err = s.nc.PublishRequest(q.subject, inbox, data)
	}
	if err != nil {
		return s.failed(q.where(), err, false)
	}
	heard := map[string]bool{q.o.From: true}
	for {
		m, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return nil
		}
		var answer A
		from, err := q.read(m.Data, &answer)
		switch {
		case err != nil:
			q.o.Unread(err)
		case heard[from]:
		default:
			heard[from] = true
			if hear(from, answer) {
				return nil
			}
		}
	}
}

// Serve answers what others ask, one after the other, until ctx or the store ends;
// it goes on after a lost connection by itself. What answer refuses is not answered.
// It returns ctx's error or ErrClosed.
func (q *Question[Q, A]) Serve(ctx context.Context, answer func(from string, question Q) (A, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(q.s.ctx, cancel)()
	for {
		err := q.serve(ctx, answer)
		if q.s.ctx.Err() != nil {
			return ErrClosed
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		q.o.Unread(q.s.failed(q.where(), err, false))
		q.s.pauseWatch(ctx)
	}
}

// serve answers with one subscription, which outlives connections.
func (q *Question[Q, A]) serve(ctx context.Context, answer func(string, Q) (A, error)) error {
	questions, err := q.s.nc.SubscribeSync(q.subject)
	if err != nil {
		return err
	}
	defer func() { _ = questions.Unsubscribe() }()
	if err := questions.SetPendingLimits(waitingQuestions, waitingQuestions*q.o.MaxBytes); err != nil {
		return err
	}
	for {
		m, err := questions.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrSlowConsumer) {
			continue // some were lost: who asked does not hear from here
		}
		if err != nil {
			return err
		}
		if err := q.reply(m, answer); err != nil {
			q.o.Unread(err)
		}
	}
}

// reply answers m, unless it is this one's own question.
func (q *Question[Q, A]) reply(m *nats.Msg, answer func(string, Q) (A, error)) error {
	var question Q
	from, err := q.read(m.Data, &question)
	if err != nil || from == q.o.From || m.Reply == "" {
		return err
	}
	a, err := answer(from, question)
	if err != nil {
		return fmt.Errorf("store: %s from %q: %w", q.where(), from, err)
	}
	data, err := q.write(a)
	if err != nil {
		return err
	}
	// Where the connection is lost by now the answer is, too.
	_ = q.s.nc.Publish(m.Reply, data)
	return nil
}

// letter is a question or an answer as it is sent.
type letter struct {
	envelope
	From string `json:"from"`
}

func (q *Question[Q, A]) write(v any) ([]byte, error) {
	d, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("store: %s: %w", q.where(), err)
	}
	data, err := json.Marshal(letter{envelope{Version: q.o.Version, Data: d}, q.o.From})
	if err == nil && len(data) > q.o.MaxBytes {
		return nil, &FullError{Where: q.where(), Err: fmt.Errorf("%d bytes are more than %d", len(data), q.o.MaxBytes)}
	}
	return data, err
}

// read reads data into v and returns who sent it. It takes exactly what write
// writes: what another version means by a field, or leaves out, is not guessed.
func (q *Question[Q, A]) read(data []byte, v any) (from string, err error) {
	unreadable := func(format string, args ...any) (string, error) {
		return "", &DecodeError{Where: q.where(), Err: fmt.Errorf("not readable: "+format, args...)}
	}
	if len(data) > q.o.MaxBytes {
		return unreadable("%d bytes are more than %d", len(data), q.o.MaxBytes)
	}
	var l letter
	if err := json.Unmarshal(data, &l); err != nil {
		return unreadable("%w", err)
	}
	switch {
	case l.Version > q.o.Version:
		return "", &VersionError{Where: fmt.Sprintf("%s from %.64q", q.where(), l.From), Have: l.Version, Known: q.o.Version}
	case l.Version != q.o.Version:
		return unreadable("%.64q sends version %d, this program %d: start the newer program there", l.From, l.Version, q.o.Version)
	case l.From == "" || len(l.From) > maxFrom || l.Data == nil:
		return unreadable("it was not sent by this program")
	}
	d := json.NewDecoder(bytes.NewReader(l.Data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return unreadable("from %q: %w", l.From, err)
	}
	return l.From, nil
}
