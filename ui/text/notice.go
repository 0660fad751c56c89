package text

import (
	"strconv"
	"strings"
	"time"

	"failback/gateway/operator/api"
)

// Notice is a state of the whole gateway that nobody may overlook.
type Notice struct {
	Word  string // a word or two, in capitals
	Text  string
	Grave bool // clients are or may be hurt by it
}

// Notices lists what is out of the ordinary in s, gravest first, now being the
// gateway's clock.
func Notices(s *api.State, now time.Time) []Notice {
	var ns []Notice
	add := func(grave bool, word, text string) { ns = append(ns, Notice{word, Visible(text), grave}) }
	if p := s.Passthrough; p != nil {
		t := "fixed order " + strings.Join(p.Order, " > ") + passedAt(s) + "; share and breakers are ignored; ends in " + left(p.Until, now) + "; by " + p.By
		if p.Why != "" {
			t += `: "` + p.Why + `"`
		}
		add(true, "PASSTHROUGH", t)
	}
	if f := s.SharedFault; f != nil {
		add(true, "SHARED FAULT", sharedFault(f, now))
	}
	if s.Draining {
		add(true, "DRAINING", "this gateway is stopping and refuses new requests soon")
	}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		for j := range u.Breakers {
			if b := &u.Breakers[j]; b.Forced != "" {
				add(b.Forced == closed, "OVERRIDE", b.Bucket+" forced "+b.Forced+" by "+b.ForcedBy+", ends in "+left(b.ForcedUntil, now))
			}
		}
	}
	if t := s.Store.Error; t != "" {
		add(false, "STORE", "writes fail"+forHow(s.Store.Since, now)+": "+t+"; a raise is refused, a lowering is in force here and UNSYNCED")
	}
	for i := range s.Gateways {
		if g := &s.Gateways[i]; !g.Answers {
			add(false, "SILENT", "gateway "+g.Instance+" of this store has said nothing for "+Age(now.Sub(g.LastSeen))+": it ended without stopping, or does not reach the store")
		}
	}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		if u.Credential != "" {
			t := u.Name + " cools its keys: " + u.Credential
			if !u.CredentialUntil.IsZero() {
				t += ", next try in " + left(u.CredentialUntil, now)
			}
			add(true, "CREDENTIAL", t)
		}
		if u.Unsynced {
			add(false, "UNSYNCED", u.Name+" share "+strconv.Itoa(u.Share)+"% is in force here and not yet written down")
		}
	}
	for i := range s.Dependencies {
		if d := &s.Dependencies[i]; d.Result == "failed" {
			add(false, "DEPENDENCY", dependency(d, now))
		}
	}
	if t := untaken(&s.Traces, now); t != "" {
		add(false, "TRACES", t)
	}
	for i := range s.Incidents {
		if v := &s.Incidents[i]; v.Unsynced {
			add(false, "UNSYNCED", "the newest part of the record of incident "+v.ID+" is in memory alone")
		}
	}
	if t := untold(&s.Notify, now); t != "" {
		add(false, "NOTIFY", t)
	}
	if t := late(s.Jobs, now); t != "" {
		add(false, "LATE", t)
	}
	if t := unpinged(&s.Ping, now); t != "" {
		add(false, "PING", t)
	}
	if n := s.Audit.Pending; n > 0 || s.Audit.Lost > 0 {
		t := Counted(n, "entry") + " in memory alone"
		if s.Audit.Lost > 0 {
			t += ", " + Count(s.Audit.Lost) + " lost"
		}
		if s.Audit.Error != "" {
			t += ": " + s.Audit.Error
		}
		add(false, "AUDIT", t)
	}
	if s.Config.LastError != "" {
		add(false, "CONFIG", "a reload was refused "+Age(now.Sub(s.Config.LastErrorAt))+" ago: "+s.Config.LastError)
	}
	if len(s.Config.NeedsRestart) > 0 {
		add(false, "RESTART", "changed and waiting for a restart: "+strings.Join(s.Config.NeedsRestart, ", "))
	}
	if s.Log.Dropped > 0 || s.Log.Error != "" {
		t := Counted(s.Log.Dropped, "line") + " of the decision log dropped"
		if s.Log.Error != "" {
			t += ": " + s.Log.Error
		}
		add(false, "LOG", t)
	}
	if t := shadow(s); t != "" {
		add(false, "SHADOW", t)
	}
	if s.APIVersion != api.Version && s.APIVersion != 0 {
		add(false, "VERSION", "the gateway speaks operator API "+strconv.Itoa(s.APIVersion)+", this program "+strconv.Itoa(api.Version)+": what is new in one is not seen by the other")
	}
	if s.Demo != "" {
		add(false, "DEMO", s.Demo)
	}
	// Stable: within a grade the order above is the order of weight.
	var sorted []Notice
	for _, grave := range []bool{true, false} {
		for _, n := range ns {
			if n.Grave == grave {
				sorted = append(sorted, n)
			}
		}
	}
	return sorted
}

