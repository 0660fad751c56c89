package gateway_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"failback/gateway/decision"
)

// The sixteen faults by which a public catalogue scores gateways. Each is
// given to the primary of a model whose fallback is another model, and judged
// by what the client gets and by what reaches the upstreams.

// speech is the answer that every healthy upstream of the bench gives, and
// speechPace how long it takes for each word.
const (
	speech = "A gateway is judged on the worst day of its providers and on no other: " +
		"when one of them is slow, silent, cut or wrong, the caller should still get " +
		"one whole answer, or one honest error that comes early enough to be of use, while " +
		"nobody is asked more often than they can bear and every count stays true"
	speechPace = 15 * time.Millisecond

	benchPrimary, benchFallback = "their-large", "their-small"
)

// verdict is how a fault was borne.
type verdict string

const (
	pass    verdict = "pass"    // the right answer, and every check holds
	partial verdict = "partial" // the right answer, but advice was not followed
	safe    verdict = "safe"    // a clean error in time
	failed  verdict = "FAIL"
)

// benchFault is one of the sixteen.
type benchFault struct {
	id, title string
	a         func(*bench, *exchange)
	b         func(*bench, *exchange) // nil: speaks
	larger    bool                    // the fallback takes what is too long for the primary
	mistake   string                  // the right answer is the error that says this
	within    time.Duration           // longer is a hang
	// midway: output is relayed before the fault, unless it is held.
	midway bool
	checks func(*bench)
	// runs replaces the one call; nil: one call.
	runs func(*bench)
}

// bench is one fault under way.
type bench struct {
	*scene
	fault benchFault
	p     benchSide
	began time.Time
	reply *benchReply
	took  time.Duration

	missed, advice []string // checks that failed, and those that are only advice
}

// must and should note a check; advice only costs the full mark.
func (b *bench) must(ok bool, format string, args ...any) {
	if !ok {
		b.missed = append(b.missed, fmt.Sprintf(format, args...))
	}
}

func (b *bench) should(ok bool, format string, args ...any) {
	if !ok {
		b.advice = append(b.advice, fmt.Sprintf(format, args...))
	}
}

// asks are when A was asked, since the call began.
func (b *bench) asks(name string) (at []time.Duration) {
	for _, h := range b.up[name].heard() {
		at = append(at, h.at.Sub(b.began))
	}
	return at
}

// attempts checks what each upstream saw.
func (b *bench) attempts(primary, fallback int) {
	a, f := b.up["A"].asked(), b.up["B"].asked()
	b.must(a == primary && f == fallback, "the upstreams saw %d and %d attempts", a, f)
}

// fellBack checks that the fallback answered, under its own name.
func (b *bench) fellBack(class decision.Class) {
	d := b.last()
	b.must(b.reply.model == benchFallback && d.SelectedModel == benchFallback && d.Substitute, "the answer names %s, the decision %s", b.reply.model, d.SelectedModel)
	b.must(d.WorkflowStatus == string(decision.DegradedCompleted) && d.Reason == string(class), "status %s, reason %s", d.WorkflowStatus, d.Reason)
}

// benchSide is how a client asks.
type benchSide struct {
	dialect decision.Dialect
	secure  bool // HTTP/2
	held    bool // release: complete
}

func (p benchSide) String() string {
	release := "default"
	if p.held {
		release = "complete"
	}
	return fmt.Sprintf("%s/%s/%s", p.dialect, protocolOf(p.secure), release)
}

func (p benchSide) path() string {
	if p.dialect == decision.Anthropic {
		return messagePath
	}
	return chatPath
}

// call asks once, and judges nothing.
func (b *bench) once() {
	task := "plain"
	if b.p.held {
		task = "held"
	}
	g := b.call(b.p.path(), `{"model":"bench","messages":[{"role":"user","content":"Say it."}],"max_tokens":200,"stream":true,"stream_options":{"include_usage":true}}`, "Failback-Task", task)
	b.took, b.reply = g.took, replyIn(b.p.dialect, g)
}

// judge says how the fault was borne.
func (b *bench) judge() verdict {
	r, f := b.reply, b.fault
	rescued := r.failure == "" && r.whole(speech)
	if f.mistake != "" {
		rescued = r.status == 400 && strings.Contains(r.failure, f.mistake) && r.text == ""
	}
	b.must(b.took <= f.within, "took %s", b.took)
	b.must(r.failure != "" || r.whole(speech), "a success that is not whole: %q of %v, finish %q", r.text, r.models, r.finish)
	b.must(r.broken == "", "%s", r.broken)
	switch {
	case len(b.missed) > 0:
		return failed
	case !rescued:
		return safe
	case len(b.advice) > 0:
		return partial
	}
	return pass
}

