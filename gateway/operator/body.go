package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

const (
	maxOrder = 64
	maxFor   = 24 * time.Hour
	// What an override lasts if the command does not say.
	defaultForced      = "1h"
	defaultPassthrough = "30m"
)

// fields are the fields of a Command that mean something to an action. Any
// other is refused: whoever sent it believes that it does something.
var fields = map[string][]string{
	actionShare:       {"share", "undo", "action", "revision", "from", "reason", "override"},
	actionState:       {"state", "revision", "reason", "override"},
	actionBreaker:     {"action", "for", "reason"},
	actionPassthrough: {"action", "for", "order", "reason"},
	actionReload:      {"reason"},

	ActionIncidentOpen:   {"reason"},
	ActionIncidentNote:   {"reason"},
	ActionIncidentTick:   {"runbook", "step", "done", "reason"},
	ActionIncidentAnswer: {"question", "answer", "seen"},
	ActionIncidentClose:  {"override", "reason"},
	ActionIncidentReopen: {"reason"},
}

// readCommand reads and checks the body of a command. What could be read is
// returned with the error too, for the audit.
func readCommand(w http.ResponseWriter, r *http.Request, action, target string) (c api.Command, refused *api.Error) {
	if r.URL.RawQuery != "" {
		return c, invalid("a command takes no parameters in its address")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			e := invalid("the command is over %d bytes", maxBody)
			e.HTTPStatus = http.StatusRequestEntityTooLarge
			return c, e
		}
		return c, invalid("the command did not arrive whole")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if b = bytes.TrimSpace(b); len(b) == 0 {
		b = []byte("{}")
	}
	if e := readFields(b, fields[action], &c); e != nil {
		return c, e
	}
	return c, check(&c, action, target)
}

// readFields reads the one JSON object b, whose fields are known, by their exact
// names, and given once each. What is refused is as if it were absent, and all else
// is read in any case.
func readFields(b []byte, known []string, c *api.Command) (first *api.Error) {
	if !json.Valid(b) || b[0] != '{' {
		return invalid("the command is not a JSON object")
	}
	refuse := func(e *api.Error) {
		if first == nil {
			first = e
		}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	_, _ = d.Token()
	var seen []string
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return invalid("the command is not a JSON object")
		}
		switch {
		case !slices.Contains(known, name):
			e := invalid("field %q means nothing to this command", cutText(name, 64))
			e.Hint = "known are " + join(known)
			refuse(e)
		case slices.Contains(seen, name):
			refuse(invalid("field %q is given twice", name))
		default:
			seen = append(seen, name)
			if e := readField(name, value, c); e != nil {
				refuse(e)
			}
		}
	}
	return first
}

// readField reads the value of one known field. Of one that is refused c has
// nothing.
func readField(name string, value json.RawMessage, c *api.Command) *api.Error {
	object, err := json.Marshal(map[string]json.RawMessage{name: value})
	if err != nil {
		return invalid("the command is not understood")
	}
	with := *c
	err = json.Unmarshal(object, &with)
	if err == nil {
		*c = with
		return nil
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid("%s: a %s does not fit there", t.Field, cutText(t.Value, 64))
	}
	if _, ok := errors.AsType[*time.ParseError](err); ok {
		return invalid("a time is not written as RFC 3339 has it: 2006-01-02T15:04:05.999Z")
	}
	return invalid("the command is not understood")
}

// check tests c and fills in its defaults.
func check(c *api.Command, action, target string) *api.Error {
	if len(target) > maxNameLength {
		return invalid("the name is over %d bytes", maxNameLength)
	}
	reason, most := reasonOf(action)
	if e := checkTexts(c, reason); e != nil {
		return e
	}
	if len(c.Reason) > most {
		return invalid("the %s is over %d bytes", reason, most)
	}
	switch action {
	case actionShare:
		return checkShare(c)
	case actionState:
		return checkState(c)
	case actionBreaker:
		if _, ok := decision.ParseBucket(target); !ok {
			e := invalid("%q is no bucket", target)
			e.Hint = "a bucket is upstream:capability, the capability one of " + join(decision.Capabilities)
			return e
		}
		switch c.Action {
		case "auto":
			if c.For != "" {
				return invalid("auto lasts until it is changed: it takes no for")
			}
			return nil
		case "open", "close":
			return checkFor(c, defaultForced)
		}
		return invalid("action %q is not open, close or auto", cutText(c.Action, 64))
	case actionPassthrough:
		return checkPassthrough(c)
	}
	return checkIncident(c, action)
}

