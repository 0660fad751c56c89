package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"failback/gateway/incident"
	"failback/gateway/operator/api"
	"failback/runbooks"
	"failback/ui/text"
)

func incidentFlags(in *invocation) {
	commandFlags(in)
	in.flags.BoolVar(&in.override, "override", false, "close with questions unanswered; needs --reason")
	in.flags.StringVar(&in.seen, "seen", "", "answer in the place of the answer of this time, which was read")
	in.flags.StringVar(&in.runbooks, "runbooks", "", "directory of runbooks (*.md) that tick knows beside the built-in ones, or in the place of those of the same id")
}

// runIncident reads incidents and keeps their records.
func runIncident(in *invocation) error {
	if len(in.args) == 0 {
		return usagef("incident takes list, show, report, open, note, tick, answer, close or reopen; see --help")
	}
	verb, args := in.args[0], in.args[1:]
	want := func(n int, what string) error {
		if len(args) != n {
			return usagef("incident %s takes %s", verb, what)
		}
		return nil
	}
	does := func(f func(context.Context, *api.Client) (*api.Result, error)) error {
		return in.with(func(ctx context.Context, c *api.Client) (any, string, error) {
			r, err := f(ctx, c)
			if err != nil {
				return nil, "", err
			}
			return r, text.Result(r), nil
		})
	}
	if in.override && verb != "close" {
		return usagef("incident %s takes no --override", verb)
	}
	if in.runbooks != "" && verb != "tick" {
		return usagef("incident %s takes no --runbooks", verb)
	}
	seen, err := in.seenAnswer(verb)
	if err != nil {
		return err
	}
	switch verb {
	case "list":
		if err := want(0, "nothing more"); err != nil {
			return err
		}
		return in.with(func(ctx context.Context, c *api.Client) (any, string, error) {
			l, err := c.Incidents(ctx)
			if err != nil {
				return nil, "", err
			}
			return l, incidentList(l), nil
		})
	case "show", "report":
		if err := want(1, "an id; failback incident list shows them"); err != nil {
			return err
		}
		return in.with(func(ctx context.Context, c *api.Client) (any, string, error) {
			one, err := c.Incident(ctx, args[0])
			if err != nil {
				return nil, "", err
			}
			if verb == "report" {
				return one, incident.Report(*one), nil
			}
			return one, incidentText(one), nil
		})
	case "open":
		if err := want(1, "a title, in quotes"); err != nil {
			return err
		}
		return does(func(ctx context.Context, c *api.Client) (*api.Result, error) { return c.OpenIncident(ctx, args[0]) })
	case "note":
		if err := want(2, "an id and a text, in quotes"); err != nil {
			return err
		}
		return does(func(ctx context.Context, c *api.Client) (*api.Result, error) {
			return c.IncidentNote(ctx, args[0], args[1])
		})
	case "tick":
		if err := want(3, "an id, a runbook and a step"); err != nil {
			return err
		}
		step, err := strconv.Atoi(args[2])
		if err != nil {
			return usagef("incident tick: %q is no step", args[2])
		}
		words, err := in.stepWords(args[1], step)
		if err != nil {
			return err
		}
		return does(func(ctx context.Context, c *api.Client) (*api.Result, error) {
			return c.IncidentTick(ctx, args[0], api.Tick{Runbook: args[1], Step: step, Done: true, Words: words})
		})
	case "answer":
		if err := want(3, "an id, a question ("+strings.Join(api.ClosingQuestions, ", ")+") and an answer, in quotes"); err != nil {
			return err
		}
		return does(func(ctx context.Context, c *api.Client) (*api.Result, error) {
			return c.IncidentAnswer(ctx, args[0], args[1], args[2], seen)
		})
	case "close":
		if err := want(1, "an id"); err != nil {
			return err
		}
		if in.override {
			if strings.TrimSpace(in.reason) == "" {
				return usagef("--override needs --reason WHY")
			}
			return does(func(ctx context.Context, c *api.Client) (*api.Result, error) {
				return c.CloseIncidentAnyway(ctx, args[0], in.reason)
			})
		}
		return does(func(ctx context.Context, c *api.Client) (*api.Result, error) { return c.CloseIncident(ctx, args[0]) })
	case "reopen":
		if err := want(1, "an id"); err != nil {
			return err
		}
		return does(func(ctx context.Context, c *api.Client) (*api.Result, error) { return c.ReopenIncident(ctx, args[0]) })
	}
	return usagef("incident has no %q; it has list, show, report, open, note, tick, answer, close and reopen", verb)
}

