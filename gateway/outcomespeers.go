package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"failback/gateway/incident"
	"failback/gateway/store"
)

const (
	// outcomesWait bounds how long the other gateways are waited for.
	outcomesWait = 500 * time.Millisecond
	// maxOutcomesQuestion has room for the longest list, whatever has to be escaped
	// in it.
	maxOutcomesQuestion = 512 << 10
)

// heard says which of the gateways that share a store were heard about outcomes of
// requests that the one that was told of them did not answer.
type heard string

const (
	// heardNotNeeded: the gateway knows each request, or shares its store with nobody.
	heardNotNeeded heard = "not_needed"
	// heardAll: what is unknown, none of them knows.
	heardAll heard = "all"
	// heardSome: not all of them answered, or none.
	heardSome heard = "some"
	// heardUnreachable: nobody could be asked, the store does not answer.
	heardUnreachable heard = "unreachable"
)

// everybody reports whether nobody is left who could know.
func (h heard) everybody() bool { return h == heardNotNeeded || h == heardAll }

// outcomesQuestion is what gateways of one store ask each other: to count outcomes of
// requests that they answered.
type outcomesQuestion struct {
	*store.Question[outcomesAsked, outcomesFates]
	wait time.Duration // outcomesWait
}

// outcomesAsked are outcomes of requests that the gateway that asks did not answer.
type outcomesAsked struct {
	Outcomes []keyedOutcome `json:"outcomes"`
}

// keyedOutcome is an outcome with the name of the key that reports it.
type keyedOutcome struct {
	incident.Outcome
	Key string `json:"key,omitempty"`
}

// outcomesFates is what became of each outcome that was asked about, in their order.
type outcomesFates struct {
	Fates []fate `json:"fates"`
}

func (g *Gateway) openOutcomes(s *store.Store) error {
	q, err := store.NewQuestion[outcomesAsked, outcomesFates](s, store.QuestionOptions{
		Name: "outcomes", From: g.peers.self.Boot, MaxBytes: maxOutcomesQuestion,
		Unread: func(err error) { g.alarm("outcomes of other gateways: " + err.Error()) },
	})
	if err != nil {
		return err
	}
	g.reported = &outcomesQuestion{q, outcomesWait}
	return nil
}

// askOutcomes has the gateway that answered each outcome's request count it, and
// returns what became of each; what nobody who was heard knows is unknown. Where a
// client gave one id to requests that several gateways answered, each counts it for
// its own.
func (g *Gateway) askOutcomes(ctx context.Context, l []incident.Outcome) ([]fate, heard) {
	fates := make([]fate, len(l))
	for i := range fates {
		fates[i] = fateUnknown
	}
	if g.reported == nil {
		return fates, heardNotNeeded
	}
	waits, more := g.peers.others(time.Now())
	if len(waits) == 0 {
		switch {
		case g.store.Status().Err != nil:
			return fates, heardUnreachable
		case more:
			return fates, heardSome
		}
		return fates, heardNotNeeded
	}
	asked := outcomesAsked{Outcomes: make([]keyedOutcome, len(l))}
	for i, o := range l {
		asked.Outcomes[i] = keyedOutcome{Outcome: o, Key: o.Key}
	}
	ctx, cancel := context.WithTimeout(ctx, g.reported.wait)
	defer cancel()
	settled := false
	err := g.reported.Ask(ctx, asked, func(from string, a outcomesFates) bool {
		if err := a.check(len(l)); err != nil {
			g.alarm(fmt.Sprintf("outcomes of other gateways: an answer: %v", err))
			return false
		}
		settled = settle(fates, a.Fates)
		delete(waits, from)
		return settled || len(waits) == 0
	})
	switch {
	case err != nil:
		if _, is := errors.AsType[*store.UnavailableError](err); !is && ctx.Err() == nil {
			g.alarm("outcomes of other gateways: " + err.Error())
		}
		return fates, heardUnreachable
	case settled, len(waits) == 0 && !more:
		return fates, heardAll
	}
	return fates, heardSome
}

// settle takes what another gateway says of each outcome into fates, and reports
// whether no further one has to be heard.
func settle(fates, said []fate) bool {
	all := true
	for i, f := range said {
		if f.rank() > fates[i].rank() {
			fates[i] = f
		}
		all = all && fates[i].rank() >= fateRepeated.rank()
	}
	return all
}

// rank orders what several gateways say of one outcome: the highest is what became of
// it. That of no fate is -1.
func (f fate) rank() int {
	for i, is := range [...]fate{fateUnknown, fateRefused, fateRepeated, fateCounted} {
		if f == is {
			return i
		}
	}
	return -1
}

// check reports why a is no answer about n outcomes.
func (a outcomesFates) check(n int) error {
	if len(a.Fates) != n {
		return fmt.Errorf("it is about %d outcomes, not about %d", len(a.Fates), n)
	}
	for _, f := range a.Fates {
		if f.rank() < 0 {
			return fmt.Errorf("%.20q is not what becomes of an outcome", f)
		}
	}
	return nil
}

// answerOutcomes counts what other gateways were told of this one's requests, until
// ctx ends.
func (g *Gateway) answerOutcomes(ctx context.Context) error {
	err := g.reported.Serve(ctx, func(_ string, asked outcomesAsked) (outcomesFates, error) {
		if len(asked.Outcomes) > maxOutcomes {
			return outcomesFates{}, fmt.Errorf("%d outcomes are more than %d", len(asked.Outcomes), maxOutcomes)
		}
		for i := range asked.Outcomes {
			if err := checkOutcome(&asked.Outcomes[i].Outcome); err != nil {
				return outcomesFates{}, fmt.Errorf("outcome %d: %w", i+1, err)
			}
		}
		a := outcomesFates{Fates: make([]fate, len(asked.Outcomes))}
		for i, o := range asked.Outcomes {
			o.Outcome.Key = o.Key
			a.Fates[i] = g.countOutcome(o.Outcome)
		}
		return a, nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