func checkShare(c *api.Command) *api.Error {
	switch {
	case c.Action != "":
		return checkPlan(c)
	case c.Undo && c.Share != nil:
		return invalid("undo puts back the former share: it takes no share")
	case c.Undo && c.Override:
		return invalid("undo is an override by itself: it takes none")
	case !c.Undo && c.Share == nil:
		return invalid("share or undo is missing")
	case c.Share != nil && (*c.Share < 0 || *c.Share > 100):
		return invalid("share %d is not a percentage", *c.Share)
	case c.From != nil && c.Share == nil:
		return invalid("from is the share that was seen beside the share asked for: undo takes none")
	case c.From != nil && (*c.From < 0 || *c.From > 100):
		return invalid("from %d is not a percentage", *c.From)
	case c.Override && strings.TrimSpace(c.Reason) == "":
		return invalid("an override needs a reason")
	}
	return nil
}

// checkPlan tests a command about the plan of steps as a whole.
func checkPlan(c *api.Command) *api.Error {
	switch {
	case c.Action != api.ActionPlan && c.Action != api.ActionManual:
		return invalid("action %q is not %s or %s", cutText(c.Action, 64), api.ActionPlan, api.ActionManual)
	case c.Share != nil || c.From != nil || c.Undo || c.Override:
		return invalid("%s is about all steps: it takes no share, from, undo or override", c.Action)
	case c.Action == api.ActionPlan && c.Revision == nil:
		return invalid("approving a plan needs the revision it is based on")
	}
	return nil
}

func checkState(c *api.Command) *api.Error {
	switch {
	case c.State == api.Degraded && c.Override:
		return invalid("nothing objects to degrading: it takes no override")
	case c.State != api.Degraded && c.State != api.Recovering:
		e := invalid("state %q is not %s or %s", cutText(c.State, 64), api.Degraded, api.Recovering)
		e.Hint = "healthy and suspect are measured, nobody sets them"
		return e
	case c.Override && strings.TrimSpace(c.Reason) == "":
		return invalid("an override needs a reason")
	}
	return nil
}

func checkPassthrough(c *api.Command) *api.Error {
	switch c.Action {
	case "on":
		switch {
		case len(c.Order) == 0:
			return invalid("order is missing: which upstreams, in which order")
		case len(c.Order) > maxOrder:
			return invalid("order names over %d upstreams", maxOrder)
		}
		for i, name := range c.Order {
			if name == "" || len(name) > maxNameLength {
				return invalid("order holds what is no name")
			}
			if slices.Contains(c.Order[:i], name) {
				return invalid("order names %q twice", name)
			}
		}
		return checkFor(c, defaultPassthrough)
	case "off":
		if len(c.Order) > 0 || c.For != "" {
			return invalid("off takes no order and no for")
		}
		return nil
	}
	return invalid("action %q is not on or off", cutText(c.Action, 64))
}

func checkFor(c *api.Command, def string) *api.Error {
	if c.For == "" {
		c.For = def
	}
	d, err := time.ParseDuration(c.For)
	if err != nil || d <= 0 || d > maxFor {
		e := invalid("for %q is not a time up to %v", cutText(c.For, 64), maxFor)
		e.Hint = "write it as 30m or 1h"
		return e
	}
	return nil
}

// cutText returns s, or its first n bytes at most, as valid UTF-8.
func cutText(s string, n int) string {
	if len(s) > n {
		s = s[:n]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if r, size := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && size == 1 {
			s = s[:len(s)-1]
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
