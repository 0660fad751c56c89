package demo

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// reply is what a fake model says, before a dialect renders it.
type reply struct {
	words  []string // in order; concatenated they are the text
	call   *toolCall
	cut    bool // max tokens ended it
	input  int  // tokens
	output int
}

// text returns the whole answer.
func (r reply) text() string { return strings.Join(r.words, "") }

// toolCall is a call of one of the request's tools.
type toolCall struct {
	name string
	args string // a JSON object
}

// pieces cuts the arguments as providers stream them.
func (c toolCall) pieces() []string {
	const size = 12
	var p []string
	for i := 0; i < len(c.args); i += size {
		p = append(p, c.args[i:min(i+size, len(c.args))])
	}
	return p
}

// question is what a reply depends on: a request of any endpoint, read.
type question struct {
	model      string
	texts      []string // all that was said, for counting
	last       string   // the last thing the user said
	toolResult bool     // the last message is a tool's result
	tools      []tool
	force      bool   // a tool must be called
	forceName  string // this one; empty: any
	forbid     bool   // no tool may be called
	maxTokens  int    // 0: no limit
}

// tool is a tool offered with a request.
type tool struct {
	name   string
	schema json.RawMessage
}

// wants returns the tool that the request asks to be called: one that is
// forced, else one that the last user message names.
func (q question) wants() (tool, bool) {
	if len(q.tools) == 0 || q.forbid {
		return tool{}, false
	}
	if q.force {
		for _, t := range q.tools {
			if q.forceName == "" || t.name == q.forceName {
				return t, true
			}
		}
		return tool{}, false
	}
	if q.toolResult {
		return tool{}, false
	}
	said := strings.ToLower(q.last)
	for _, t := range q.tools {
		n := strings.ToLower(t.name)
		if strings.Contains(said, n) || strings.Contains(said, strings.ReplaceAll(n, "_", " ")) {
			return t, true
		}
	}
	return tool{}, false
}

// inputTokens estimates as providers bill: about four bytes a token, and some
// for every tool.
func (q question) inputTokens() int {
	n := 3
	for _, t := range q.texts {
		n += 4 + (len(t)+3)/4
	}
	for _, t := range q.tools {
		n += 8 + len(t.schema)/8
	}
	return n
}

var sentences = []string{
	"Everything you asked for is written down in section four of the handbook.",
	"The request was received yesterday and is waiting for a second signature.",
	"In short: the contract runs until March and renews by itself unless somebody objects.",
	"The invoice was paid twice, so one of the payments goes back to the card it came from.",
	"Travel inside the country needs no approval as long as it stays below the daily rate.",
	"Three points matter here, and the second one decides the other two.",
	"Please allow two working days before you ask again.",
	"The document names two owners but only one of them signed it.",
}

// reply answers q. The name of the upstream is part of the text, so that
// whoever asks by hand sees who answered.
func (x *exchange) reply(q question) reply {
	r := reply{input: q.inputTokens()}
	if t, ok := q.wants(); ok {
		r.call = &toolCall{name: t.name, args: sample(t.schema, x.rng)}
		r.output = 10 + (len(r.call.args)+3)/4
		return r
	}
	text := fmt.Sprintf("Made up by %s (%s).", x.fake.opts.Name, q.model)
	for range 1 + x.rng.IntN(3) {
		text += " " + sentences[x.rng.IntN(len(sentences))]
	}
	r.words = strings.SplitAfter(text, " ")
	if q.maxTokens > 0 && len(r.words) > q.maxTokens {
		r.words, r.cut = r.words[:q.maxTokens], true
	}
	r.output = len(r.words)
	return r
}

// sample builds arguments that fit a JSON schema's required properties, or all
// of them where none is required.
func sample(schema json.RawMessage, rng *rand.Rand) string {
	var s struct {
		Properties map[string]struct {
			Type string            `json:"type"`
			Enum []json.RawMessage `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	// A schema that does not read gives an empty object, as a model might.
	_ = json.Unmarshal(schema, &s)
	names := s.Required
	if len(names) == 0 {
		for n := range s.Properties {
			names = append(names, n)
		}
		slices.Sort(names)
	}
	args := map[string]any{}
	for _, n := range names {
		p := s.Properties[n]
		switch {
		case len(p.Enum) > 0:
			args[n] = p.Enum[rng.IntN(len(p.Enum))]
		case p.Type == "integer":
			args[n] = 1 + rng.IntN(9999)
		case p.Type == "number":
			args[n] = float64(100+rng.IntN(9900)) / 100
		case p.Type == "boolean":
			args[n] = true
		case p.Type == "array":
			args[n] = []any{}
		case p.Type == "object":
			args[n] = map[string]any{}
		default:
			args[n] = fmt.Sprintf("demo-%d", 1+rng.IntN(9999))
		}
	}
	b, err := json.Marshal(args)
	if err != nil {
		return "{}"
	}
	return string(b)
}

// said is text as clients send it: a string, an array of strings, or an array
// of parts of which those with text count.
type said string

// UnmarshalJSON implements json.Unmarshaler.
func (s *said) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*s = said(one)
		return nil
	}
	var many []string
	if json.Unmarshal(b, &many) == nil {
		*s = said(strings.Join(many, "\n"))
		return nil
	}
	var parts []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Content said   `json:"content"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return fmt.Errorf("content is neither text nor a list of parts")
	}
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
		if p.Content != "" {
			texts = append(texts, string(p.Content))
		}
	}
	*s = said(strings.Join(texts, "\n"))
	return nil
}

// choice is tool_choice in either dialect: a word, or an object that names a
// tool.
type choice struct {
	mode string // auto, none, required or any, tool or function
	name string
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *choice) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &c.mode) == nil {
		return nil
	}
	var o struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	c.mode, c.name = o.Type, o.Name
	if c.name == "" {
		c.name = o.Function.Name
	}
	return nil
}

func (c choice) apply(q *question) {
	switch c.mode {
	case "none":
		q.forbid = true
	case "required", "any", "tool", "function":
		q.force, q.forceName = true, c.name
	}
}
