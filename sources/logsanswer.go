package sources

import (
	"context"
	"time"
)

// AnswerLogs is a Logs's answer to q from where eval evaluates: what it returns
// of a question is what Loki has under "data", with as many lines as are asked
// for. Its errors are the answer's.
func AnswerLogs(ctx context.Context, gen uint64, q LogQuery, eval func(context.Context, LogQuery) ([]byte, error)) Answer[LogAnswer] {
	return answerLogs(ctx, gen, q.filled(time.Now()), func(ctx context.Context, q LogQuery) (*LogAnswer, error) {
		more := q
		more.Limit++ // tells "the first 100" from "100"
		data, err := eval(ctx, more)
		if err != nil {
			return nil, err
		}
		return readLogData(data, q, more.Limit)
	})
}

// answerLogs asks q, its defaults filled in, and beside it how many lines could
// not be parsed.
func answerLogs(ctx context.Context, gen uint64, q LogQuery, ask func(context.Context, LogQuery) (*LogAnswer, error)) Answer[LogAnswer] {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := Answer[LogAnswer]{Gen: gen, Clock: Clock{Sent: time.Now()}}
	var wg workers
	var unparsed *LogAnswer
	var unparsedErr error
	if q.Unparsed != "" {
		wg.Go(func() {
			unparsed, unparsedErr = ask(ctx, LogQuery{Query: q.Unparsed, Start: q.Start, End: q.End, Limit: 1, Instant: true})
		})
	}
	a, err := ask(ctx, q)
	if err != nil {
		cancel() // the other question is of no use alone
	}
	wg.Wait()
	out.Clock.Received = time.Now()
	if err != nil {
		out.Err = err
		return out
	}
	switch {
	case q.Unparsed == "":
	case unparsedErr != nil:
		a.Warnings = warn(a.Warnings, "not known how many lines could not be parsed: "+unparsedErr.Error())
	default:
		a.Unparsed = unparsed.total()
	}
	// Loki does not tell its time; End is near it, and no age hangs on it.
	out.Clock.At = out.Clock.Received
	out.Value = a
	return out
}

// total is the sum of an answer of numbers.
func (a *LogAnswer) total() int64 {
	var sum int64
	for _, s := range a.Series {
		for _, p := range s.Points {
			if number(p.Value) {
				sum += int64(p.Value)
			}
		}
	}
	return sum
}
