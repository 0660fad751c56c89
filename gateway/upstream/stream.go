package upstream

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"time"

	"failback/gateway/decision"
	"failback/gateway/wire"
)

const (
	// What comes before the first output is held back so that another upstream
	// can still answer: this many frames, and this many bytes beside four
	// times the request, which the Responses API repeats in its first events.
	// More than that is released.
	preambleFrames = 64
	preambleBytes  = 256 << 10

	// frameGrain is how much of an unfinished frame is read before Buffers is
	// asked for it, and what it is asked for is a multiple of.
	frameGrain = 256 << 10

	// directly is the size of frames that are written from where they are,
	// rather than collected with others first.
	directly = 16 << 10
)

// How long what follows the end is still read, so that the connection can be
// used again: after a terminal event, which the client has then; and after a
// failure, which somebody waits to make good.
const (
	drainDone   = 250 * time.Millisecond
	drainFailed = 25 * time.Millisecond
)

// silenceAfterFinish is how long an upstream that has finished its answer, but
// not said so in the dialect's own way, may still keep its client waiting for
// usage or that.
const silenceAfterFinish = 5 * time.Second

// frameEnd ends a frame that the upstream did not end.
var frameEnd = []byte("\n\n")

// errNoMemory is that Buffers did not grant the room for a frame.
var errNoMemory = errors.New("no memory for a frame")

// Read reads the answer's body as it came. Before it waits, what may go out is
// written: so frames that arrived together go out together, and none waits for
// the next.
func (x *exchange) Read(p []byte) (int, error) {
	if x.open && !x.flush() {
		return 0, io.ErrClosedPipe
	}
	x.watch.reading()
	n, err := x.resp.Body.Read(p)
	x.watch.read()
	if err != nil {
		x.readErr = err
	}
	x.unframed += n
	if more := x.unframed - x.frameBound - frameGrain; more > 0 && x.framing && x.c.Buffers != nil {
		more = (more + frameGrain - 1) / frameGrain * frameGrain
		if !x.c.Buffers.Grow(more) {
			x.readErr = errNoMemory
			return 0, errNoMemory
		}
		x.frameBound += more
	}
	return n, err
}

// framed tells that n bytes of what was read are a whole frame now.
func (x *exchange) framed(n int) {
	x.unframed -= n
	if x.decoded || x.unframed < 0 {
		x.unframed = 0
	}
	if x.frameBound > 0 && x.unframed < frameGrain {
		x.c.Buffers.Shrink(x.frameBound)
		x.frameBound = 0
	}
}

// stream relays an event stream.
func (x *exchange) stream() {
	delete(x.resp.Header, "Content-Length")
	x.framing = true
	judge := wire.NewStreamJudge(x.c.Endpoint)
	frames := wire.NewFrameReader(x.plain, cmp.Or(x.c.MaxFrame, MaxFrame))
	defer frames.Close()
	held, keepAlives, done, settled := 0, 0, false, false
	for {
		frame, err := frames.Next()
		if err != nil {
			x.streamEnd(judge, err, done)
			return
		}
		mark := judge.Judge(frame)
		if x.torn = frames.Torn(); x.torn && !done && useless(frame, mark, judge) {
			x.torn = false
			x.framed(len(frame))
			continue
		}
		switch mark.Kind {
		case wire.Error:
			if done {
				break // after the end nothing can fail any more
			}
			x.inBandError(mark.Verdict, judge, frame)
			return
		case wire.Output:
			if !x.output && !x.firstOutput() {
				x.stopped()
				return
			}
			if !x.c.Hold && !x.open {
				x.release()
			}
		case wire.Terminal:
			if !done {
				done, x.complete = true, true
				x.release()
				x.watch.atMost(drainDone)
			}
		case wire.Preamble:
			if x.open || x.c.Hold {
				break
			}
			if isKeepAlive(frame) {
				// Holding back any number of these would keep nobody alive.
				if keepAlives++; keepAlives > preambleFrames {
					x.framed(len(frame))
					continue
				}
			} else if held++; held > preambleFrames {
				x.release()
			}
		}
		if !done && judge.Settled(x.c.Choices) != settled {
			settled = !settled
			x.watch.silence(x.mayBeSilent(settled))
		}
		if mark.Kind != wire.Error && !x.collect(frame) {
			x.stopped()
			return
		}
		x.framed(len(frame))
	}
}

// useless reports whether a frame within which the stream ended says nothing
// yet, or nothing that is still needed: no client could read it either.
func useless(frame []byte, mark wire.Mark, judge *wire.StreamJudge) bool {
	if mark.Kind == wire.Error {
		return mark.Verdict.Class == decision.Interrupted && judge.Finished()
	}
	return eventData(frame) == nil
}

