package text

import (
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"failback/gateway/operator/api"
)

// The kinds of events that are written in a way of their own.
const (
	KindBreaker     = "breaker_transition"
	KindStep        = "traffic_step"
	KindHealth      = "health_transition"
	KindCommand     = "operator_command"
	KindReload      = "config_reload"
	KindCredential  = "credential"
	KindPassthrough = "passthrough"
	KindCooling     = "model_cooling"
	KindEscalation  = "escalation"
)

// Event writes what happened in one line, without its time and author:
//
//	anthropic-eu-west-1 share 0% > 5%  "probe ok" rev 118
//	anthropic-us-east-1 text CLOSED > OPEN  12/20 failed (server_error x11)
func Event(e *api.Event) string {
	var p parts
	p.word(e.Provider)
	switch e.Event {
	case KindHealth:
		p.change(strings.ToUpper(e.From), strings.ToUpper(e.To))
		if e.Why != "" {
			p.word(` "` + e.Why + `"`)
		}
		if e.Why == "" || e.Detail != "" {
			p.cause(e)
		}
	case KindStep:
		if !IsStep(e) { // of the failback, not of its share
			p.word(Words(e.Action))
			p.word(e.Reason)
			p.note(e)
			break
		}
		p.word("share")
		p.change(percent(e.From), percent(e.To))
		p.note(e)
		if e.Reason != "" && e.Reason != "raised" && e.Reason != "lowered" {
			p.word("(" + e.Reason + ")")
		}
		if _, why, ok := strings.Cut(e.Detail, ": "); ok && e.Reason == "retreat" {
			p.word(" " + why)
		}
	case KindBreaker:
		p.word(e.Capability)
		p.change(state(e.From), state(e.To))
		p.note(e)
		p.cause(e)
	case KindCommand:
		p.word(e.Capability)
		p.word(Words(e.Action))
		from, to := e.From, e.To
		if e.Action == "share" {
			from, to = percent(from), percent(to)
		}
		p.change(from, to)
		p.result(e.Result)
		p.note(e)
		if e.Result != api.ResultOK {
			p.cause(e)
		}
	case KindEscalation:
		p.word(Words(e.Reason) + " needs " + e.Required + ";")
		switch {
		case e.Notified != "none" && e.Notified != "":
			p.word("told: " + e.Notified)
		case e.Result == api.ResultFailed:
			p.word("nobody was told, given up")
		default:
			p.word("nobody was told so far")
		}
		if e.Detail != "" {
			p.word(" " + e.Detail)
		}
	default:
		p.word(Words(e.Event))
		p.word(e.Capability)
		p.word(e.Model)
		if !strings.Contains(e.Event, e.Action) {
			p.word(Words(e.Action))
		}
		p.change(e.From, e.To)
		p.result(e.Result)
		p.note(e)
		p.cause(e)
	}
	return Visible(p.String())
}

// IsStep reports whether e changed a share: traffic_step tells of plans too.
func IsStep(e *api.Event) bool {
	return e.Event == KindStep && (e.Action == "" || e.Action == "share")
}

// By names who made e, "auto" for the gateway itself.
func By(e *api.Event) string {
	if e.By == "" {
		return "auto"
	}
	return Visible(e.By)
}

// ByMachine reports whether nobody typed what by names: the gateway did it by
// itself, or by a plan that somebody approved.
func ByMachine(by string) bool {
	return by == "" || by == "auto" || strings.HasPrefix(by, "plan:")
}

// Failed reports whether e is a command that did not take effect.
func Failed(e *api.Event) bool {
	return e.Event == KindCommand && e.Result != "" && e.Result != api.ResultOK
}

// parts joins words with spaces.
type parts struct{ strings.Builder }

func (p *parts) word(s string) {
	if s == "" {
		return
	}
	if p.Len() > 0 {
		p.WriteByte(' ')
	}
	p.WriteString(s)
}

func (p *parts) change(from, to string) {
	p.word(from)
	if to != "" && from != "" {
		p.word(">")
	}
	p.word(to)
}

// note adds what was typed and the revision.
func (p *parts) note(e *api.Event) {
	if e.Why != "" {
		p.word(` "` + e.Why + `"`)
	}
	if e.Revision != 0 && e.Event != KindBreaker {
		p.word("rev " + strconv.FormatUint(e.Revision, 10))
	}
}

func (p *parts) cause(e *api.Event) {
	switch {
	case e.Detail != "":
		p.word(" " + e.Detail)
	case e.Reason != "" && (e.Event == KindBreaker || e.Event == KindCommand):
		p.word(" " + Words(e.Reason))
	case e.Reason != "":
		p.word(" " + e.Reason)
	}
}

func (p *parts) result(r string) {
	if r != "" && r != api.ResultOK {
		p.word(strings.ToUpper(r))
	}
}

// percent writes a share of an event, which is a bare number of percent.
func percent(s string) string {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return s
	}
	return s + "%"
}

// Path writes how a request went, step by step: which candidates were skipped
// and why, which were attempted and how that ended.
//
//	anthropic-us-east-1 skipped: breaker_open > vertex-us-central1 ok
func Path(d *api.Decision) string {
	var b strings.Builder
	step := func(s string) {
		if b.Len() > 0 {
			b.WriteString(" > ")
		}
		b.WriteString(s)
	}
	asked, tried := Tried(d), make([]bool, len(d.Candidates))
	for _, c := range asked {
		if c >= 0 {
			tried[c] = true
		}
	}
	next := 0
	ended := func(of int) {
		name := d.Attempts[next].Provider
		if of >= 0 {
			name = nameOf(d, of)
		}
		step(name + " " + d.Attempts[next].Class)
		next++
	}
	answered := func() bool { return next == len(d.Attempts) && next > 0 && d.Attempts[next-1].Class == "ok" }
	for i := 0; i < len(d.Candidates) && !answered(); i++ {
		c := &d.Candidates[i]
		switch {
		case tried[i]:
			// All attempts up to the last on this candidate.
			last := next
			for j := next; j < len(d.Attempts); j++ {
				if asked[j] == i {
					last = j + 1
				}
			}
			for next < last {
				ended(asked[next])
			}
		case c.Skipped != "":
			step(nameOf(d, i) + " skipped: " + c.Skipped)
		}
	}
	for next < len(d.Attempts) {
		ended(asked[next])
	}
	if b.Len() == 0 {
		step(d.Reason)
	}
	return Visible(b.String())
}

// CutWay is a way of a request, or a line that ends with one, in n columns with
// its last step whole, as far as that has room: it says who answered. What came
// before is cut, and marked.
func CutWay(s string, n int, mark string) string {
	i := strings.LastIndex(s, " > ")
	if ansi.StringWidth(s) <= n || i < 0 || ansi.StringWidth(s[i:]) > n*2/3 {
		return s
	}
	return ansi.Truncate(s[:i], n-ansi.StringWidth(s[i:]), mark) + s[i:]
}

// Milliseconds writes a duration given in milliseconds; nil is "none".
func Milliseconds(ms *float64) string {
	if ms == nil {
		return "none"
	}
	return Seconds(*ms / 1000)
}
