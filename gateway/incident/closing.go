package incident

import (
	"fmt"
	"strings"

	"failback/gateway/operator/api"
)

// questions are what is asked before an incident is closed.
var questions = map[string]string{
	api.QuestionWindow:    "Was the observation window at full share held?",
	api.QuestionSampled:   "Were degraded answers sampled, and what came of it?",
	api.QuestionForbidden: "Was it checked that nothing fell back that may not?",
	api.QuestionUsers:     "Which users are to be told, and who tells them?",
	api.QuestionPrimary:   "Is the primary back, or is it decided to stay on the fallback?",
	api.QuestionRunbook:   "Was the runbook's entry written, or which one is to be?",
}

// QueryForbidden is the canned query that must find nothing.
const QueryForbidden = "not-allowed"

// Standing is how one upstream stands now.
type Standing struct {
	Upstream string
	State    string
	Share    int
	Window   string // for people: how much of its step's window was served
}

// Facts are what is known of each question, of some nothing.
func Facts(r Record, standings []Standing) map[string]string {
	c, m := &r.Counts, &r.Milestones
	f := map[string]string{}
	var windows, primary []string
	for _, s := range standings {
		primary = append(primary, fmt.Sprintf("%s %s, share %d%%", s.Upstream, s.State, s.Share))
		if s.Window != "" {
			windows = append(windows, s.Upstream+": "+s.Window)
		}
	}
	since := Counted(r)
	f[api.QuestionWindow] = strings.Join(windows, "; ")
	sampled := c.Semantic.Degraded.Good + c.Semantic.Degraded.Bad
	f[api.QuestionSampled] = fmt.Sprintf("%s, %d judged, %d of them bad, %s", counted(c.Degraded, "degraded answer"), sampled, c.Semantic.Degraded.Bad, since)
	f[api.QuestionForbidden] = fmt.Sprintf("%s against policy %s; failback query %s lists what the log has of them", counted(c.Forbidden, "answer"), since, QueryForbidden)
	f[api.QuestionUsers] = fmt.Sprintf("%s failed, %s answered degraded, %s", counted(c.Failed, "request"), wasOrWere(c.Degraded), since)
	switch {
	case !m.TrafficBack.IsZero():
		primary = append([]string{"traffic back since " + Clock(m.TrafficBack)}, primary...)
	case !m.Recovered.IsZero():
		primary = append([]string{"technically recovered since " + Clock(m.Recovered) + ", traffic is not back"}, primary...)
	case len(r.Troubles) > 0:
		primary = append([]string{"not recovered"}, primary...)
	}
	f[api.QuestionPrimary] = strings.Join(primary, "; ")
	f[api.QuestionRunbook] = ticks(r)
	return f
}

// ticked is the newest tick of a step, or its taking back; one that is not done if
// there is none.
func (r *Record) ticked(runbook string, step int) (newest api.IncidentEntry) {
	for _, e := range r.Entries {
		if e.Kind == api.EntryTick && e.Runbook == runbook && e.Step == step {
			newest = e.IncidentEntry
		}
	}
	return newest
}

// ticks says which steps of which runbooks stand ticked.
func ticks(r Record) string {
	steps := map[string]map[int]bool{}
	for _, e := range r.Entries {
		if e.Kind != api.EntryTick {
			continue
		}
		if steps[e.Runbook] == nil {
			steps[e.Runbook] = map[int]bool{}
		}
		steps[e.Runbook][e.Step] = e.Done
	}
	var all []string
	for _, name := range sortedKeys(steps) {
		n := 0
		for _, done := range steps[name] {
			if done {
				n++
			}
		}
		all = append(all, fmt.Sprintf("%s: %s ticked", name, counted(n, "step")))
	}
	if len(all) == 0 {
		return "no step of a runbook was ticked"
	}
	return strings.Join(all, "; ")
}

func closing(r Record, facts map[string]string) []api.ClosingQuestion {
	var l []api.ClosingQuestion
	for _, id := range api.ClosingQuestions {
		a := r.Answers[id]
		q := asked(id, a) // with the fact as it was
		if r.Open() {
			q.Fact = facts[id]
		}
		l = append(l, q)
	}
	return l
}

func asked(id string, a Answer) api.ClosingQuestion {
	return api.ClosingQuestion{ID: id, Text: questions[id], Fact: a.Fact, Answer: a.Text, By: a.By, At: a.At}
}