// benchReply is an answer as a client's SDK understands it.
type benchReply struct {
	status  int
	text    string
	models  []string // that frames named, each once
	model   string   // the first of them
	finish  string
	tokens  int    // of the output; 0: no usage
	done    bool   // the dialect's own end came
	failure string // the error, as the client got it
	broken  string // what no client should get
}

// whole reports whether it is all of text by one model, with its end.
func (r *benchReply) whole(text string) bool {
	return r.status == 200 && r.text == text && len(r.models) == 1 && r.finish != ""
}

func replyIn(d decision.Dialect, g *got) *benchReply {
	r := &benchReply{status: g.status}
	if g.status != 200 {
		r.failure = g.body
		if g.err != nil || !strings.Contains(g.body, `"error"`) {
			r.broken = fmt.Sprintf("an error answer that is none: %d %q, %v", g.status, g.body, g.err)
		}
		return r
	}
	for i, frame := range g.frames {
		_, data, found := strings.Cut(frame, "data: ")
		if !found {
			continue // a comment
		}
		if r.failure != "" {
			r.broken = "more after the error: " + frame
		}
		if data == "[DONE]" {
			r.done = true
			continue
		}
		var v benchFrame
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			r.broken = fmt.Sprintf("frame %d is not JSON: %s", i, data)
			continue
		}
		r.add(d, &v)
	}
	switch {
	case r.failure != "" && r.done:
		r.broken = "an error and the end of a whole answer"
	case r.failure == "" && g.err != nil:
		r.failure = g.err.Error()
	case r.failure != "" && g.err == nil && r.text != "":
		r.broken = "an error after output, and the connection ended in order"
	}
	return r
}

// benchFrame is any event of either dialect.
type benchFrame struct {
	Type    string
	Model   string
	Message struct{ Model string }
	Error   json.RawMessage
	Choices []struct {
		Delta  struct{ Content string }
		Finish string `json:"finish_reason"`
	}
	Delta struct {
		Text string
		Stop string `json:"stop_reason"`
	}
	Usage struct {
		Completion int `json:"completion_tokens"`
		Output     int `json:"output_tokens"`
	}
}

func (r *benchReply) add(d decision.Dialect, v *benchFrame) {
	if len(v.Error) > 0 && string(v.Error) != "null" {
		r.failure = string(v.Error)
		return
	}
	model, text, finish, tokens := v.Model, "", "", v.Usage.Completion
	if d == decision.Anthropic {
		model, text, finish, tokens = v.Message.Model, v.Delta.Text, v.Delta.Stop, v.Usage.Output
		r.done = r.done || v.Type == "message_stop"
	} else if len(v.Choices) > 0 {
		text, finish = v.Choices[0].Delta.Content, v.Choices[0].Finish
	}
	r.text += text
	r.finish += finish
	r.tokens = max(r.tokens, tokens)
	if model != "" && !slices.Contains(r.models, model) {
		r.models = append(r.models, model)
		r.model = r.models[0]
	}
}

// said is the speech in a dialect: what precedes the first word, the words,
// what follows them, and the dialect's own end.
type said struct {
	before, words, after []string
	end                  string
}

