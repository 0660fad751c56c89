package text

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"failback/gateway/operator/api"
)

// Weight is how much a line deserves to be seen among others.
type Weight uint8

const (
	Calm    Weight = iota // what should be: a primary's answer, a breaker that closes
	Notable               // another than the primary answered, something changed
	Grave                 // somebody got no whole answer, or a command did not take effect
)

// The event of a decision's line.
const kindDecision = "model_route_selected"

// LogLine writes a line of the decision log in one line that can be read, without
// its time: a decision with what it came to and its way, an event as Event does
// under its author's name, any other line as it is.
//
//	req-0120 policy_question degraded_completed server_error: anthropic-us-east-1 server_error > vertex-us-central1 ok
func LogLine(line string) (string, Weight) {
	if !strings.HasPrefix(strings.TrimLeft(line, " \t\r\n"), "{") {
		return Visible(line), Calm
	}
	var head struct {
		Event string `json:"event"`
	}
	if json.Unmarshal([]byte(line), &head) != nil || head.Event == "" {
		return Visible(line), Calm
	}
	switch head.Event {
	case kindDecision:
		var d api.Decision
		if json.Unmarshal([]byte(line), &d) == nil {
			return decisionLine(&d)
		}
	case api.KindBreaker, api.KindStep, api.KindHealth, api.KindCommand, api.KindReload, api.KindCredential, api.KindPassthrough, api.KindCooling, api.KindEscalation:
		var e api.Event
		if json.Unmarshal([]byte(line), &e) == nil {
			return By(&e) + " " + Event(&e), EventWeight(&e)
		}
	}
	return otherLine(head.Event, line), Notable
}

// decisionLine writes a decision.
func decisionLine(d *api.Decision) (string, Weight) {
	line := api.JoinWords(d.RequestID, d.TaskType, d.WorkflowStatus, d.Reason)
	if path := Path(d); path != Visible(d.Reason) {
		line += ": " + path
	}
	return Visible(line), StatusWeight(d.WorkflowStatus)
}

// StatusWeight is the weight of a workflow status.
func StatusWeight(status string) Weight {
	switch status {
	case "completed", "cancelled", "rejected", "":
		return Calm
	case "degraded_completed", "queued":
		return Notable
	}
	return Grave
}

// EventWeight is the weight of a change.
func EventWeight(e *api.Event) Weight {
	switch {
	case Failed(e), e.Event == api.KindBreaker && e.To == "open", e.Event == api.KindHealth && e.To == api.Degraded, e.Event == api.KindCredential:
		return Grave
	case e.Event == api.KindBreaker && e.To == closed, e.Event == api.KindHealth && e.To == api.Healthy:
		return Calm
	}
	return Notable
}

// unremarkable are the fields that say nothing about what happened.
var unremarkable = map[string]bool{"event": true, "time": true, "service_version": true, "instance": true, "seq": true}

// otherLine writes an event of a kind that has no form of its own: its fields,
// in their order.
func otherLine(event, line string) string {
	words := []string{api.Words(event)}
	for _, f := range LogFields(line) {
		if f.Value != "" && f.Value != "null" && !unremarkable[f.Name] {
			words = append(words, f.Name+"="+f.Value)
		}
	}
	return Visible(api.JoinWords(words...))
}

// LogField is one field of a line.
type LogField struct {
	Name string
	// Value of a string is its text, of anything else its JSON, without space.
	Value string
}

// LogFields returns the top-level fields of a line that is a JSON object, in the
// order in which they are written, each as often as it is; nil of any other
// line. They are text from outside.
func LogFields(line string) []LogField {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var fs []LogField
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil
		}
		key, _ := name.(string)
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return nil
		}
		fs = append(fs, LogField{key, fieldValue(raw)})
	}
	if _, err := d.Token(); err != nil {
		return nil
	}
	if _, err := d.Token(); err != io.EOF {
		return nil // more than one value
	}
	return fs
}

func fieldValue(raw json.RawMessage) string {
	var s string
	if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