// mayBeSilent is how long nothing may come.
func (x *exchange) mayBeSilent(settled bool) time.Duration {
	idle := x.v.s.Idle
	if settled && (idle <= 0 || idle > silenceAfterFinish) {
		return silenceAfterFinish
	}
	return idle
}

// isKeepAlive reports whether a preamble frame means nothing but that the
// connection lives: a comment, a blank line, or Anthropic's ping.
func isKeepAlive(frame []byte) bool {
	switch frame[0] {
	case ':', '\n', '\r':
		return true
	}
	return bytes.HasPrefix(frame, []byte("event: ping")) || bytes.HasPrefix(frame, []byte("event:ping"))
}

// collect takes frame for the client: to be written before the next read, or
// held. It reports false if it could not be written.
func (x *exchange) collect(frame []byte) bool {
	if x.open {
		if len(frame) >= directly && !(x.complete && !x.begun) {
			return x.flush() && x.write(frame)
		}
		if x.begun && x.held != nil && len(*x.held)+len(frame) > bufferSize && !x.flush() {
			return false
		}
		x.held = room(x.held, len(frame))
		*x.held = append(*x.held, frame...)
		return true
	}
	if !x.hold(len(frame)) {
		x.release()
		return x.flush() && x.write(frame)
	}
	*x.held = append(*x.held, frame...)
	return true
}

// hold makes room for n bytes more that are held back; false if that is more
// than may be held.
func (x *exchange) hold(n int) bool {
	size := n
	if x.held != nil {
		size += len(*x.held)
	}
	most := x.c.maxHeld()
	if x.framing && !x.c.Hold {
		most = preambleBytes + 4*len(x.c.Body)
	}
	if size > most || !x.account(size) {
		return false
	}
	x.held = room(x.held, n)
	return true
}

// account asks Buffers for what is held beyond the first buffer.
func (x *exchange) account(size int) bool {
	more := size - bufferSize - x.bound
	if more <= 0 || x.c.Buffers == nil {
		return true
	}
	more = (more + bufferSize - 1) / bufferSize * bufferSize
	if !x.c.Buffers.Grow(more) {
		return false
	}
	x.bound += more
	return true
}

// flush writes what is collected. It reports false if it could not.
func (x *exchange) flush() bool {
	if x.held == nil {
		return !x.gone
	}
	ok := x.write(*x.held)
	putBuffer(x.held)
	x.held = nil
	if x.bound > 0 {
		x.c.Buffers.Shrink(x.bound)
		x.bound = 0
	}
	return ok
}

// streamEnd ends a stream after whose last frame came err.
func (x *exchange) streamEnd(judge *wire.StreamJudge, err error, done bool) {
	verdict := judge.End()
	if !x.gone && (done || judge.Finished()) {
		// Whatever became of the connection: the answer is whole.
		if class, _ := x.ended(); class == decision.ClientGone && !done {
			x.stopped()
			x.seen(verdict)
			return
		}
		x.complete = true
		x.release()
		if !x.flush() {
			x.stopped()
			x.seen(verdict)
			return
		}
		x.judged(verdict)
		x.out.Class = decision.OK
		return
	}
	if x.open && !x.gone {
		if x.torn && x.collect(frameEnd) {
			x.torn = false // what is said of the failure is a frame of its own
		}
		x.flush()
	}
	partial := decision.Reset
	if x.output {
		partial = decision.Interrupted
	}
	class, _ := x.ended()
	switch {
	case x.gone:
		x.stopped()
	case class != "":
		x.broken(err, partial)
	case err == io.EOF:
		x.judged(verdict)
		return
	case errors.Is(err, wire.ErrFrameTooLong):
		x.fail(decision.BadResponse, "a frame is longer than the limit")
	case errors.Is(err, errNoMemory):
		x.fail(decision.LocalRefusal, "no memory to hold so large a frame")
	case x.decoded && (x.readErr == nil || x.readErr == io.EOF):
		x.fail(decision.BadResponse, "the answer's encoding is broken")
	default:
		x.broken(err, partial)
	}
	x.seen(verdict)
}

// inBandError ends a stream with the error that frame is.
func (x *exchange) inBandError(v wire.Verdict, judge *wire.StreamJudge, frame []byte) {
	if x.open && !x.flush() {
		x.stopped()
		x.seen(judge.End())
		return
	}
	x.judged(v)
	x.answerCaller(eventData(frame))
	x.drain(drainFailed)
}
