package text

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"failback/gateway/operator/api"
)

// Status writes a state without what others than the gateway know of it. Ages
// and times to come are against the gateway's own clock, s.At.
func Status(s *api.State) string { return status(s, nil, nil) }

func status(s *api.State, f *Fallback, changes []api.Event) string {
	var b strings.Builder
	now := s.At
	env := s.Environment
	if env == "" {
		env = "(no environment)"
	}
	fmt.Fprintf(&b, "failback %s %s  %s\n", Visible(env), Visible(s.Instance), Visible(s.Scope))
	fmt.Fprintf(&b, "gateway     version %s, pid %d, up %s, at %s\n", orNone(s.Version), s.PID, Age(now.Sub(s.StartedAt)), now.UTC().Format(time.RFC3339))
	you := orNone(s.You.Name) + " (" + orNone(s.You.Role) + ")"
	if s.You.ReadOnlyWhy != "" {
		you += ", read-only: " + Visible(s.You.ReadOnlyWhy)
	}
	paragraph(&b, 0, "you", you)
	for _, n := range Notices(s, now) {
		paragraph(&b, 0, n.Word, n.Text)
	}
	t := &s.Traffic
	paragraph(&b, 0, "users", fmt.Sprintf("%s req/s, failed %s, first output p95 %s, in flight %d, client retries %s/s",
		Number(t.RPS, Rate), Number(t.FailedRatio, Percent), Number(t.FirstOutputP95, Seconds), t.InFlight, Number(t.ClientRetries, Rate)))
	paragraph(&b, 0, "fallback", fmt.Sprintf("%s over 1m, %s req/s, retry budget %s of %s",
		Number(t.FallbackRatio, Percent), Number(t.FallbackRPS, Rate), Rate(s.RetryBudget.Available), Rate(s.RetryBudget.Size)))
	if f != nil {
		b.WriteString(f.lines())
	}
	paragraph(&b, 0, "last write", lastWrite(s, now))
	b.WriteByte('\n')
	b.WriteString(upstreams(s, changes, now))
	b.WriteString(healths(s, now))
	if len(s.Tasks) > 0 {
		b.WriteByte('\n')
		rows := make([][]string, len(s.Tasks))
		for i := range s.Tasks {
			t := &s.Tasks[i]
			rows[i] = []string{t.Name, t.Fallback, t.OnUnavailable, Number(t.RPS, Rate), t.UserSees}
		}
		b.WriteString(Table([]string{"TASK", "FALLBACK", "UNAVAILABLE", ">REQ/S", "USER SEES"}, rows))
	}
	if len(s.Models) > 0 {
		b.WriteByte('\n')
		var rows [][]string
		for _, m := range s.Models {
			for _, c := range m.Candidates {
				sub := "no"
				if c.Substitute {
					sub = "yes"
				}
				rows = append(rows, []string{m.Name, c.Upstream, strconv.FormatFloat(c.Weight, 'g', -1, 64), sub, c.Model})
			}
		}
		b.WriteString(Table([]string{"MODEL", "CANDIDATE", ">WEIGHT", "SUBSTITUTE", "ITS MODEL"}, rows))
	}
	if l := budgets(s); l != "" {
		b.WriteString("\n" + l)
	}
	fmt.Fprintf(&b, "\nconfiguration %s, hash %s, loaded %s\n", orNone(s.Config.Path), orNone(s.Config.Hash), Clock(s.Config.LoadedAt, now))
	fmt.Fprintf(&b, "decision log  %s, %s written, %s dropped\n", orNone(s.Log.Target), Counted(s.Log.Written, "line"), Count(s.Log.Dropped))
	b.WriteString(traces(&s.Traces, now))
	b.WriteString(ownWork(s, now))
	if len(s.Settings) > 0 {
		b.WriteByte('\n')
		rows := make([][]string, len(s.Settings))
		for i, v := range s.Settings {
			rows[i] = []string{v.Key, v.Origin, v.Value}
		}
		b.WriteString(Table([]string{"SETTING", "FROM", "VALUE"}, rows))
	}
	return b.String()
}

