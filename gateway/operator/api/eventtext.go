package api

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// Text says for people in one line what e is, without its time and author, the
// same on every screen and in every record:
//
//	anthropic-eu-west-1 share 0% > 5%  "probe ok" rev 118
//	anthropic-us-east-1 text CLOSED > OPEN  12/20 failed (server_error x11)
//
// Names and reasons in it are as they came: who shows it on a terminal makes them
// safe.
func (e *Event) Text() string {
	var p words
	p.add(e.Provider)
	switch e.Event {
	case KindHealth:
		p.change(strings.ToUpper(e.From), strings.ToUpper(e.To))
		if e.Why != "" {
			p.add(` "` + e.Why + `"`)
		}
		if e.Why == "" || e.Detail != "" {
			p.cause(e)
		}
	case KindStep:
		detail := failbackID.ReplaceAllString(e.Detail, "")
		if !e.IsStep() { // of the failback, not of its share
			p.add(Words(e.Action))
			p.add(Words(e.Reason))
			p.typed(e)
			p.apart(detail)
			break
		}
		p.add("share")
		p.change(Percent(e.From), Percent(e.To))
		p.typed(e)
		if e.Reason != "" && e.Reason != "raised" && e.Reason != "lowered" { // its numbers say so
			p.add("(" + Words(e.Reason) + ")")
		}
		if e.Reason != Degraded { // the change of health beside it says why
			p.apart(detail)
		}
	case KindBreaker:
		p.add(e.Capability)
		p.change(BreakerWord(e.From), BreakerWord(e.To))
		p.typed(e)
		p.cause(e)
	case KindCommand:
		p.add(e.Capability)
		p.add(Words(e.Action))
		from, to := e.From, e.To
		if e.Action == "share" {
			from, to = Percent(from), Percent(to)
		}
		p.change(from, to)
		p.result(e.Result)
		p.typed(e)
		if e.Result != ResultOK {
			p.cause(e)
		}
	case KindEscalation:
		// Whether anybody knows comes first: the line may be cut.
		p.add(Words(e.Reason) + ", " + e.told() + ":")
		p.add("needs " + e.Required)
		p.apart(e.Detail)
	default:
		p.add(Words(e.Event))
		p.add(e.Capability)
		p.add(e.Model)
		if !strings.Contains(e.Event, e.Action) {
			p.add(Words(e.Action))
		}
		p.change(e.From, e.To)
		p.result(e.Result)
		p.typed(e)
		p.cause(e)
	}
	return JoinWords(p...)
}

// IsStep reports whether e changed a share: traffic_step tells of plans too.
func (e *Event) IsStep() bool {
	return e.Event == KindStep && (e.Action == "" || e.Action == "share")
}

// told says of an escalation who is known to have heard of it.
func (e *Event) told() string {
	switch {
	case e.Notified != "none" && e.Notified != "":
		return "told " + e.Notified
	case e.Result == ResultFailed:
		return "nobody was told, given up"
	}
	return "nobody was told so far"
}

// BreakerWord writes a breaker's state for people: what is not known here stays as
// it is, in capitals.
func BreakerWord(state string) string {
	switch state {
	case "half_open":
		return "HALF"
	case "ramping":
		return "RAMP"
	case "":
		return "??"
	}
	return strings.ToUpper(state)
}

// failbackID is what the detail of a step begins with: the id of its failback,
// which is for machines.
var failbackID = regexp.MustCompile(`^failback \d{4}-\d\d-\d\dT\d\d(\.\d+)?(, |: |$)`)

// words are those of a line, none of them empty.
type words []string

func (p *words) add(s string) {
	if s != "" {
		*p = append(*p, s)
	}
}

// apart adds what explains the words before it.
func (p *words) apart(s string) {
	if s != "" {
		p.add(" " + s)
	}
}

func (p *words) change(from, to string) {
	p.add(from)
	if to != "" && from != "" {
		p.add(">")
	}
	p.add(to)
}

// typed adds what was typed and the revision.
func (p *words) typed(e *Event) {
	if e.Why != "" {
		p.add(` "` + e.Why + `"`)
	}
	if e.Revision != 0 && e.Event != KindBreaker {
		p.add("rev " + strconv.FormatUint(e.Revision, 10))
	}
}

func (p *words) cause(e *Event) {
	switch {
	case e.Detail != "":
		p.apart(e.Detail)
	case e.Event == KindBreaker || e.Event == KindCommand:
		p.apart(Words(e.Reason))
	default:
		p.apart(e.Reason)
	}
}

func (p *words) result(r string) {
	if r != "" && r != ResultOK {
		p.add(strings.ToUpper(r))
	}
}

// Percent writes a share of an event, which is a bare number of percent.
func Percent(s string) string {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return s
	}
	return s + "%"
}

// JoinWords joins those that are not empty with spaces.
func JoinWords(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// Words writes an identifier as people read it: the name of an action, of a kind or
// of a state that has no word of its own.
//
//	incident_note: incident note
func Words(identifier string) string { return strings.ReplaceAll(identifier, "_", " ") }