func sayAs(d decision.Dialect, model string) (s said) {
	words := strings.SplitAfter(speech, " ")
	if d == decision.Anthropic {
		s.before = []string{
			event(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"` + model + `","content":[],"stop_reason":null,"usage":{"input_tokens":12,"output_tokens":1}}}`),
			event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		}
		for _, w := range words {
			s.words = append(s.words, event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`+quoted(w)+`}}`))
		}
		s.after = []string{
			event(`{"type":"content_block_stop","index":0}`),
			event(`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":60}}`),
		}
		s.end = event(`{"type":"message_stop"}`)
		return s
	}
	chunk := func(choices, usage string) string {
		return frame(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"` + model + `","choices":[` + choices + `],"usage":` + usage + `}`)
	}
	s.before = []string{chunk(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`, "null")}
	for _, w := range words {
		s.words = append(s.words, chunk(`{"index":0,"delta":{"content":`+quoted(w)+`},"finish_reason":null}`, "null"))
	}
	s.after = []string{
		chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`, "null"),
		chunk("", `{"prompt_tokens":12,"completion_tokens":60,"total_tokens":72}`),
	}
	s.end = doneFrame
	return s
}

// says begins the speech and speaks so many words; it reports whether the
// gateway still listens.
func (b *bench) says(e *exchange, words int) (said, bool) {
	s := sayAs(b.p.dialect, question(e.req.body).Model)
	e.sse()
	for _, f := range s.before {
		e.piece(f)
	}
	return s, b.goesOn(e, s.words[:words])
}

func (b *bench) goesOn(e *exchange, words []string) bool {
	for _, f := range words {
		if !e.wait(speechPace) {
			e.done = true
			return false
		}
		e.piece(f)
	}
	return true
}

// speaks gives the whole speech.
func (b *bench) speaks(e *exchange) {
	s, ok := b.says(e, len(strings.Fields(speech)))
	if !ok {
		return
	}
	for _, f := range s.after {
		e.piece(f)
	}
	e.piece(s.end)
	e.end()
}

// refusesWith answers with a status and an error in the dialect.
func (b *bench) refusesWith(e *exchange, status int, kind, code, message string, headers ...string) {
	body := `{"error":{"message":` + quoted(message) + `,"type":"` + kind + `","param":null,"code":"` + code + `"}}`
	if b.p.dialect == decision.Anthropic {
		body = `{"type":"error","error":{"type":"` + kind + `","message":` + quoted(message) + `}}`
	}
	e.answer(status, body, headers...)
}

// limits answers 429.
func (b *bench) limits(e *exchange, headers ...string) {
	b.refusesWith(e, 429, "rate_limit_error", "rate_limit_exceeded", "slower, please", headers...)
}

// overloads answers 503.
func (b *bench) overloads(e *exchange) {
	b.refusesWith(e, 503, "overloaded_error", "server_is_overloaded", "too much to do")
}

// tooLong answers that the request is too long.
func (b *bench) tooLong(e *exchange) {
	b.refusesWith(e, 400, "invalid_request_error", "context_length_exceeded", "prompt is too long: 200001 tokens > 200000 maximum")
}

// stopsAfter speaks so many words and then breaks the connection off.
func stopsAfter(words int) func(*bench, *exchange) {
	return func(b *bench, e *exchange) {
		if _, ok := b.says(e, words); ok {
			e.cut()
		}
	}
}

// onceThen does f to the first request, and speaks to all others.
func onceThen(f func(*bench, *exchange)) func(*bench, *exchange) {
	return func(b *bench, e *exchange) {
		if e.n == 1 {
			f(b, e)
			return
		}
		b.speaks(e)
	}
}

// noDone gives the whole speech without the dialect's own end.
func (b *bench) noDone(e *exchange) {
	s, ok := b.says(e, len(strings.Fields(speech)))
	if !ok {
		return
	}
	for _, f := range s.after {
		e.piece(f)
	}
}

const speechTakes = 60 * speechPace

var benchFaults = []benchFault{
	{
		id: "S01", title: "429 with Retry-After: 2, once", within: 20 * time.Second,
		a: onceThen(func(b *bench, e *exchange) { b.limits(e, "Retry-After: 2") }),
		checks: func(b *bench) {
			b.attempts(2, 0)
			at := b.asks("A")
			b.should(len(at) == 2 && at[1]-at[0] >= 1800*time.Millisecond, "asked at %v", at)
		},
	},
	{
		id: "S02", title: "429 always", within: 40 * time.Second,
		a:      func(b *bench, e *exchange) { b.limits(e) },
		checks: limited,
	},
	{
		id: "S02", title: "429 always, with Retry-After: 1", within: 40 * time.Second,
		a:      func(b *bench, e *exchange) { b.limits(e, "Retry-After: 1") },
		checks: limited,
	},
	{
		id: "S02", title: "429 always, with Retry-After: 2", within: 40 * time.Second,
		a:      func(b *bench, e *exchange) { b.limits(e, "Retry-After: 2") },
		checks: limited,
	},
	{
		id: "S03", title: "500 once", within: 20 * time.Second,
		a: onceThen(func(b *bench, e *exchange) { b.refusesWith(e, 500, "api_error", "server_error", "sorry") }),
		checks: func(b *bench) {
			b.attempts(2, 0)
			b.should(b.reply.model == benchPrimary, "%s answered", b.reply.model)
		},
	},
	{
		id: "S04", title: "503 always", within: 40 * time.Second,
		a: (*bench).overloads,
		checks: func(b *bench) {
			b.attempts(1, 1)
			b.fellBack(decision.Overloaded)
		},
	},
	{
		id: "S05", title: "reset before headers, once", within: 20 * time.Second,
		a:      onceThen(func(_ *bench, e *exchange) { e.rst() }),
		checks: func(b *bench) { b.attempts(2, 0) },
	},
	{
		id: "S05", title: "reset before headers, always", within: 20 * time.Second,
		a: func(_ *bench, e *exchange) { e.rst() },
		checks: func(b *bench) {
			b.attempts(2, 1)
			b.fellBack(decision.Reset)
		},
	},
	{
		id: "S06", title: "no answer for 120 s", within: 100 * time.Second,
		a: func(_ *bench, e *exchange) { e.wait(120 * time.Second); e.done = true },
		checks: func(b *bench) {
			b.attempts(1, 1)
			b.fellBack(decision.FirstOutputTimeout)
			at := b.asks("B")
			b.should(len(at) == 1 && at[0] <= 12*time.Second, "the fallback was asked at %v", at)
		},
	},
	{
		id: "S07", title: "headers at once, first token after 20 s", within: 60 * time.Second,
		a: func(b *bench, e *exchange) {
			s, _ := b.says(e, 0)
			if e.wait(20*time.Second) && b.goesOn(e, s.words) {
				e.piece(strings.Join(s.after, "") + s.end)
				e.end()
			}
		},
		checks: func(b *bench) {
			b.attempts(1, 1)
			b.fellBack(decision.FirstOutputTimeout)
			b.should(b.took <= 15*time.Second, "answered after %s", b.took)
		},
	},
	{
		id: "S08", title: "cut after 40 words", within: 40 * time.Second, midway: true,
		a: stopsAfter(40),
		checks: func(b *bench) {
			if b.p.held {
				b.attempts(1, 1)
				b.fellBack(decision.Interrupted)
				return
			}
			b.incomplete(40)
		},
	},
	{
		id: "S09", title: "silent after 20 words", within: 45 * time.Second, midway: true,
		a: onceThen(func(b *bench, e *exchange) {
			if _, ok := b.says(e, 20); ok {
				e.wait(time.Minute)
				e.cut()
			}
		}),
		checks: func(b *bench) {
			if b.p.held {
				b.attempts(1, 1)
				b.fellBack(decision.IdleTimeout)
			} else {
				b.incomplete(20)
			}
			b.aliveAfter()
		},
	},
	{
		id: "S10", title: "tenth event is not JSON", within: 30 * time.Second, midway: true,
		a: onceThen(func(b *bench, e *exchange) {
			spoken := 9 - len(sayAs(b.p.dialect, "").before)
			s, ok := b.says(e, spoken)
			if !ok {
				return
			}
			e.piece("data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\n\n")
			if b.goesOn(e, s.words[spoken+1:]) {
				e.piece(strings.Join(s.after, "") + s.end)
				e.end()
			}
		}),
		checks: func(b *bench) {
			if b.p.held {
				b.attempts(1, 1)
				b.fellBack(decision.BadResponse)
			} else {
				b.incomplete(9 - len(sayAs(b.p.dialect, "").before))
			}
			b.aliveAfter()
		},
	},
	{
		id: "S11", title: "whole, without the dialect's own end", within: 30 * time.Second,
		a:      func(b *bench, e *exchange) { b.noDone(e); e.end() },
		checks: finalised,
	},
	{
		id: "S11", title: "whole, without its end, cut off", within: 30 * time.Second,
		a:      func(b *bench, e *exchange) { b.noDone(e); e.cut() },
		checks: finalised,
	},
	{
		id: "S11", title: "whole, without its end, left open", within: 30 * time.Second,
		a:      func(b *bench, e *exchange) { b.noDone(e); e.wait(time.Minute); e.done = true },
		checks: finalised,
	},
	{
		id: "S12", title: "400 context_length_exceeded, a larger candidate", within: 20 * time.Second, larger: true,
		a: (*bench).tooLong,
		checks: func(b *bench) {
			b.attempts(1, 1)
			b.fellBack(decision.ContextLength)
		},
	},
	{
		id: "S12", title: "400 context_length_exceeded, no larger candidate", within: 20 * time.Second,
		a: (*bench).tooLong, mistake: "prompt is too long",
		checks: func(b *bench) { b.attempts(1, 0) },
	},
	{
		id: "S13", title: "400 content_policy_violation", within: 20 * time.Second,
		a: func(b *bench, e *exchange) {
			b.refusesWith(e, 400, "invalid_request_error", "content_policy_violation", "Output blocked by content filtering policy")
		},
		mistake: "blocked by content filtering policy",
		checks: func(b *bench) {
			b.attempts(1, 0)
			if b.p.dialect == decision.OpenAI {
				b.must(strings.Contains(b.reply.failure, `"code":"content_policy_violation"`), "the code was lost: %s", b.reply.failure)
			}
		},
	},
	{
		id: "S14", title: "cut after 40 words, the fallback takes no prefill", within: 40 * time.Second, midway: true,
		a: stopsAfter(40),
		b: func(b *bench, e *exchange) {
			var q struct{ Messages []struct{ Role string } }
			if json.Unmarshal([]byte(e.req.body), &q) != nil || len(q.Messages) == 0 || q.Messages[len(q.Messages)-1].Role != "user" {
				b.refusesWith(e, 400, "invalid_request_error", "invalid_value", "this model takes no assistant prefill")
				return
			}
			b.speaks(e)
		},
		checks: func(b *bench) {
			b.must(!strings.Contains(b.reply.failure, "prefill"), "the fallback's complaint hides the fault: %s", b.reply.failure)
			if b.p.held {
				b.attempts(1, 1)
				b.fellBack(decision.Interrupted)
				return
			}
			b.incomplete(40)
		},
	},
	{
		id: "S15", title: "503 for 60 s, then healthy", within: 30 * time.Second,
		a: func(b *bench, e *exchange) {
			if e.req.at.Sub(b.began) < outage {
				b.overloads(e)
				return
			}
			b.speaks(e)
		},
		runs: (*bench).flap,
	},
	{
		id: "S16", title: "503 always: whose answer it is", within: 40 * time.Second,
		a: (*bench).overloads,
		checks: func(b *bench) {
			b.attempts(1, 1)
			b.fellBack(decision.Overloaded)
			b.should(b.reply.tokens == 60, "usage says %d", b.reply.tokens)
			d := b.last()
			b.must(classes(d) == "A:overloaded B:ok" && d.ResponseModel == benchFallback, "attempts %s, model %s", classes(d), d.ResponseModel)
		},
	},
}

// limited: an upstream that always says 429 is left in peace.
func limited(b *bench) {
	at := b.asks("A")
	soon := 0
	for _, d := range at {
		if d < 3*time.Second {
			soon++
		}
	}
	b.must(soon <= 4 && len(at) <= 6, "asked at %v", at)
	b.should(b.took <= 2*time.Second+2*speechTakes, "answered after %s", b.took) // retry.patience, and the answer
	b.fellBack(decision.RateLimited)
}

// finalised: the answer was whole, so it is over.
func finalised(b *bench) {
	b.attempts(1, 0)
	b.must(b.took <= 8*time.Second, "over after %s", b.took)
	b.should(b.reply.tokens == 60, "usage says %d", b.reply.tokens)
	d := b.last()
	b.must(d.WorkflowStatus == string(decision.Completed) && classes(d) == "A:ok", "status %s, attempts %s", d.WorkflowStatus, classes(d))
}

// incomplete: the client got so many words and one error, and nobody else was
// asked to go on.
func (b *bench) incomplete(words int) {
	b.attempts(1, 0)
	want := strings.Join(strings.SplitAfter(speech, " ")[:words], "")
	b.must(b.reply.text == want && b.reply.failure != "", "%q and %q", b.reply.text, b.reply.failure)
	d := b.last()
	b.must(d.WorkflowStatus == string(decision.Incomplete), "status %s", d.WorkflowStatus)
}

// aliveAfter: the next request is answered by whom it should be.
func (b *bench) aliveAfter() {
	was, took := b.reply, b.took
	b.once()
	b.must(b.reply.failure == "" && b.reply.whole(speech) && b.took <= 2*speechTakes, "the next request: %q, %q after %s", b.reply.text, b.reply.failure, b.took)
	b.reply, b.took = was, took
}

const outage = 60 * time.Second

// flap sends twenty requests, four seconds apart, to a primary that is down
// for the first minute.
func (b *bench) flap() {
	var back time.Duration // when the primary answered again
	least := time.NewTicker(4 * time.Second)
	defer least.Stop()
	for i := range 20 {
		b.once()
		at := time.Since(b.began)
		b.must(b.reply.failure == "" && b.reply.whole(speech), "request %d: %q of %v, %q", i, b.reply.text, b.reply.models, b.reply.failure)
		b.must(b.took <= b.fault.within, "request %d took %s", i, b.took)
		if b.reply.model == benchPrimary && back == 0 {
			back = at
		}
		<-least.C
	}
	b.must(back > 0 && back <= outage+30*time.Second, "the primary answered again at %s", back)
	during := 0
	for _, at := range b.asks("A") {
		if at < outage {
			during++
		}
	}
	const threshold, probes = 5, int(outage / (15 * time.Second))
	b.should(during <= threshold+probes, "%d attempts while it was down", during)
	d := b.decisions()
	b.must(len(d) == 20, "%d decisions", len(d))
}

// run plays a fault and returns how it was borne.
func (f benchFault) run(t *testing.T, p benchSide) (v verdict, why []string) {
	larger := ""
	if f.larger {
		larger = ", larger_context: true"
	}
	inScene(t, setting{
		dialect: p.dialect, secure: p.secure, names: []string{"A", "B"},
		more: fmt.Sprintf("  bench: {candidates: [{upstream: A, model: %s, weight: 100}, {upstream: B, model: %s, weight: 10, substitute: true%s}]}\n", benchPrimary, benchFallback, larger) +
			"tasks: {plain: {fallback: any}, held: {fallback: any, release: complete}}\n",
	}, func(w *scene) {
		b := &bench{scene: w, fault: f, p: p, began: time.Now()}
		w.up["A"].plays(func(e *exchange) { f.a(b, e) })
		w.up["B"].plays(func(e *exchange) {
			if f.b != nil {
				f.b(b, e)
				return
			}
			b.speaks(e)
		})
		if f.runs != nil {
			f.runs(b)
		} else {
			b.once()
			f.checks(b)
		}
		v = b.judge()
		why = append(b.missed, b.advice...)
	})
	return v, why
}

// want is the verdict that the defaults have to reach: where output was
// relayed nothing may replace it, and an honest end is all that is left.
func (f benchFault) want(p benchSide) verdict {
	if f.midway && !p.held {
		return safe
	}
	return pass
}

func TestFailoverbench(t *testing.T) {
	if n := len(strings.Fields(speech)); n != 60 {
		t.Fatalf("the speech has %d words", n)
	}
	var sides []benchSide
	for _, held := range []bool{false, true} {
		for _, dialect := range []decision.Dialect{decision.OpenAI, decision.Anthropic} {
			for _, secure := range []bool{false, true} {
				sides = append(sides, benchSide{dialect, secure, held})
			}
		}
	}
	var table strings.Builder
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprint(out, "\nfault\t")
	for _, p := range sides {
		fmt.Fprintf(out, "%s\t", p)
	}
	fmt.Fprintln(out)
	// worst is the worst verdict of a fault's variants and sides, by release.
	worst := map[bool]map[string]verdict{false: {}, true: {}}
	rank := []verdict{pass, partial, safe, failed}
	for _, f := range benchFaults {
		fmt.Fprintf(out, "%s %s\t", f.id, f.title)
		for _, p := range sides {
			v, why := f.run(t, p)
			fmt.Fprintf(out, "%s\t", v)
			if v != f.want(p) {
				t.Errorf("%s %s, %s: %s, want %s: %s", f.id, f.title, p, v, f.want(p), strings.Join(why, "; "))
			}
			old, known := worst[p.held][f.id]
			if !known || slices.Index(rank, v) > slices.Index(rank, old) {
				worst[p.held][f.id] = v
			}
		}
		fmt.Fprintln(out)
	}
	_ = out.Flush()
	for _, held := range []bool{false, true} {
		sum := map[verdict]int{}
		for _, v := range worst[held] {
			sum[v]++
		}
		release := "default settings"
		if held {
			release = "release: complete"
		}
		fmt.Fprintf(&table, "%s: %d pass, %d partial, %d safe, %d fail\n", release, sum[pass], sum[partial], sum[safe], sum[failed])
	}
	t.Log(table.String())
}
