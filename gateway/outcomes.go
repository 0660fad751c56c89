package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"failback/gateway/decision"
	"failback/gateway/incident"
	"failback/gateway/operator"
	"failback/gateway/operator/api"
	"failback/gateway/wire"
)

// outcomesPath is where clients and evaluators say what came of an answer.
const outcomesPath = "/failback/v1/outcomes"

const (
	maxOutcomes     = 100
	maxOutcomesBody = 256 << 10
	maxReporter     = 64
	maxOutcomeNote  = 200
	maxRequestID    = 128
	// outcomeNotes of an incident are what is bad, in the words of who found it.
	outcomeNotes = 20
)

// outcomesAnswer says what became of the outcomes of one request.
type outcomesAnswer struct {
	Counted  int `json:"counted"`
	Repeated int `json:"repeated"` // reported before with this key: the first report stands
	// Refused are not this key's to judge: the workflow of another key's request, or
	// of a layer that enough keys have judged.
	Refused    int      `json:"refused"`
	RefusedIDs []string `json:"refused_ids"`
	// Unknown are of requests that no gateway answered that was heard, or not lately:
	// they are counted without a route.
	Unknown    int      `json:"unknown"`
	UnknownIDs []string `json:"unknown_ids"`
	// Peers says which other gateways were heard about what this one does not know.
	Peers heard `json:"peers"`
}

// fate is what becomes of an outcome at a gateway.
type fate string

const (
	fateCounted  fate = "counted"
	fateRepeated fate = "repeated"
	fateRefused  fate = "refused"
	fateUnknown  fate = "unknown"
)

func (g *Gateway) serveOutcomes(s *setup, w http.ResponseWriter, r *http.Request, id string) {
	refuse := func(status int, code, message string) {
		writeFailure(w, decision.OpenAI, wire.Failure{Status: status, Code: code, RequestID: id, Message: message})
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(http.StatusMethodNotAllowed, "method_not_allowed", "use POST")
		return
	}
	key, ok := s.keys.find(r.Header)
	if !ok {
		writeFailure(w, decision.OpenAI, unknownKey(id))
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyStall))
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOutcomesBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			refuse(http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("the body is over %d bytes", maxOutcomesBody))
			return
		}
		refuse(http.StatusBadRequest, "invalid_request", "the body did not arrive whole")
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	outcomes, err := readOutcomes(b)
	if err != nil {
		refuse(http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	if key != nil {
		for i := range outcomes {
			outcomes[i].Key = key.name
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(g.takeOutcomes(r.Context(), outcomes))
}

// readOutcomes reads one outcome or a list of them; with one that is wrong it
// takes none.
func readOutcomes(b []byte) (l []incident.Outcome, err error) {
	b = bytes.TrimSpace(b)
	if len(b) > 0 && b[0] == '[' {
		err = strict(b, &l)
	} else {
		l = make([]incident.Outcome, 1)
		err = strict(b, &l[0])
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the body is no outcome and no list of them: %w", err)
	case len(l) == 0:
		return nil, errors.New("the list is empty")
	case len(l) > maxOutcomes:
		return nil, fmt.Errorf("%d outcomes: send at most %d at once", len(l), maxOutcomes)
	}
	for i := range l {
		if err := checkOutcome(&l[i]); err != nil {
			return nil, fmt.Errorf("outcome %d: %w", i+1, err)
		}
	}
	return l, nil
}

// strict decodes the one JSON value b. A field that is not known is refused: an
// answer or a prompt has no place here.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("%s: a %s does not fit there", cmp.Or(t.Field, "the body"), strings.Fields(t.Value)[0])
		}
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return unknownField(name)
		}
		return errors.New("it is not valid JSON")
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows it")
	}
	return exact(json.NewDecoder(bytes.NewReader(b)))
}

func unknownField(quoted string) error {
	return fmt.Errorf("field %.64s is not known; known are %s", quoted, strings.Join(outcomeFields, ", "))
}

// outcomeFields are the fields of an outcome, by their exact names.
var outcomeFields = []string{"request_id", "layer", "good", "by", "note"}

// exact makes sure that no object of the valid JSON in d has a field whose name is
// known but for its case, which encoding/json takes, or one twice: which of them
// counted nobody could tell.
func exact(d *json.Decoder) error {
	var seen []map[string]bool // nil: of a list
	key := false
	for {
		t, err := d.Token()
		if err != nil {
			return nil
		}
		switch t {
		case json.Delim('{'):
			seen = append(seen, map[string]bool{})
			key = true
			continue
		case json.Delim('['):
			seen = append(seen, nil)
			key = false
			continue
		case json.Delim('}'), json.Delim(']'):
			seen = seen[:len(seen)-1]
		default:
			if name, is := t.(string); is && key {
				fields := seen[len(seen)-1]
				if !slices.Contains(outcomeFields, name) {
					return unknownField(strconv.Quote(name))
				}
				if fields[name] {
					return fmt.Errorf("field %.64q is given twice", name)
				}
				fields[name] = true
				key = false
				continue
			}
		}
		key = len(seen) > 0 && seen[len(seen)-1] != nil
	}
}