// upstreams writes a row of each upstream that fits a page, and below it what
// its breaker does if that is not plainly closed, and its next step up.
func upstreams(s *api.State, changes []api.Event, now time.Time) string {
	if len(s.Upstreams) == 0 {
		return "no upstream is configured\n"
	}
	header := []string{"UPSTREAM", "BREAKER", ">SHARE", ">LIVE", ">REQ/S", ">ERR", ">P95", ">REV"}
	measured := Measured(s)
	if measured {
		header = slices.Insert(header, 1, "HEALTH")
	}
	rows := make([][]string, len(s.Upstreams))
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		breaker := "none"
		if w := Worst(u.Breakers); w != nil {
			breaker = BreakerShort(w, now)
		}
		rows[i] = []string{
			u.Name, breaker, Share(u), Live(u),
			Number(u.RPS, Rate), Number(u.ErrorRatio, Percent), FirstOutput(u), strconv.FormatUint(u.Revision, 10),
		}
		if measured {
			rows[i] = slices.Insert(rows[i], 1, HealthShort(u))
		}
	}
	lines := strings.SplitAfter(Table(header, rows), "\n")
	var b strings.Builder
	b.WriteString(lines[0])
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		b.WriteString(lines[i+1])
		if w := Worst(u.Breakers); w != nil && Breaker(w, now) != state(closed) {
			t := Breaker(w, now)
			if w.Forced != "" {
				t = "FORCED " + Visible(strings.ToUpper(w.Forced)+" by "+w.ForcedBy) + ", ends in " + left(w.ForcedUntil, now)
			} else {
				at, least := Since(u, changes)
				t += ", for " + For(at, least, now)
			}
			paragraph(&b, 2, "breaker", strings.TrimSpace(Visible(w.Capability)+" "+t))
		}
		if u.Unsynced {
			paragraph(&b, 2, "UNSYNCED", "in force here, not yet written down")
		}
		if u.NextStep.Share != 0 || u.Stated() && u.Share < 100 {
			paragraph(&b, 2, "next step", Next(u, now))
		}
	}
	return b.String()
}

// ownWork writes how the gateway does what nobody asks it for; empty for a
// version that does not say.
func ownWork(s *api.State, now time.Time) string {
	if s.Store.Kind == "" {
		return ""
	}
	var b strings.Builder
	line := func(label, t string) { paragraph(&b, 0, label+strings.Repeat(" ", 13-len(label)), Visible(t)) }
	store := s.Store.Kind
	if s.Store.Error != "" {
		store += ", writes fail: " + s.Store.Error
	}
	line("store", store)
	for _, kept := range []struct{ label, err string }{{"numbers", s.Sources.Prometheus.Error}, {"lines", s.Sources.Loki.Error}} {
		if kept.err != "" {
			line(kept.label, kept.err)
		}
	}
	if len(s.Gateways) > 0 {
		line("gateways", peers(s.Gateways, now))
	}
	late := 0
	for i := range s.Jobs {
		if s.Jobs[i].Late {
			late++
		}
	}
	jobs := strconv.Itoa(len(s.Jobs)) + ", all in time"
	if late > 0 {
		jobs = strconv.Itoa(len(s.Jobs)) + ", late " + strconv.Itoa(late)
	}
	line("jobs", jobs)
	if len(s.Dependencies) > 0 {
		var ds []string
		for i := range s.Dependencies {
			d := &s.Dependencies[i]
			t := d.Name + " " + d.Result
			if !d.At.IsZero() {
				t += " (checked " + Age(now.Sub(d.At)) + " ago)"
			}
			ds = append(ds, t)
		}
		line("dependencies", strings.Join(ds, ", "))
	}
	line("notify", heard(s.Notify.Configured, "webhook", s.Notify.LastOK, now))
	line("ping", heard(s.Ping.Configured, "configured", s.Ping.LastOK, now))
	return b.String()
}

// peers names the gateways of a store, and says which of them are silent.
func peers(gs []api.Peer, now time.Time) string {
	names := make([]string, len(gs))
	for i := range gs {
		g := &gs[i]
		names[i] = g.Instance
		switch {
		case g.You:
			names[i] += " (this one)"
		case !g.Answers:
			names[i] += " SILENT for " + Age(now.Sub(g.LastSeen))
		}
	}
	return strconv.Itoa(len(gs)) + ": " + strings.Join(names, ", ")
}

// heard says whether anybody is told, and when that was confirmed last.
func heard(configured bool, whom string, last, now time.Time) string {
	switch {
	case !configured:
		return "nobody is configured"
	case last.IsZero():
		return whom + ", nothing confirmed yet"
	}
	return whom + ", last confirmed " + Age(now.Sub(last)) + " ago"
}

