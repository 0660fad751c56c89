package ui

import (
	"context"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/ui/text"
)

// searchNow is how many decisions are searched at once with a key or an answer;
// what is left is searched beside.
const searchNow = 512

// takeDecisions takes an answer and keeps what it brings.
func (m *model) takeDecisions(a sources.Answer[api.Decisions]) {
	if m.live.decisions.Take(a) && a.Err == nil {
		m.live.seen.merge(a.Value.Decisions, &m.words)
	}
}

// search is the filter of the decisions: what of them matches, found bit by
// bit, the newest first.
type search struct {
	filter  string
	in      seen     // what is searched
	matched []uint64 // numbers of those that match, ascending
	done    uint64   // all from this number on are searched
	gen     uint64   // of the newest search beside
	running bool
}

// searchMsg answers a search beside.
type searchMsg struct {
	gen     uint64
	done    uint64
	matched []uint64
}

// step goes on as far as can be done at once: new decisions first.
func (s *search) step(in seen, filter string) {
	budget := searchNow
	if filter != s.filter || len(s.in.chunks) == 0 || s.in.first > in.first {
		s.restart(in, filter)
	} else if in.end() != s.in.end() || in.first != s.in.first || s.in.same(&in) != in.end() {
		same := in.same(&s.in)
		if same < s.done { // what was searched is not there any more
			s.restart(in, filter)
		} else {
			for len(s.matched) > 0 && s.matched[len(s.matched)-1] >= same {
				s.matched = s.matched[:len(s.matched)-1]
			}
			if in.end()-same > uint64(10*searchNow) {
				s.restart(in, filter)
			} else {
				s.in = in
				s.matched = append(s.matched, matching(context.Background(), &in, filter, same, in.end())...)
				budget -= int(in.end() - same)
			}
		}
		for len(s.matched) > 0 && s.matched[0] < in.first {
			s.matched = s.matched[1:]
		}
		s.done = max(s.done, in.first)
	}
	if budget > 0 && s.done > s.in.first && !s.running {
		from := max(s.done, s.in.first+uint64(budget)) - uint64(budget)
		s.matched = append(matching(context.Background(), &s.in, filter, from, s.done), s.matched...)
		s.done = from
	}
}

func (s *search) restart(in seen, filter string) {
	*s = search{filter: filter, in: in, done: in.end(), gen: s.gen + 1}
}

// left is how many decisions are not searched yet.
func (s *search) left() int { return int(s.done - min(s.in.first, s.done)) }

// matching are the numbers in [from, to) of decisions whose line has filter in
// it, as far as ctx lets it come.
func matching(ctx context.Context, in *seen, filter string, from, to uint64) []uint64 {
	var found []uint64
	for n := from; n < to; n++ {
		if n%seenChunk == 0 && ctx.Err() != nil {
			break
		}
		if strings.Contains(strings.ToLower(decisionText(in.at(n))), filter) {
			found = append(found, n)
		}
	}
	return found
}

// searchBeside searches what could not be searched at once.
func (m *model) searchBeside() tea.Cmd {
	s := &m.search
	f := m.lists[decisions].filter
	if f == "" || m.screen != decisions && m.screen != decision {
		return nil
	}
	s.step(m.source(decisions).seen, f)
	if s.left() == 0 || s.running {
		return nil
	}
	s.running = true
	s.gen++
	ctx, in, done, gen := m.ctx, s.in, s.done, s.gen
	return func() tea.Msg {
		return searchMsg{gen: gen, done: in.first, matched: matching(ctx, &in, f, in.first, done)}
	}
}

func (m *model) takeSearch(a searchMsg) {
	s := &m.search
	if a.gen != s.gen || !s.running {
		return // of a filter that is no more
	}
	s.running = false
	first := s.in.first
	from, _ := slices.BinarySearch(a.matched, first)
	s.matched = append(a.matched[from:], s.matched...)
	s.done = max(a.done, first)
}

// decisionList are rows of decisions, the newest first.
type decisionList struct {
	in      seen
	matched []uint64 // ascending
	all     bool     // without a filter
}

func (l *decisionList) len() int {
	if l.all {
		return l.in.len()
	}
	return len(l.matched)
}

func (l *decisionList) at(i int) *api.Decision {
	if l.all {
		return l.in.at(l.in.end() - 1 - uint64(i))
	}
	return l.in.at(l.matched[len(l.matched)-1-i])
}

// decisionRows returns the decisions that pass the filter.
func (m *model) decisionRows() decisionList {
	in := m.source(decisions).seen
	f := m.lists[decisions].filter
	if f == "" {
		return decisionList{in: in, all: true}
	}
	m.search.step(in, f)
	return decisionList{in: m.search.in, matched: m.search.matched}
}

// task is what policy says of a task; nil if nothing is known.
func (d *data) task(name string) *api.Task {
	s := d.state.Value()
	if s == nil {
		return nil
	}
	for i := range s.Tasks {
		if s.Tasks[i].Name == name {
			return &s.Tasks[i]
		}
	}
	return nil
}