// stepWords is a step in words. It refuses one of no runbook that this program has or
// --runbooks names. The gateway takes any: it has no runbooks.
func (in *invocation) stepWords(id string, step int) (string, error) {
	all, err := runbooks.Embedded()
	if err != nil {
		return "", err
	}
	extra := in.runbookDir()
	all = runbooks.Merge(all, extra.Runbooks)
	for i := range all {
		if all[i].ID != id {
			continue
		}
		steps := all[i].Steps()
		if step < 1 || step > len(steps) {
			return "", usagef("incident tick: runbook %s has no step %d; its steps are 1 to %d", id, step, len(steps))
		}
		return steps[step-1].Words(), nil
	}
	var ids []string
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	slices.Sort(ids)
	hint := "for one of your own name its directory with --runbooks DIR"
	if in.runbooks != "" {
		hint = "the built-in ones and " + in.runbooks + " were read"
	}
	errs := []error{usagef("incident tick: there is no runbook %q; there are %s; %s", id, strings.Join(ids, ", "), hint)}
	return "", errors.Join(append(errs, extra.Errors...)...)
}

// seenAnswer is the time of the answer that --seen names; zero without it.
func (in *invocation) seenAnswer(verb string) (time.Time, error) {
	if in.seen == "" {
		return time.Time{}, nil
	}
	if verb != "answer" {
		return time.Time{}, usagef("incident %s takes no --seen", verb)
	}
	t, err := time.Parse(time.RFC3339Nano, in.seen)
	if err != nil {
		return t, usagef("--seen %q is no time such as 2006-01-02T15:04:05.999Z: the refusal of an answer names it", in.seen)
	}
	return t, nil
}

func incidentList(l *api.Incidents) string {
	if len(l.Incidents) == 0 {
		return "none: no incident was opened, or the last was dropped 90 days after it was closed\n"
	}
	var b strings.Builder
	for _, h := range l.Incidents {
		b.WriteString(incidentLine(&h) + "\n")
	}
	return b.String()
}

func incidentLine(h *api.IncidentHead) string {
	s := fmt.Sprintf("%-6s  %s  %s  %s  since %s", text.Visible(h.State), text.Visible(h.ID), text.Visible(h.Cause), text.Visible(h.Title), incident.Clock(h.OpenedAt))
	switch {
	case h.State == api.IncidentClosed:
		s += fmt.Sprintf(", closed %s by %s", incident.Clock(h.ClosedAt), text.Visible(h.ClosedBy))
	case !h.Milestones.TrafficBack.IsZero():
		s += ", traffic back " + incident.Clock(h.Milestones.TrafficBack)
	case !h.Milestones.Recovered.IsZero():
		s += ", recovered " + incident.Clock(h.Milestones.Recovered)
	}
	if h.Unsynced {
		s += ", UNSYNCED: its newest part is in memory alone"
	}
	return s
}

func incidentText(i *api.Incident) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s", incidentLine(&i.IncidentHead))
	line("\nMILESTONES")
	for _, m := range incident.Milestones(i.Milestones) {
		at := "not yet"
		if !m.At.IsZero() {
			at = incident.Clock(m.At)
			if first := i.Milestones.FirstFailure; !first.IsZero() && m.At != first {
				at += "  +" + m.At.Sub(first).Round(time.Second).String()
			}
		}
		line("  %-21s %s", m.Text, at)
	}
	r := i.Requests
	line("\nCOUNTED  for all models, %s", text.Visible(i.Requests.Counted))
	line("REQUESTS  primary %d, degraded %d, failed %d, against policy %d", r.Primary, r.Degraded, r.Failed, r.Forbidden)
	line("\nLAYER      DEGRADED GOOD/BAD  PRIMARY GOOD/BAD")
	for _, l := range i.Layers {
		line("%-10s %-18s %s", text.Visible(l.Name), tallyText(&l, l.Degraded), tallyText(&l, l.Primary))
	}
	line("\nTIMELINE")
	if i.Lost > 0 {
		line("  %s", incident.LeftOut(i.Lost))
	}
	for _, e := range i.Timeline {
		line("  %s  %s  %s", incident.Clock(e.At), text.Visible(e.By), text.Visible(incident.What(&e)))
	}
	line("\nCLOSING")
	for _, q := range i.Closing {
		line("  %s: %s", text.Visible(q.ID), text.Visible(q.Text))
		if q.Fact != "" {
			line("    known: %s", text.Visible(q.Fact))
		}
		if q.Answer == "" {
			line("    not answered")
		} else {
			line("    %s, %s: %s", text.Visible(q.By), incident.Clock(q.At), text.Visible(q.Answer))
		}
	}
	return b.String()
}

// tallyText tells no outcome from none that is bad.
func tallyText(l *api.Layer, t api.Tally) string {
	if t.Good+t.Bad == 0 {
		return text.Visible(l.Nothing)
	}
	return fmt.Sprintf("%d/%d", t.Good, t.Bad)
}