// Next writes the next step up of u, or why it may not be taken, now being the
// gateway's clock.
func Next(u *api.Upstream, now time.Time) string {
	switch {
	case u.NextStep.Share == 0 && u.Share >= 100:
		return "none, it has all"
	case u.NextStep.Share == 0:
		return "none"
	case ForcedOpen(u, now) != "":
		return strconv.Itoa(u.NextStep.Share) + "% not now: " + ForcedOpen(u, now)
	case u.NextStep.BlockedBy != "":
		return strconv.Itoa(u.NextStep.Share) + "% not now: " + Visible(u.NextStep.BlockedBy)
	}
	return strconv.Itoa(u.NextStep.Share) + "%"
}

func lastWrite(s *api.State, now time.Time) string {
	w := s.LastWrite
	if w == nil {
		return "none"
	}
	said := Clock(w.Time, now) + " by " + By(w) + ": " + Event(w)
	if w.Event == api.KindHealth && w.Revision != 0 { // any other says it itself
		said += ", rev " + strconv.FormatUint(w.Revision, 10)
	}
	return said
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return Visible(s)
}

// decisionsWidth is how wide the text of decisions is at most, idWidth an id in
// it.
const (
	decisionsWidth = 120
	idWidth        = 40
)

// Decisions writes decisions as `failback decisions` prints them, the last that
// ended first: each in a row, and below it its model, reason and way.
func Decisions(d *api.Decisions) string {
	var b strings.Builder
	if len(d.Decisions) == 0 {
		b.WriteString("no decisions match\n")
	} else {
		rows := make([][]string, len(d.Decisions))
		ids := 0
		for i := range d.Decisions {
			ids = min(max(ids, Width(d.Decisions[i].RequestID), 7), idWidth)
		}
		// What is left beside the other columns, which have at most so much.
		task := max(decisionsWidth-24-ids-18-4-7-6-12, 8)
		for i := range d.Decisions {
			v := &d.Decisions[i]
			rows[i] = []string{
				v.Time.UTC().Format("2006-01-02T15:04:05.000Z"), ansi.Truncate(Visible(v.RequestID), idWidth, "~"), ansi.Truncate(Visible(v.TaskType), task, "~"), v.WorkflowStatus,
				strconv.Itoa(v.HTTPStatus), Milliseconds(v.FirstOutputMS), Seconds(v.DurationMS / 1000),
			}
		}
		lines := strings.SplitAfter(Table([]string{"ACCEPTED", "REQUEST", "TASK", "STATUS", ">HTTP", ">1ST OUT", ">TOOK"}, rows), "\n")
		b.WriteString(lines[0])
		for i := range d.Decisions {
			v := &d.Decisions[i]
			b.WriteString(lines[i+1])
			way := orDash(Visible(v.Model)) + ", route " + orDash(Visible(v.Route)) + ", " + orDash(Visible(v.Reason)) + ": " + Path(v)
			b.WriteString("    " + ansi.Truncate(CutWay(way, decisionsWidth-4, "~"), decisionsWidth-4, "~") + "\n")
			if why := followed(v); why != "" {
				b.WriteString("    " + ansi.Truncate(why, decisionsWidth-4, "~") + "\n")
			}
		}
	}
	fmt.Fprintf(&b, "%d shown of %s since start, %s in the last minute\n", len(d.Decisions), Count(d.Total), Count(uint64(max(d.PerMinute, 0))))
	return b.String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Result writes what a command came to.
func Result(r *api.Result) string {
	var b strings.Builder
	b.WriteString(Visible(r.Message))
	b.WriteByte('\n')
	if r.AuditPending {
		b.WriteString("it is in force, and not in the audit yet: that cannot be written now\n")
	}
	if u := r.Upstream; u != nil {
		fmt.Fprintf(&b, "%s share %s, revision %d, next step %s\n", Visible(u.Name), Share(u), u.Revision, Next(u, time.Time{}))
		if u.Unsynced {
			b.WriteString("UNSYNCED: in force in this gateway, not yet written down\n")
		}
	}
	if len(r.Report) > 0 {
		rows := make([][]string, len(r.Report))
		for i, v := range r.Report {
			rows[i] = []string{v.Key, v.Result}
		}
		b.WriteString(Table([]string{"KEY", "RESULT"}, rows))
	}
	return b.String()
}
