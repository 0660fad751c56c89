package notify

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"failback/gateway/decision"
)

// Kind is what a message is about.
type Kind string

// The kinds of a Message.
const (
	Degraded    Kind = "degraded"     // an upstream gets no traffic any more
	Credential  Kind = "credential"   // a credential or quota failed, or ends
	SharedFault Kind = "shared_fault" // several upstreams fail for a reason they share
	Retreat     Kind = "retreat"      // a way back was broken off
	Waiting     Kind = "waiting"      // something goes on only when an operator says so
)

// required says who is needed for what.
func (k Kind) required() string {
	switch k {
	case Degraded:
		return "an operator, to see to the upstream and to bring traffic back"
	case Credential:
		return "whoever keeps the credential, to renew it"
	case SharedFault:
		return "whoever runs what the upstreams share"
	case Retreat:
		return "an operator, to find out why and to try again"
	case Waiting:
		return "an operator, to decide"
	}
	return "an operator"
}

// Message is something that needs a person. It holds no secret, no host and
// nothing of a client's request.
type Message struct {
	Kind     Kind
	Upstream string // empty: it is about none in particular
	Text     string // for people, what happened
	At       time.Time
	Fields   map[string]string // further facts, few and short
}

// Bounds of what is posted, in characters; maxFields in number.
const (
	maxText   = 2000
	maxField  = 256
	maxFields = 32
)

// pending is a message on its way.
type pending struct {
	Message
	id       string
	since    time.Time // when it was told
	next     time.Time // when it is tried next
	failures int
	repeated int
}

func newPending(m Message, now time.Time) *pending {
	if m.At.IsZero() {
		m.At = now
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return &pending{Message: m, id: hex.EncodeToString(id[:]), since: now, next: now}
}

// body is what is posted; see the package comment.
type body struct {
	ID          string            `json:"id"`
	Kind        Kind              `json:"kind"`
	Text        string            `json:"text"`
	Upstream    string            `json:"upstream"`
	Detail      string            `json:"detail"`
	Required    string            `json:"required"`
	At          time.Time         `json:"at"`
	Environment string            `json:"environment"`
	Instance    string            `json:"instance"`
	Repeated    int               `json:"repeated"`
	Fields      map[string]string `json:"fields"`
}

func (p *pending) encode(environment, instance string) ([]byte, error) {
	b := body{
		ID: p.id, Kind: p.Kind, Upstream: visible(p.Upstream, maxField), Detail: visible(p.Text, maxText), Required: p.Kind.required(),
		At: p.At.UTC(), Environment: visible(environment, maxField), Instance: visible(instance, maxField),
		Repeated: p.repeated, Fields: map[string]string{},
	}
	for _, k := range firstKeys(p.Fields, maxFields) {
		b.Fields[visible(k, maxField)] = visible(p.Fields[k], maxField)
	}
	b.Text = disarmed(line(b))
	return json.Marshal(b)
}

// line is the message in one line.
func line(b body) string {
	s := ""
	if b.Environment != "" {
		s = "[" + b.Environment + "] "
	}
	if b.Upstream != "" {
		s += b.Upstream + " "
	}
	s += b.Kind.words()
	if b.Detail != "" {
		s += ": " + b.Detail
	}
	return s + again(b.Repeated)
}

func again(repeated int) string {
	if repeated == 0 {
		return ""
	}
	return fmt.Sprintf(" (last of %d within a minute)", repeated+1)
}

// of says of which time is what is told at another, which seconds tell apart.
func of(happened, told time.Time) string {
	happened, told = happened.UTC(), told.UTC()
	switch s := happened.Format("2006-01-02 15:04:05Z"); {
	case happened.Unix() == told.Unix():
		return ""
	case s[:len(time.DateOnly)] != told.Format(time.DateOnly):
		return " (of " + s + ")"
	default:
		return " (of " + s[len(time.DateOnly)+1:] + ")"
	}
}

func (k Kind) words() string {
	switch k {
	case SharedFault:
		return "shared fault"
	case Waiting:
		return "asks for a step"
	}
	return visible(string(k), maxField)
}

// event is the escalation for log and console, of a time: that of the message for
// what needs a person, later for what became of the message, which then says of when
// it is. Nobody is said to have been told unless notified says where delivery was
// confirmed.
func (p *pending) event(at time.Time, notified, result, detail string) decision.Event {
	return decision.Event{
		Kind: decision.KindEscalation, Time: at, Provider: p.Upstream, Reason: string(p.Kind),
		Detail:   visible(detail, maxText) + again(p.repeated) + of(p.At, at),
		Required: p.Kind.required(), Notified: notified, Result: result,
	}
}
