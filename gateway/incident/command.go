package incident

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"failback/gateway/operator/api"
)

// Weigh judges op, which a person asks for of r, before it is applied: whether it
// changes anything, and in words what is done or why there is nothing to do. anyway
// closes with questions unanswered. Its error is an *api.Error.
func (r Record) Weigh(op Op, anyway bool) (does bool, said string, err error) {
	switch op.Kind {
	case OpNote:
		if err := r.fullAt(maxNoted, maxNotedBytes); err != nil {
			return false, "", err
		}
		return true, "noted", nil
	case OpTick:
		if does, said = r.weighTick(op); does {
			err = r.fullAt(maxNoted, maxNotedBytes)
		}
		return does && err == nil, said, err
	case OpAnswer:
		return r.weighAnswer(op)
	case OpClose:
		if !r.Open() {
			return false, r.closedAlready(), nil
		}
		if left := r.Unanswered(); len(left) > 0 && !anyway {
			return false, "", &api.Error{
				Code: api.CodeBlocked, Message: fmt.Sprintf("incident %s: closing questions without an answer: %s", r.ID, strings.Join(left, ", ")),
				Hint: "answer them, or --override --reason WHY closes it all the same",
			}
		}
		return true, "closed", nil
	case OpReopen:
		if r.Open() {
			return false, r.openAlready(), nil
		}
		return true, "open again; it was closed by " + r.ClosedBy + " at " + Clock(r.ClosedAt), nil
	}
	return false, "", fmt.Errorf("incident %s: nobody asks for %q", r.ID, op.Kind)
}

func (r Record) weighTick(op Op) (does bool, said string) {
	what := fmt.Sprintf("step %d of %s", op.Step, op.Runbook)
	was := r.ticked(op.Runbook, op.Step)
	switch {
	case op.Done && was.Done:
		return false, fmt.Sprintf("%s is ticked already, by %s at %s", what, was.By, Clock(was.At))
	case op.Done:
		return true, what + " is ticked"
	case was.Done:
		return true, fmt.Sprintf("the tick of %s by %s at %s is taken back", what, was.By, Clock(was.At))
	}
	return false, what + " is not ticked"
}

func (r Record) weighAnswer(op Op) (does bool, said string, err error) {
	switch a := r.Answers[op.Question]; {
	case a.repeats(op):
		return false, op.Question + " is answered so already", nil
	case !a.replaceable(op):
		return false, "", r.unseen(op.Question)
	case a.Text != "":
		if err := r.fullAt(maxReplaced, maxReplacedBytes); err != nil {
			return false, "", err
		}
	}
	said = op.Question + " is answered"
	left := slices.DeleteFunc(r.Unanswered(), func(id string) bool { return id == op.Question })
	if r.Open() {
		said += "; " + leftToAnswer(left)
	}
	return true, said, nil
}

func leftToAnswer(left []string) string {
	if len(left) == 0 {
		return "all that closing asks is answered"
	}
	return fmt.Sprintf("%d of %d left: %s", len(left), len(api.ClosingQuestions), strings.Join(left, ", "))
}

// unseen refuses an answer to what somebody else answered.
func (r Record) unseen(question string) error {
	a := r.Answers[question]
	return &api.Error{
		Code:     api.CodeStaleRevision,
		Message:  fmt.Sprintf("incident %s: %s was answered by %s at %s, which was not seen: %s", r.ID, question, a.By, Clock(a.At), a.Text),
		Hint:     "read it; --seen " + a.At.UTC().Format(time.RFC3339Nano) + " answers in its place",
		Question: new(asked(question, a)),
	}
}

// Became is what was said of op once r took it and what others did meanwhile: of
// two that close it the first did, and of two answers the first stands.
func (r Record) Became(op Op, said string) (string, error) {
	switch op.Kind {
	case OpAnswer:
		for _, e := range slices.Backward(r.Entries) {
			if e.Kind == api.EntryAnswer && e.Refused && e.By == op.By && e.At.Equal(op.At) {
				return "", r.unseen(op.Question)
			}
		}
	case OpClose:
		if !r.Open() && r.ClosedBy != op.By {
			return r.closedAlready(), nil
		}
	}
	return said, nil
}

func (r Record) closedAlready() string {
	return "closed already, by " + r.ClosedBy + " at " + Clock(r.ClosedAt)
}

// openAlready says who opened r last, as far as its timeline has it.
func (r Record) openAlready() string {
	by, at := r.OpenedBy, r.OpenedAt
	for _, e := range r.Entries {
		if e.Kind == api.EntryReopened {
			by, at = e.By, e.At
		}
	}
	return "open already, by " + by + " at " + Clock(at)
}
