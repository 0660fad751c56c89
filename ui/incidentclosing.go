package ui

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// closeAnyway is the choice of a closing form that is no question.
const closeAnyway = "close all the same"

// closingWord says how far an open incident is from being closed, and what leads
// there.
func (m *model) closingWord(v *api.Incident) (string, style) {
	all := len(v.Closing)
	done := strconv.Itoa(all-len(v.Unanswered)) + " of " + strconv.Itoa(all) + " answered"
	if len(v.Unanswered) == 0 {
		return done + ": x closes it", good
	}
	return done + ", next is " + m.th.outside(v.Unanswered[0]) + ": a or x leads there", warn
}

// answer asks the closing questions, those without an answer first.
func (m *model) answer() {
	v := m.shownIncident()
	var choices []string
	for _, answered := range []bool{false, true} {
		for i := range v.Closing {
			if (v.Closing[i].Answer != "") == answered {
				choices = append(choices, v.Closing[i].ID)
			}
		}
	}
	if len(choices) == 0 {
		m.say(warn, "closing this incident asks nothing")
		return
	}
	m.openForm(m.answerForm("Answer incident "+m.th.outside(v.ID), v, choices))
}

// answerForm is a form for the questions of v that are among choices.
func (m *model) answerForm(title string, v *api.Incident, choices []string) *form {
	id := v.ID
	// seen are the questions as they were when the form was opened, or as a refusal
	// showed them: an answer that comes while somebody types is not seen yet.
	seen := make(map[string]api.ClosingQuestion)
	for _, q := range v.Closing {
		seen[q.ID] = q
	}
	return &form{
		title: title, about: id, label: "answer", choices: choices,
		refused: func(m *model, err error) string {
			e, ok := errors.AsType[*api.Error](err)
			if !ok || e.Question == nil {
				return sources.Why(err)
			}
			seen[e.Question.ID] = *e.Question
			d, now := m.d()
			return e.Question.By + " answered at " + text.Clock(e.Question.At, d.clock(now)) + ", which you had not seen. Nothing was replaced: read it above; enter then puts yours in its place, esc leaves it."
		},
		body: func(m *model, f *form, w int) []row {
			v := m.shownIncident()
			if v == nil {
				return nil
			}
			var rows []row
			for i, q := range v.Closing {
				if q.ID != f.choice() {
					continue
				}
				if was := seen[q.ID]; was.At.After(q.At) {
					q.Answer, q.By, q.At = was.Answer, was.By, was.At
				}
				rows = append(rows, wrap(strconv.Itoa(i+1)+"/"+strconv.Itoa(len(v.Closing))+"  "+m.th.outside(q.Text), w, strong)...)
				if q.Fact != "" {
					rows = append(rows, wrap("known here: "+m.th.outside(q.Fact), w, normal)...)
				}
				if q.Answer != "" {
					rows = append(rows, wrap("answered by "+m.th.outside(q.By)+": "+m.th.outside(q.Answer), w, dim)...)
				}
			}
			return rows
		},
		send: func(m *model, f *form, typed string) tea.Cmd {
			q := f.choice()
			was := seen[q].At
			return m.record(f, "an answer", func(ctx context.Context, a sources.API) (*api.Result, error) {
				return a.IncidentAnswer(ctx, id, q, typed, was)
			})
		},
	}
}

// closeIncident asks for a yes; while questions are open it leads to the first of
// them, and beyond the last to closing all the same.
func (m *model) closeIncident() {
	v := m.shownIncident()
	if len(v.Unanswered) > 0 {
		m.openForm(m.closingForm(v))
		return
	}
	id, title := v.ID, v.Title
	m.openForm(&form{
		title: "Close incident " + m.th.outside(id) + "?", about: id,
		body: func(m *model, _ *form, w int) []row {
			return append(wrap(m.th.outside(title), w, strong), wrap("Everything that closing asks is answered. Its record stays: failback incident report "+m.th.outside(id), w, normal)...)
		},
		send: func(m *model, f *form, _ string) tea.Cmd {
			return m.record(f, "closed", func(ctx context.Context, a sources.API) (*api.Result, error) { return a.CloseIncident(ctx, id) })
		},
	})
}

// closingForm is the answer form of an incident that somebody wants to close and
// that has questions without an answer.
func (m *model) closingForm(v *api.Incident) *form {
	id := v.ID
	f := m.answerForm("Close incident "+m.th.outside(id)+"? It asks first", v, append(slices.Clone(v.Unanswered), closeAnyway))
	question, answer := f.body, f.send
	f.body = func(m *model, f *form, w int) []row {
		v := m.shownIncident()
		if v == nil {
			return nil
		}
		left := m.th.outside(strings.Join(v.Unanswered, ", "))
		if f.choice() != closeAnyway {
			return append(question(m, f, w), wrap("Not answered yet: "+left+". To close it all the same: up.", w, warn)...)
		}
		var rows []row
		if left != "" {
			rows = wrap("Without an answer: "+left+".", w, warn)
		}
		return append(rows, wrap("To close it all the same, say why: that is recorded as an override.", w, normal)...)
	}
	f.chosen = func(f *form) {
		f.label = "answer"
		if f.choice() == closeAnyway {
			f.label = "why"
		}
	}
	f.send = func(m *model, f *form, typed string) tea.Cmd {
		if f.choice() != closeAnyway {
			return answer(m, f, typed)
		}
		return m.record(f, "closed", func(ctx context.Context, a sources.API) (*api.Result, error) {
			return a.CloseIncidentAnyway(ctx, id, typed)
		})
	}
	return f
}
