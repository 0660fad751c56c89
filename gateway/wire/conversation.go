package wire

import "bytes"

// maxLook is how deep the contents of a conversation are looked into; what
// lies deeper is only validated.
const maxLook = 48

type role uint8

const (
	otherRole role = iota
	systemRole
	userRole
)

// turns reads a list of messages, or of a Responses request's items: the
// system's texts and the first user's are hashed, ids anywhere are collected.
func (q *request) turns() {
	for more := q.array(); more; more = q.next(']') {
		if q.hasUser {
			q.block(nil, 1)
			continue
		}
		var h textHash
		switch q.block(&h, 1) {
		case systemRole:
			q.hasSystem = true
			q.system = q.system.join(h)
		case userRole:
			q.hasUser = true
			q.user = h
		}
	}
}

// content reads a value of a conversation. Its texts go into h, if not nil.
func (q *request) content(h *textHash, depth int) {
	switch c := q.peek(); {
	case c == '"':
		q.words(h)
	case c == '[' && depth < maxLook:
		for more := q.array(); more; more = q.next(']') {
			q.content(h, depth+1)
		}
	case c == '{' && depth < maxLook:
		q.block(h, depth+1)
	default:
		q.skip()
	}
}

// block reads a message, a part of one, or a tool's description, and returns
// the message's role. What a model or a caller's own function gave or takes is
// stepped over: an id there is the caller's affair.
func (q *request) block(h *textHash, depth int) role {
	who := otherRole
	var id token
	var typed, reference bool
	if q.peek() != '{' {
		q.content(h, depth)
		return who
	}
	members := 0
	for more := q.object(); more; more = q.next('}') {
		members++
		switch string(q.key()) {
		case "role":
			if t, ok := q.text(); ok {
				switch {
				case q.is(t, "user"):
					who = userRole
				case q.is(t, "system"), q.is(t, "developer"):
					who = systemRole
				}
			}
		case "type":
			if t, ok := q.text(); ok {
				typed, reference = true, q.is(t, "item_reference")
			}
		case "id":
			id, _ = q.text()
		case "file_id", "container_id", "file_ids", "vector_store_ids":
			q.ids()
		case "container", "audio":
			q.thing()
		case "cache_control", "metadata", "input", "arguments", "parameters", "input_schema", "schema",
			"json_schema", "encrypted_content", "signature", "output_schema", "function", "function_call":
			q.skip()
		default:
			q.content(h, depth+1)
		}
	}
	// The Responses API refers to a stored item by an id with a type, which it
	// lets one leave out.
	if q.ep == Responses && (reference || depth == 1 && !typed && members == 1) {
		q.bind(id)
	}
	return who
}

// thing reads what is given by its id, bare or as an object with an id, and
// exists at one upstream only.
func (q *request) thing() {
	if q.peek() == '"' {
		q.ids()
		return
	}
	for more := q.object(); more; more = q.next('}') {
		switch string(q.key()) {
		case "id", "file_ids":
			q.ids()
		case "skills":
			for more := q.array(); more; more = q.next(']') {
				q.skill()
			}
		default:
			q.skip()
		}
	}
}

// skill reads one of an Anthropic container's skills. The vendor's own, such as
// "xlsx", are everywhere; uploaded ones have ids that begin with skill_.
func (q *request) skill() {
	for more := q.object(); more; more = q.next('}') {
		if string(q.key()) != "skill_id" {
			q.skip()
		} else if t, ok := q.text(); ok && bytes.HasPrefix(q.value(t), []byte("skill_")) {
			q.bind(t)
		}
	}
}

// ids reads an id or a list of ids.
func (q *request) ids() {
	if q.peek() != '[' {
		if t, ok := q.text(); ok {
			q.bind(t)
		}
		return
	}
	for more := q.array(); more; more = q.next(']') {
		if t, ok := q.text(); ok {
			q.bind(t)
		}
	}
}

const maxBound = 64

func (q *request) bind(t token) {
	if !t.empty() && len(q.facts.BoundIDs) < maxBound {
		q.facts.BoundIDs = append(q.facts.BoundIDs, q.string(t))
	}
}
