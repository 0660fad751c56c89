package ui

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
	"failback/runbooks"
	"failback/ui/text"
)

// itself puts what the gateway says of itself and of what it stands on.
func (l *live) itself(name string, s *api.State) {
	out, clock := l.m.th.outside, l.d.clock(l.now)
	ago := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return text.Age(clock.Sub(t)) + " ago"
	}
	well := func(says string) { l.put(name, styled(l.sure(), says)) }
	switch name {
	case runbooks.LiveFault:
		f := s.SharedFault
		if f == nil {
			well("none is shared")
			return
		}
		l.put(name, row{{"SHARED FAULT " + out(f.Reason), bad}, {" for " + text.Age(clock.Sub(f.Since)), normal}},
			plain(out(strings.Join(f.Upstreams, ", "))), styled(dim, out(f.Detail)))
	case runbooks.LiveDependencies:
		l.dependencies(s, ago)
	case runbooks.LiveGateways:
		if len(s.Gateways) == 0 {
			l.put(name, plain("the store is this gateway's own"))
			return
		}
		silent := slices.DeleteFunc(slices.Clone(s.Gateways), func(p api.Peer) bool { return p.Answers })
		n, of := len(s.Gateways)-len(silent), len(s.Gateways)
		r := styled(l.sure(), strconv.Itoa(n)+"/"+strconv.Itoa(of)+" answer")
		if len(silent) > 0 {
			r = styled(bad, strconv.Itoa(n)+"/"+strconv.Itoa(of)+" answer")
		}
		l.put(name, r)
		l.some(len(silent), func(i int) {
			l.put("", plain(l.called(silent[i].Instance)), styled(bad, "silent, last seen "+ago(silent[i].LastSeen)))
		})
	case runbooks.LiveStore:
		switch {
		case s.Store.Error != "":
			l.put(name, row{{"writes fail", bad}, {" for " + text.Age(clock.Sub(s.Store.Since)), normal}}, styled(dim, out(s.Store.Error)))
		default:
			well("can be written")
		}
		for i := range s.Upstreams {
			if u := &s.Upstreams[i]; u.Unsynced {
				l.put("", plain(l.called(u.Name)), styled(warn, "share "+percent(u.Share)+" UNSYNCED"))
			}
		}
		if p := s.Passthrough; p != nil && p.Unsynced {
			l.put("", plain("passthrough"), styled(warn, "UNSYNCED: at this gateway alone"))
		}
		for i := range s.Incidents {
			if h := &s.Incidents[i]; h.Unsynced {
				l.put("", plain("incident "+out(h.ID)), styled(warn, "its record is UNSYNCED"))
			}
		}
	case runbooks.LiveJobs:
		late := slices.DeleteFunc(slices.Clone(s.Jobs), func(j api.Job) bool { return !j.Late })
		switch {
		case len(s.Jobs) == 0:
			l.put(name, styled(dim, "none is known"))
		case len(late) == 0:
			well("all in time")
		}
		label := name
		l.some(len(late), func(i int) {
			l.put(label, row{{out(late[i].Name) + " late", bad}, {", last " + ago(late[i].LastSuccess), normal}}, styled(dim, out(late[i].Error)))
			label = ""
		})
	case runbooks.LiveLog:
		switch {
		case s.Log.Error != "":
			l.put(name, styled(bad, "cannot be written"), styled(dim, out(s.Log.Error)))
		case s.Log.Dropped > 0:
			l.put(name, styled(warn, text.Counted(s.Log.Dropped, "line")+" dropped since the start"))
		default:
			well("no line dropped")
		}
		if n := s.Audit.Pending; n > 0 || s.Audit.Lost > 0 {
			l.put("audit", styled(bad, text.Counted(n, "entry")+" in memory alone, "+text.Count(s.Audit.Lost)+" lost"), styled(dim, out(s.Audit.Error)))
		}
	case runbooks.LiveTraces:
		t := &s.Traces
		switch {
		case !t.Configured:
			l.put(name, styled(dim, "not configured"))
		case t.Error != "":
			l.put(name, styled(warn, "refused "+ago(t.ErrorAt)), plain(text.Counted(t.Dropped, "span")+" dropped"), styled(dim, out(t.Error)))
		default:
			l.put(name, plain(text.Counted(t.Exported, "span")+" taken, "+text.Count(t.Dropped)+" dropped"))
		}
	case runbooks.LiveNotify:
		n := &s.Notify
		switch {
		case !n.Configured:
			l.put(name, styled(warn, "nobody is told: no webhook"))
		case n.LastError != "":
			r := row{{"not told", bad}}
			if !n.LastErrorAt.IsZero() {
				r = r.add(normal, ", tried "+ago(n.LastErrorAt))
			}
			waiting := strconv.Itoa(n.Pending) + " waiting"
			if !n.Oldest.IsZero() {
				waiting += ", since " + text.Clock(n.Oldest, clock)
			}
			l.put(name, r, plain(waiting), styled(dim, out(n.LastError)))
		case n.LastOK.IsZero() && n.Lost == 0:
			l.put(name, styled(dim, "nothing was to be told yet"))
		default:
			well("confirmed " + ago(n.LastOK))
		}
		if n.Configured && n.Lost > 0 {
			l.put("", styled(bad, text.Count(n.Lost)+" given up"))
		}
	case runbooks.LiveIncident:
		if len(s.Incidents) == 0 {
			l.put(name, styled(dim, "none is open"))
			return
		}
		label := name
		l.some(len(s.Incidents), func(i int) {
			h := &s.Incidents[i]
			r := row{{"since " + text.Clock(h.OpenedAt, clock), normal}}
			switch m := &h.Milestones; {
			case !m.TrafficBack.IsZero():
				r = r.add(normal, ", traffic back "+text.Clock(m.TrafficBack, clock))
			case !m.Recovered.IsZero():
				r = r.add(normal, ", recovered "+text.Clock(m.Recovered, clock))
			default:
				r = r.add(warn, ", not recovered")
			}
			l.put(label, plain(out(h.Title)), r, plain(text.Counted(len(h.Unanswered), "question")+" open"))
			label = ""
		})
	case runbooks.LiveSessions:
		if len(s.Sessions) == 0 {
			l.put(name, styled(dim, "no console is known"))
			return
		}
		label := name
		l.some(len(s.Sessions), func(i int) {
			c := &s.Sessions[i]
			who := out(c.Name)
			if c.You {
				who += " (you)"
			}
			l.put(label, plain(who), styled(dim, "active "+ago(cmp.Or(c.Active, c.LastSeen))))
			label = ""
		})
	}
}

// dependencies are those that failed, or how many did not.
func (l *live) dependencies(s *api.State, ago func(time.Time) string) {
	out := l.m.th.outside
	var failed []*api.Dependency
	unknown := 0
	for i := range s.Dependencies {
		switch d := &s.Dependencies[i]; d.Result {
		case "failed":
			failed = append(failed, d)
		case "ok":
		default:
			unknown++
		}
	}
	switch {
	case len(s.Dependencies) == 0:
		l.put("depends on", styled(dim, "no shared dependency is declared"))
	case len(failed) == 0 && unknown == 0:
		l.put("depends on", styled(l.sure(), "all "+strconv.Itoa(len(s.Dependencies))+" ok"))
	case len(failed) == 0:
		l.put("depends on", styled(dim, strconv.Itoa(unknown)+" of "+strconv.Itoa(len(s.Dependencies))+" not known"))
	}
	label := "depends on"
	l.some(len(failed), func(i int) {
		d := failed[i]
		l.put(label, row{{out(d.Name) + " failed", bad}, {" " + ago(d.Since), normal}}, styled(dim, out(d.Detail)))
		label = ""
	})
}
