package config

import "strings"

// KeyDoc describes one key.
type KeyDoc struct {
	Key     string // path with <name> for names and [] for elements of lists
	Type    string
	Default string // as the file would have it, empty if there is none
	// None says what absence means where there is no default.
	None     string
	Required bool
	// Restart is empty, "restart" if a change needs one, or says when.
	Restart string
	// Inert says that nothing in this version acts on the key.
	Inert   bool
	Meaning string
	// Environment is the variable that sets it, empty where none does.
	Environment string
}

// Reference describes every key, in the order of declaration. What an upstream
// may override is described once, at the top level.
func Reference() []KeyDoc { return reference(root(), "", true, false, false) }

func reference(s *schema, path string, fixed, inert, restart bool) []KeyDoc {
	var docs []KeyDoc
	for _, f := range s.fields {
		p := f.key
		if path != "" {
			p = path + "." + f.key
		}
		inert := inert || f.inert
		doc := KeyDoc{
			Key: p, Type: f.typeText(), Default: f.def, None: f.none, Required: f.required,
			Inert: inert, Meaning: f.doc,
		}
		restart := restart || f.restart == "yes"
		switch {
		case restart:
			doc.Restart = "restart"
		case f.restart == "toggle":
			doc.Restart = "restart to turn it on or off"
		}
		if fixed && f.kind.scalar() {
			doc.Environment = environmentName(p)
		}
		if f.overlay != "" {
			doc.None = "the " + f.overlay + " section"
		}
		if f.single != "" {
			one := doc
			one.Key, one.Type, one.Meaning, one.None = path+"."+f.single, "credential", f.singles, f.key+" is given"
			docs = append(docs, one)
		}
		docs = append(docs, doc)
		if f.elem == nil || f.overlay != "" {
			continue
		}
		switch f.kind {
		case kindNamed:
			docs = append(docs, reference(f.elem, p+".<name>", false, inert, restart)...)
		case kindList:
			docs = append(docs, reference(f.elem, p+"[]", false, inert, restart)...)
		default:
			docs = append(docs, reference(f.elem, p, fixed, inert, restart)...)
		}
	}
	return docs
}

// typeText is the key's type for people.
func (f *field) typeText() string {
	if len(f.oneof) > 0 {
		return strings.Join(f.oneof, ", ")
	}
	text := ""
	switch f.kind {
	case kindString:
		text = "text"
		switch f.typ {
		case "address", "endpoint":
			text = "host:port"
		case "path":
			text = "path"
		case "log target":
			text = "stdout, none, path"
		case "hash":
			text = "hash"
		case "domain":
			text = "kind/value"
		case "host":
			text = "host name"
		case "name", "upstream", "model", "task":
			text = "name"
		}
	case kindBool:
		return "true, false"
	case kindInt:
		text = "whole number"
		if f.typ == "bytes" {
			text = "size"
		}
	case kindFloat:
		text = "number"
	case kindTime:
		text = "duration"
	case kindDate:
		text = "date"
	case kindURL:
		text = "URL"
	case kindCaps:
		text = "list of capabilities"
	case kindStrings:
		text = "list of names"
	case kindSecrets:
		text = "list of credentials"
	case kindWords:
		text = "map of text"
	case kindRatios:
		text = "map of numbers 0 to 1"
	case kindStruct, kindOption:
		text = "section"
	case kindNamed:
		text = "map of names"
	case kindList:
		text = "list"
	}
	if f.typ == "bytes" && f.min != nil && f.min.value == 1 {
		return text
	}
	switch {
	case f.min != nil && f.max != nil && f.min.exclusive:
		text += ", above " + f.min.text + ", up to " + f.max.text
	case f.min != nil && f.max != nil:
		text += ", " + f.min.text + " to " + f.max.text
	case f.min != nil && f.min.exclusive:
		text += ", above " + f.min.text
	case f.min != nil:
		text += ", from " + f.min.text
	}
	return text
}
