package ui

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/runbooks"
	"failback/sources"
	"failback/ui/text"
)

// ticksBefore is how long before an incident was opened its ticks may be: as long
// as traffic must be back before new trouble opens another incident.
const ticksBefore = time.Hour

// tickRecord is what incidents have of the ticks of a runbook.
type tickRecord struct {
	// in is the incident that has the tick of a step, as it stands here.
	in map[int]string
	// back are ticks that were taken away here and still stand in an incident.
	back map[recordedTick]bool
	// sending: one batch is on its way, and the next one waits for it, so that a
	// tick and what takes it away arrive as they were made.
	sending bool
}

type recordedTick struct {
	incident string
	step     int
}

// sentTick is a step that is sent to an incident; done is false where its tick is
// taken away.
type sentTick struct {
	step int
	done bool
}

// tickBatch are ticks on their way into one incident, in their order.
type tickBatch struct {
	of       *reading
	book     *runbooks.Runbook
	incident string
	ticks    []sentTick
	took     int // of ticks, from the first on
}

// untick takes the tick of a step away. The incident id, empty if none is open,
// is then owed that; a tick in another one's record stays there, and that one is
// returned.
func (r *reading) untick(step int, id string) (stays string) {
	in := r.record.in[step]
	delete(r.ticks, step)
	delete(r.record.in, step)
	if in == "" || in != id {
		return in
	}
	r.owe(recordedTick{id, step})
	return ""
}

func (r *reading) owe(t recordedTick) {
	if r.record.back == nil {
		r.record.back = make(map[recordedTick]bool)
	}
	r.record.back[t] = true
}

// owed is what the record of an incident lacks: ticks that no incident has, made
// in its time, and those taken away that it still has; by step.
func (r *reading) owed(h *api.IncidentHead) []sentTick {
	var send []sentTick
	for step, at := range r.ticks {
		if r.record.in[step] == "" && at.After(h.OpenedAt.Add(-ticksBefore)) {
			send = append(send, sentTick{step, true})
		}
	}
	for t := range r.record.back {
		if _, again := r.ticks[t.step]; t.incident == h.ID && !again {
			send = append(send, sentTick{t.step, false})
		}
	}
	slices.SortFunc(send, func(a, b sentTick) int { return cmp.Compare(a.step, b.step) })
	return send
}

// took notes that an incident has what was sent.
func (r *reading) took(id string, t sentTick) {
	delete(r.record.back, recordedTick{id, t.step})
	if !t.done {
		return
	}
	if _, ticked := r.ticks[t.step]; !ticked { // it was taken away meanwhile
		r.owe(recordedTick{id, t.step})
		return
	}
	if r.record.in == nil {
		r.record.in = make(map[int]string)
	}
	r.record.in[t.step] = id
}

// tickStep ticks the step under the cursor off, or takes its tick away.
func (m *model) tickStep() tea.Cmd {
	r, step := m.reading(), m.runbookStep().Number
	if _, ticked := r.ticks[step]; !ticked {
		r.ticks[step] = m.live.clock(m.now)
		return m.keepTicks("ticked here alone", "")
	}
	return m.keepTicks("taken away here alone", r.untick(step, m.openIncidentID()))
}

// untickAll takes all ticks of the runbook away.
func (m *model) untickAll() tea.Cmd {
	m.say(normal, "no step is ticked")
	r, id, stays := m.reading(), m.openIncidentID(), ""
	for _, step := range slices.Sorted(maps.Keys(r.ticks)) {
		stays = cmp.Or(r.untick(step, id), stays)
	}
	return m.keepTicks("no step is ticked here", stays)
}

// keepTicks sends what the open incident lacks of the runbook's ticks, if writing
// is armed. here says what was done at this console; stays is another incident
// that keeps its ticks, if one does.
func (m *model) keepTicks(here, stays string) tea.Cmd {
	if stays != "" {
		m.say(dim, here+": incident "+m.th.outside(stays)+" keeps its own")
	}
	h, r := m.startIncident(&m.live), m.reading()
	if h == nil || len(r.owed(h)) == 0 {
		return nil
	}
	if why := m.noWrite(); why != "" {
		m.say(dim, here+", not in incident "+m.th.outside(h.ID)+": "+why)
		return nil
	}
	return m.sendTicks(r, m.runbook.open)
}

// sendTicks sends what the open incident lacks of a runbook's ticks; nil if that
// is nothing, or if it has to wait.
func (m *model) sendTicks(r *reading, book *runbooks.Runbook) tea.Cmd {
	h := m.startIncident(&m.live)
	if h == nil || r.record.sending || m.noWrite() != "" {
		return nil
	}
	b := tickBatch{of: r, book: book, incident: h.ID, ticks: r.owed(h)}
	if len(b.ticks) == 0 {
		return nil
	}
	r.record.sending = true
	ctx, src, steps := m.ctx, m.src, book.Steps()
	return func() tea.Msg {
		msg := recordedMsg{what: b.steps()}
		for _, t := range b.ticks {
			tick := api.Tick{Runbook: b.book.ID, Step: t.step, Done: t.done}
			if t.step <= len(steps) { // the runbook may be another than when it was ticked
				tick.Words = steps[t.step-1].Words()
			}
			msg.result, msg.err = src.Give(ctx, func(ctx context.Context, a sources.API) (*api.Result, error) {
				return a.IncidentTick(ctx, b.incident, tick)
			})
			if msg.err != nil {
				break
			}
			b.took++
		}
		msg.ticks = &b
		return msg
	}
}

// steps names what is sent.
func (b *tickBatch) steps() string {
	if len(b.ticks) == 1 {
		return "step " + strconv.Itoa(b.ticks[0].step)
	}
	return text.Counted(len(b.ticks), "step")
}

// counted says how many ticks the incident has taken, and how many were taken out
// of it.
func (b *tickBatch) counted() string {
	in := 0
	for _, t := range b.ticks[:b.took] {
		if t.done {
			in++
		}
	}
	kept, back := text.Counted(in, "tick")+" kept", text.Counted(b.took-in, "tick")+" taken back"
	switch in {
	case 0:
		return back
	case b.took:
		return kept
	}
	return kept + ", " + back
}

// takeTicks notes what of a batch is in the incident, and sends what was ticked
// since. After a failure that waits for the next tick.
func (m *model) takeTicks(msg recordedMsg) tea.Cmd {
	b := msg.ticks
	b.of.record.sending = false
	for _, t := range b.ticks[:b.took] {
		b.of.took(b.incident, t)
	}
	said := "incident " + m.th.outside(b.incident) + ": "
	switch {
	case msg.err != nil:
		if b.took > 0 {
			said += b.counted() + "; "
		}
		m.say(bad, said+"step "+strconv.Itoa(b.ticks[b.took].step)+" was not recorded, the next tick sends it again: "+m.th.outside(sources.Why(msg.err)))
		return nil
	case len(b.ticks) == 1 && msg.result != nil:
		m.say(good, m.th.outside(msg.result.Message)) // that somebody ticked it before, too; it names the incident
	default:
		m.say(good, said+b.counted())
	}
	return m.sendTicks(b.of, b.book)
}
