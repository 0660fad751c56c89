package upstream

import (
	"bytes"
	"io"
	"strconv"

	"failback/gateway/decision"
	"failback/gateway/wire"
)

// unary reads a whole answer, judges it, and gives it out. What is larger than
// may be held is given out as it comes, judged as far as possible.
func (x *exchange) unary() {
	most, size := x.c.maxHeld(), bufferSize
	if n := x.resp.ContentLength; n > 0 && n <= int64(most) && !x.decoded && x.account(int(n)) {
		size = int(n) + 1
	}
	x.held = getBuffer(size)
	for {
		if len(*x.held) == cap(*x.held) {
			more := min(cap(*x.held), most+1-len(*x.held))
			if !x.account(len(*x.held) + more) {
				x.large()
				return
			}
			x.held = room(x.held, more)
		}
		b := *x.held
		n, err := x.plain.Read(b[len(b):min(cap(b), most+1)])
		*x.held = b[:len(b)+n]
		switch {
		case len(*x.held) > most, n > 0 && x.resp.ContentLength > int64(most):
			x.large()
			return
		case err == io.EOF:
			x.whole()
			return
		case err != nil:
			x.cut(err, len(*x.held) > 0)
			return
		}
	}
}

// whole judges the answer that is held and gives it out if it is one.
func (x *exchange) whole() {
	body := *x.held
	v := wire.JudgeUnary(x.c.Endpoint, body)
	x.judged(v)
	if v.Class != decision.OK {
		x.answerCaller(body)
		return
	}
	x.complete = true
	if x.c.Stream {
		x.firstOutput()
	}
	x.resp.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.release()
	if !x.flush() {
		x.stopped()
	}
}

// cut ends an answer that broke off; some says that some of it came.
func (x *exchange) cut(err error, some bool) {
	switch {
	case x.gone:
		x.stopped()
	case x.out.Relayed:
		x.broken(err, decision.Interrupted)
	case x.decoded && (x.readErr == nil || x.readErr == io.EOF):
		x.broken(io.ErrUnexpectedEOF, decision.BadResponse)
	case some:
		x.broken(err, decision.BadResponse)
	default:
		x.broken(err, decision.Reset)
	}
}

// large gives out an answer that is too large to be held. All that can be seen
// of it is that it begins and ends as a JSON object, and ends at all.
func (x *exchange) large() {
	if first := bytes.TrimLeft((*x.held)[:min(len(*x.held), 1<<10)], " \t\r\n"); len(first) == 0 || first[0] != '{' {
		x.bad("the answer is no JSON object")
		return
	}
	if x.c.Stream && !x.firstOutput() {
		x.stopped()
		return
	}
	x.release()
	last := byte(0)
	note := func(p []byte) {
		if p = bytes.TrimRight(p, " \t\r\n"); len(p) > 0 {
			last = p[len(p)-1]
		}
	}
	note(*x.held)
	if !x.flush() {
		x.stopped()
		return
	}
	buf := getBuffer(bufferSize)
	defer putBuffer(buf)
	for {
		n, err := x.plain.Read((*buf)[:cap(*buf)])
		note((*buf)[:n])
		if !x.write((*buf)[:n]) {
			x.stopped()
			return
		}
		switch {
		case err == io.EOF && last == '}':
			x.out.Class = decision.OK
			return
		case err == io.EOF:
			x.fail(decision.Interrupted, "the answer ends in the middle")
			return
		case err != nil:
			x.cut(err, true)
			return
		}
	}
}
