package operator

import (
	"net/http"
	"slices"
	"strings"

	"failback/gateway/operator/api"
)

// The actions of Control.ChangeIncident, in the audit and in operator_command
// events.
const (
	ActionIncidentOpen   = incidentAction + "open"
	ActionIncidentNote   = incidentAction + "note"
	ActionIncidentTick   = incidentAction + "tick"
	ActionIncidentAnswer = incidentAction + "answer"
	ActionIncidentClose  = incidentAction + "close"
	ActionIncidentReopen = incidentAction + "reopen"
)

// incidentAction is what they begin with.
const incidentAction = "incident_"

const (
	maxTitleLength = 200
	maxStep        = 1000
)

func (s *Server) getIncidents(w http.ResponseWriter, r *http.Request, _ identity) {
	if _, e := query(r); e != nil {
		s.refuse(w, e)
		return
	}
	a := s.o.Control.Incidents()
	if a.Incidents == nil {
		a.Incidents = []api.IncidentHead{}
	}
	s.answer(w, http.StatusOK, a)
}

func (s *Server) getIncident(w http.ResponseWriter, r *http.Request, _ identity) {
	if _, e := query(r); e != nil {
		s.refuse(w, e)
		return
	}
	in, err := s.o.Control.Incident(r.PathValue("id"))
	if err != nil {
		s.refuse(w, asError(err))
		return
	}
	s.answer(w, http.StatusOK, in)
}

// reasonOf is what the reason of a command is to who gave it, and how many bytes it
// may have.
func reasonOf(action string) (what string, most int) {
	switch action {
	case ActionIncidentOpen:
		return "title", maxTitleLength
	case ActionIncidentNote:
		return "note", maxReasonLength
	case ActionIncidentTick:
		return "wording of the step", maxReasonLength
	}
	return "reason", maxReasonLength
}

// checkIncident tests a command about an incident; any other passes.
func checkIncident(c *api.Command, action string) *api.Error {
	blank := strings.TrimSpace(c.Reason) == ""
	switch action {
	case ActionIncidentOpen:
		if blank {
			return invalid("the title is missing: an incident is opened under one, as the reason")
		}
	case ActionIncidentNote:
		if blank {
			return invalid("the note is missing: its text is the reason")
		}
	case ActionIncidentTick:
		switch {
		case strings.TrimSpace(c.Runbook) == "":
			return invalid("runbook is missing")
		case len(c.Runbook) > maxNameLength:
			return invalid("the runbook's name is over %d bytes", maxNameLength)
		case c.Step < 1 || c.Step > maxStep:
			return invalid("step %d is not from 1 to %d", c.Step, maxStep)
		case c.Done == nil:
			return invalid("done is missing: true, or false to take the tick back")
		}
	case ActionIncidentAnswer:
		if !slices.Contains(api.ClosingQuestions, c.Question) {
			e := invalid("question %q is none that is asked", cutText(c.Question, 64))
			e.Hint = "there are " + join(api.ClosingQuestions)
			return e
		}
		switch {
		case strings.TrimSpace(c.Answer) == "":
			return invalid("answer is missing")
		case len(c.Answer) > maxReasonLength:
			return invalid("the answer is over %d bytes", maxReasonLength)
		}
	case ActionIncidentClose:
		if c.Override && blank {
			return invalid("an override needs a reason")
		}
	}
	return nil
}