// passedAt says at which gateways a passthrough is in force; empty if the
// gateway does not say how far its commands reach.
func passedAt(s *api.State) string {
	switch {
	case s.Passthrough.Unsynced:
		return ", UNSYNCED: at this gateway alone until the store answers"
	case s.Scope != "":
		return ", " + s.Scope
	}
	return ""
}

// sharedFault says what a fault that switching cannot escape means now.
func sharedFault(f *api.SharedFault, now time.Time) string {
	t := "nobody to switch to, requests end at once"
	switch {
	case f.NextProbeAt.IsZero():
	case f.NextProbeAt.After(now):
		t += "; next probe in " + left(f.NextProbeAt, now)
	default:
		t += "; probe due"
	}
	t += "; " + f.Reason + forHow(f.Since, now) + ": " + strings.Join(f.Upstreams, ", ")
	if f.Detail != "" {
		t += ": " + f.Detail
	}
	return t
}

func dependency(d *api.Dependency, now time.Time) string {
	t := d.Name + " (" + d.Kind + ", " + d.Domain + ") failed" + forHow(d.Since, now)
	if d.Detail != "" {
		t += ": " + d.Detail
	}
	if len(d.Upstreams) > 0 {
		t += "; named by " + strings.Join(d.Upstreams, ", ")
	}
	return t
}

// untold says that those who were to be told have not been; empty if they have.
func untold(n *api.Notify, now time.Time) string {
	if !n.Configured || n.LastError == "" && n.Lost == 0 {
		return ""
	}
	t := "not told: webhook"
	if n.LastError != "" {
		t += ": " + n.LastError
		if !n.LastErrorAt.IsZero() {
			t += ", " + Age(now.Sub(n.LastErrorAt)) + " ago"
		}
	}
	if n.Pending > 0 {
		t += "; " + strconv.Itoa(n.Pending) + " waiting"
		if !n.Oldest.IsZero() {
			t += ", the oldest for " + Age(now.Sub(n.Oldest))
		}
	}
	if n.Lost > 0 {
		t += "; " + Count(n.Lost) + " given up"
	}
	return t
}

// untaken says that the collector takes no spans; empty if it does.
func untaken(t *api.Traces, now time.Time) string {
	if !t.Configured || t.Error == "" {
		return ""
	}
	s := "the collector takes no spans: " + t.Error
	if !t.ErrorAt.IsZero() {
		s += ", " + Age(now.Sub(t.ErrorAt)) + " ago"
	}
	if !t.LastOK.IsZero() {
		s += "; it last took some " + Age(now.Sub(t.LastOK)) + " ago"
	}
	if t.Dropped > 0 {
		s += "; " + Count(t.Dropped) + " given up"
	}
	return s
}

// late says which jobs should have succeeded since; empty if none.
func late(jobs []api.Job, now time.Time) string {
	var ls []string
	for i := range jobs {
		j := &jobs[i]
		if !j.Late {
			continue
		}
		t := j.Name + " never succeeded"
		if !j.LastSuccess.IsZero() {
			t = j.Name + " last succeeded " + Age(now.Sub(j.LastSuccess)) + " ago"
		}
		t += ", due every " + span(j.EverySeconds)
		if j.Error != "" {
			t += ": " + j.Error
		}
		ls = append(ls, t)
	}
	return strings.Join(ls, "; ")
}

// unpinged says that the dead man's switch is not held, and so will soon raise
// the alarm; empty if it is, or if there is none.
func unpinged(p *api.Ping, now time.Time) string {
	t := ""
	switch {
	case !p.Configured:
		return ""
	case p.Held != "":
		t = "the dead man's switch is let go, " + p.Held
	case p.LastError != "":
		t = "the dead man's switch does not answer: " + p.LastError
		if !p.LastErrorAt.IsZero() {
			t += ", " + Age(now.Sub(p.LastErrorAt)) + " ago"
		}
	default:
		return ""
	}
	if !p.LastOK.IsZero() {
		t += "; last held " + Age(now.Sub(p.LastOK)) + " ago"
	}
	return t
}

// forHow is " for 2m10s"; empty if it is not known since when.
func forHow(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return " for " + Age(now.Sub(since))
}

// shadow says which upstreams have breakers that only record.
func shadow(s *api.State) string {
	var names []string
	for i := range s.Upstreams {
		for j := range s.Upstreams[i].Breakers {
			if s.Upstreams[i].Breakers[j].Mode == "shadow" {
				names = append(names, s.Upstreams[i].Name)
				break
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	n := len(names)
	more := ""
	if n > 3 {
		names, more = names[:3], " and "+strconv.Itoa(n-3)+" more"
	}
	return "breakers of " + strings.Join(names, ", ") + more + " only record what they would do"
}