// decisionBody is one decision opened.
func (m *model) decisionBody(w int) []row {
	v := m.openDecision()
	if v == nil {
		return []row{styled(dim, " there is nothing here")}
	}
	out := m.th.outside
	var rows []row
	add := func(label, value string) {
		if value != "" {
			rows = append(rows, entry(label, out(value), w, normal)...)
		}
	}
	add("accepted", v.Time.UTC().Format("2006-01-02T15:04:05.000Z"))
	add("request", v.RequestID)
	add("task", v.TaskType)
	kind := v.Endpoint
	if v.Stream {
		kind += ", stream"
	}
	add("model", v.Model+"  "+kind)
	add("conversation", v.Conversation)
	add("trace", v.TraceID)
	add("status", v.WorkflowStatus+", HTTP "+strconv.Itoa(v.HTTPStatus))
	by := v.SelectedProvider
	if by == "" {
		by = "nobody"
	}
	if v.SelectedModel != "" {
		by += ", " + v.SelectedModel
	}
	if v.Substitute {
		by += ", a substitute"
	}
	add("answered by", by+" (route "+v.Route+")")
	reason := v.Reason
	if s := text.Meaning(v.Reason); s != "" {
		reason += ": " + s
	}
	add("reason", reason)
	d, _ := m.d()
	add("policy", text.Rule(d.task(v.TaskType)))
	add("first output", text.Milliseconds(v.FirstOutputMS))
	add("took", text.Seconds(v.DurationMS/1000))
	add("deadline left", text.Seconds(v.RemainingDeadlineMS/1000))
	add("retry budget", whole0(v.RetryTokens)+" left after it")
	if v.CostUSD != nil {
		add("cost", "USD "+strconv.FormatFloat(*v.CostUSD, 'f', 6, 64))
	}
	if v.ClientRetry > 0 {
		add("client retry", strconv.Itoa(v.ClientRetry)+": the client repeats by itself")
	}
	if v.Sample > 0 && v.Sample < 1 {
		add("sampled", text.Percent(v.Sample)+" of such lines are kept")
	}
	rows = append(rows, nil, styled(accent, " CANDIDATES"))
	rows = append(rows, m.decisionCandidates(v, w)...)
	rows = append(rows, nil, styled(accent, " ATTEMPTS"))
	rows = append(rows, m.decisionAttempts(v, w)...)
	rows = append(rows, nil, styled(accent, " WHY"))
	for i, s := range text.Why(v) {
		rows = append(rows, item(strconv.Itoa(i+1), out(s), w)...)
	}
	return rows
}

// item is a numbered sentence, wrapped beside its number.
func item(n, s string, w int) []row {
	var rows []row
	for i, r := range wrap(s, max(w-5, 10), normal) {
		l := "     "
		if i == 0 {
			l = right(n, 3, "") + "  "
		}
		rows = append(rows, row{{l, dim}}.join(r))
	}
	return rows
}

func (m *model) decisionCandidates(v *api.Decision, w int) []row {
	if len(v.Candidates) == 0 {
		return []row{styled(dim, "   none")}
	}
	out := m.th.outside
	tried, by := text.Tried(v), text.Answered(v)
	g := [][]span{heads("PROVIDER", "WEIGHT", "SHARE", "WHAT BECAME OF IT", "MODEL")}
	var below [][]row
	answered := false // by one before it
	for i := range v.Candidates {
		c := &v.Candidates[i]
		what, st := "its turn did not come", dim
		meaning := ""
		switch {
		case answered:
		case c.Skipped != "":
			what, st = "skipped: "+out(c.Skipped), warn
			meaning = text.Meaning(c.Skipped)
			if c.SkippedWhy != "" {
				meaning = out(c.SkippedWhy) + "; " + meaning
			}
		case i == by:
			what, st, answered = "answered", good, true
		case slices.Contains(tried, i):
			what, st = "attempted", normal
		}
		g = append(g, []span{{out(c.Provider), normal}, {text.Rate(c.Weight), normal}, {percent(c.Share), normal}, {what, st}, {out(c.Model), normal}})
		below = append(below, under(meaning, w))
	}
	return weave(grid(g), below)
}

func (m *model) decisionAttempts(v *api.Decision, w int) []row {
	if len(v.Attempts) == 0 {
		return []row{styled(dim, "   none: nobody was asked")}
	}
	out := m.th.outside
	g := [][]span{heads("PROVIDER", "CAPABILITY", "CLASS", "HTTP", "1ST OUTPUT", "TOOK")}
	var below [][]row
	for i := range v.Attempts {
		a := &v.Attempts[i]
		st := bad
		var notes []string
		if a.Class == "ok" {
			st = good
		} else if s := text.Meaning(a.Class); s != "" {
			notes = append(notes, s)
		}
		if s := strings.TrimSpace(a.Code + " " + a.Detail); s != "" {
			notes = append(notes, s)
		}
		if a.UpstreamRequestID != "" {
			notes = append(notes, "its id "+a.UpstreamRequestID)
		}
		status := "none"
		if a.Status != 0 {
			status = strconv.Itoa(a.Status)
		}
		g = append(g, []span{
			{out(a.Provider), normal}, {out(a.Capability), normal}, {out(a.Class), st}, {status, normal},
			{text.Milliseconds(a.FirstOutputMS), normal}, {text.Seconds(a.DurationMS / 1000), normal},
		})
		lines := under(out(strings.Join(notes, "; ")), w)
		below = append(below, append(lines, under(out(attemptState(a)), w)...))
	}
	return weave(grid(g), below)
}

// attemptState is how things were when an attempt began and when it ended; empty of
// a version that does not say.
func attemptState(a *api.DecisionAttempt) string {
	var then, after []string
	if a.StartedMS != nil {
		then = append(then, "began at +"+whole0(*a.StartedMS)+"ms")
	}
	if a.Share != nil {
		then = append(then, "share "+percent(*a.Share))
	}
	if a.Weight != nil {
		then = append(then, "weight "+weight(*a.Weight))
	}
	if a.RemainingDeadlineMS != nil {
		after = append(after, text.Seconds(*a.RemainingDeadlineMS/1000)+" of the deadline")
	}
	if a.RetryTokens != nil {
		after = append(after, weight(*a.RetryTokens)+" of the retry budget")
	}
	s := strings.Join(then, ", ")
	if len(after) > 0 {
		s += "; left at its end: " + strings.Join(after, ", ")
	}
	return s
}