func checkOutcome(o *incident.Outcome) error {
	switch {
	case o.RequestID == "" || len(o.RequestID) > maxRequestID:
		return fmt.Errorf("request_id is missing, or over %d bytes", maxRequestID)
	case o.Layer != api.LayerWorkflow && o.Layer != api.LayerSemantic && o.Layer != api.LayerTask:
		return errors.New("layer is not workflow, semantic or task")
	case o.Good == nil:
		return errors.New("good is missing: true or false")
	case strings.TrimSpace(o.By) == "" || len(o.By) > maxReporter:
		return fmt.Errorf("by is missing, or over %d bytes: the name of who judged", maxReporter)
	case len(o.Note) > maxOutcomeNote:
		return fmt.Errorf("note is over %d bytes", maxOutcomeNote)
	}
	for name, text := range map[string]string{"request_id": o.RequestID, "by": o.By, "note": o.Note} {
		if r, found := operator.ControlCharacter(text); found {
			return fmt.Errorf("%s has the control character %U: of them a text may have newlines and tabs alone", name, r)
		}
	}
	return nil
}

// takeOutcomes counts outcomes: those of this gateway's requests here, those of others
// at the gateway that answered them.
func (g *Gateway) takeOutcomes(ctx context.Context, l []incident.Outcome) outcomesAnswer {
	fates := make([]fate, len(l))
	var foreign []int // in l
	for i, o := range l {
		if fates[i] = g.countOutcome(o); fates[i] == fateUnknown {
			foreign = append(foreign, i)
		}
	}
	peers := heardNotNeeded
	if len(foreign) > 0 {
		ask := make([]incident.Outcome, len(foreign))
		for n, i := range foreign {
			ask[n] = l[i]
		}
		var theirs []fate
		theirs, peers = g.askOutcomes(ctx, ask)
		for n, i := range foreign {
			fates[i] = theirs[n]
		}
	}
	a := outcomesAnswer{UnknownIDs: []string{}, RefusedIDs: []string{}, Peers: peers}
	for i, o := range l {
		if fates[i] == fateUnknown && g.countUnknown(o) && peers.everybody() {
			fates[i] = fateRepeated
		}
		switch fates[i] {
		case fateCounted:
			a.Counted++
		case fateRepeated:
			a.Repeated++
		case fateRefused:
			a.Refused++
			a.RefusedIDs = append(a.RefusedIDs, o.RequestID)
		case fateUnknown:
			a.Unknown++
			a.UnknownIDs = append(a.UnknownIDs, o.RequestID)
		}
	}
	return a
}

// countOutcome counts o if it is of a request of this gateway.
func (g *Gateway) countOutcome(o incident.Outcome) fate {
	j := g.incidents.recent.Judge(o)
	switch {
	case !j.Known:
		return fateUnknown
	case j.Repeated:
		return fateRepeated
	case j.Refused:
		return fateRefused
	}
	g.metrics.Outcome(o.Layer, j.Route, *o.Good)
	g.incidents.outcome(o, j)
	return fateCounted
}

// countUnknown counts o, of a request that nobody knows, and reports whether it was
// reported before.
func (g *Gateway) countUnknown(o incident.Outcome) (repeated bool) {
	repeated = g.incidents.recent.Unknown(o)
	if !repeated {
		g.metrics.Outcome(o.Layer, decision.RouteNone, *o.Good)
	}
	return repeated
}

// outcome counts o in the incidents of its request.
func (i *incidents) outcome(o incident.Outcome, j incident.Judged) {
	i.tallies.Add(j.Epoch, func(c *incident.Counts) {
		side := c.Layer(o.Layer).Side(j.Route == decision.RouteFallback)
		if o.Layer == api.LayerWorkflow {
			side.Add(j.WasGood, -1) // what was taken for granted
		}
		side.Add(*o.Good, 1)
	})
	if !*o.Good && o.Note != "" {
		by := o.By
		if o.Key != "" {
			by += " with key " + o.Key // who it really was, whatever it says
		}
		i.tallies.Note(j.Epoch, fmt.Sprintf("%s bad, route %s, request %s, by %s: %s", o.Layer, j.Route, o.RequestID, by, o.Note))
	}
}
