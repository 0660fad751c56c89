package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"failback/gateway/decision"
	"failback/gateway/internal/memnet"
)

// fault is how an upstream behaves. "Later" is after the first output of a
// stream, or in the middle of a whole answer.
type fault string

const (
	healthy     fault = "healthy"
	refuses     fault = "refusing connections"
	resets      fault = "resetting the connection"
	hangs       fault = "hanging"
	unavailable fault = "answering 503"
	fails       fault = "answering 500"
	limits      fault = "answering 429"
	breaksFirst fault = "breaking before output"
	breaksLater fault = "breaking after output"
	endsFirst   fault = "ending before output"
	endsLater   fault = "ending after output"
	errorsFirst fault = "an error before output"
	errorsLater fault = "an error after output"
	silentFirst fault = "silent before output"
	silentLater fault = "silent after output"
)

const (
	// canary marks what no client may ever see.
	canary         = "CANARY"
	overloadBody   = `{"type":"error","error":{"type":"overloaded_error","message":"` + canary + ` busy","param":null,"code":"server_is_overloaded"}}`
	limitBody      = `{"type":"error","error":{"type":"rate_limit_error","message":"` + canary + ` slowly","param":null,"code":"rate_limit_exceeded"}}`
	brokenBody     = `{"type":"error","error":{"type":"api_error","message":"` + canary + ` sorry","param":null,"code":null}}`
	firstPiece     = "Zürich said:\n"
	firstArguments = `{"at": "Zürich",  "n":1`
	inputOfOne     = 11
	outputOfOne    = 7
	inputOfOther   = 22
	outputOfOther  = 9
	upstreamSecret = "key-of-" + canary
	theirModel     = "their-model-" + canary
)

var faults = []fault{
	healthy, refuses, resets, hangs, unavailable, fails, limits, breaksFirst, breaksLater,
	endsFirst, endsLater, errorsFirst, errorsLater, silentFirst, silentLater,
}

// midway: something of an answer came before it went wrong.
func (f fault) midway() bool {
	switch f {
	case breaksLater, endsLater, errorsLater, silentLater:
		return true
	}
	return false
}

// silent: only a watchdog ends it.
func (f fault) silent() bool { return f == hangs || f == silentFirst || f == silentLater }

// repeated: the design has the same candidate asked once more.
func (f fault) repeated() bool {
	switch f {
	case refuses, resets, breaksFirst, fails:
		return true
	}
	return false
}

// waited: with nowhere else to go the same candidate is asked until the
// attempts are used up.
func (f fault) waited() bool {
	switch f {
	case unavailable, limits, errorsFirst, errorsLater:
		return true
	}
	return false
}

// fleet is the upstreams of one gateway: pairs of a first and a second one,
// each under a path of its own on one server, which counts what each one sees.
type fleet struct {
	*httptest.Server
	net           *memnet.Network // nil: loopback
	ports         int             // taken on net
	first, second fault
	healed        atomic.Bool
	closed        string // an address at which nobody listens
	seen          map[string]*atomic.Int64
}

type connKey struct{}

// newFleet serves for the pairs of the given names, over TLS and HTTP/2 if
// secure, on the network n or, if that is nil, on loopback.
func newFleet(t *testing.T, n *memnet.Network, first, second fault, secure bool, names ...string) *fleet {
	t.Helper()
	f := &fleet{net: n, first: first, second: second, seen: make(map[string]*atomic.Int64)}
	for _, name := range names {
		f.seen[name+"-one"], f.seen[name+"-two"] = new(atomic.Int64), new(atomic.Int64)
	}
	f.Server = &httptest.Server{Listener: f.listen(t), EnableHTTP2: secure, Config: &http.Server{Handler: f}}
	nobody := f.listen(t)
	f.closed = nobody.Addr().String()
	_ = nobody.Close()
	f.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	if secure {
		f.StartTLS()
	} else {
		f.Start()
	}
	t.Cleanup(f.Close)
	return f
}

// listen opens a listener at an address of its own.
func (f *fleet) listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listener(nil), error(nil)
	if f.net == nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	} else {
		f.ports++
		l, err = f.net.Listen(fmt.Sprintf("127.0.0.1:%d", f.ports))
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// baseURL is where the upstream of that name is, as a configuration has it.
func (f *fleet) baseURL(name string, d decision.Dialect) string {
	base := f.URL
	if f.faultOf(name) == refuses {
		base = strings.Replace(base, f.Listener.Addr().String(), f.closed, 1)
	}
	base += "/" + name
	if d == decision.OpenAI {
		base += "/v1"
	}
	return base
}

// heal makes all upstreams healthy.
func (f *fleet) heal() { f.healed.Store(true) }

func (f *fleet) faultOf(name string) fault {
	if f.healed.Load() {
		return healthy
	}
	if strings.HasSuffix(name, "-one") {
		return f.first
	}
	return f.second
}

// trust is what a gateway needs to trust the fleet; nil without TLS.
func (f *fleet) trust() *tls.Config {
	if f.TLS == nil {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AddCert(f.Certificate())
	return &tls.Config{RootCAs: roots}
}

func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	seen := f.seen[name]
	if seen == nil {
		http.Error(w, "no such upstream", http.StatusTeapot)
		return
	}
	seen.Add(1)
	var q struct {
		Model  string
		Stream bool
		Tools  []json.RawMessage
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &q) != nil || q.Model != theirModel {
		http.Error(w, "a bad request: "+string(body), http.StatusTeapot)
		return
	}
	who := name[strings.LastIndexByte(name, '-')+1:]
	behave(w, r, f.faultOf(name), replyOf(path, who, len(q.Tools) > 0), q.Stream)
}

// behave answers with a as the fault has it.
func behave(w http.ResponseWriter, r *http.Request, f fault, a reply, stream bool) {
	refuse := func(status int, body string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
	switch f {
	case resets:
		reset(r)
	case hangs:
		<-r.Context().Done()
		return
	case unavailable:
		refuse(http.StatusServiceUnavailable, overloadBody)
		return
	case fails:
		refuse(http.StatusInternalServerError, brokenBody)
		return
	case limits:
		refuse(http.StatusTooManyRequests, limitBody)
		return
	}
	kind, before, after := "text/event-stream", a.preamble, a.preamble+a.first
	failure, rest := a.failure, a.preamble+a.first+a.rest
	if !stream {
		kind, before, after = "application/json", "", a.whole[:len(a.whole)/2]
		failure, rest = overloadBody, a.whole
	}
	part := before
	if f.midway() {
		part = after
	}
	w.Header().Set("Content-Type", kind)
	send := func(s string) {
		fmt.Fprint(w, s)
		_ = http.NewResponseController(w).Flush()
	}
	switch f {
	case healthy:
		send(rest)
	case breaksFirst, breaksLater:
		send(part)
		panic(http.ErrAbortHandler)
	case endsFirst, endsLater:
		send(part)
	case errorsFirst, errorsLater:
		if stream {
			send(part)
		}
		send(failure)
	case silentFirst, silentLater:
		send(part)
		<-r.Context().Done()
	}
}

// reset breaks the connection off as a crashed process does.
func reset(r *http.Request) {
	c := r.Context().Value(connKey{}).(net.Conn)
	if s, ok := c.(*tls.Conn); ok {
		c = s.NetConn()
	}
	if c, ok := c.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = c.Close()
	panic(http.ErrAbortHandler)
}

// reply is one answer, as a stream and whole.
type reply struct {
	preamble string // frames that are no output
	first    string // frames with the first output
	rest     string // frames with what is left of it, and the end
	failure  string // a frame that is an error
	whole    string
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func frame(data string) string { return "data: " + data + "\n\n" }

// event is a frame with the name that its data has as type.
func event(data string) string {
	var e struct{ Type string }
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		panic(err)
	}
	return "event: " + e.Type + "\n" + frame(data)
}

func secondPiece(who string) string     { return "🙂 \"answer\" of " + who }
func secondArguments(who string) string { return `e2, "who":"` + who + `"}` }

func tokens(who string) (in, out int64) {
	if who == "one" {
		return inputOfOne, outputOfOne
	}
	return inputOfOther, outputOfOther
}

// replyOf is what the upstream who answers at path, whose first part is its
// version if the base URL has one.
func replyOf(path, who string, tools bool) reply {
	switch strings.TrimPrefix(path, "v1/") {
	case "messages":
		return messageReply(who, tools)
	case "messages/count_tokens":
		in, _ := tokens(who)
		return reply{whole: fmt.Sprintf(`{"input_tokens":%d}`, in)}
	case "responses":
		return responsesReply(who, tools)
	case "embeddings":
		in, _ := tokens(who)
		return reply{whole: fmt.Sprintf(`{"object":"list","model":"x","data":[{"object":"embedding","index":0,"embedding":[%d,-2.5e-3]}],"usage":{"prompt_tokens":%d,"total_tokens":%d}}`, in, in, in)}
	case "completions":
		return completionReply(who)
	}
	return chatReply(who, tools)
}

func openAIUsage(who string) string {
	in, out := tokens(who)
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, in, out, in+out)
}

func chatReply(who string, tools bool) reply {
	chunk := func(delta, finish string) string {
		return frame(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"x","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}],"usage":null}`)
	}
	end := chunk(`{}`, `"stop"`)
	first, second := chunk(`{"content":`+quoted(firstPiece)+`}`, "null"), chunk(`{"content":`+quoted(secondPiece(who))+`}`, "null")
	message, finish := `{"role":"assistant","refusal":null,"content":`+quoted(firstPiece+secondPiece(who))+`}`, "stop"
	if tools {
		first = chunk(`{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"look","arguments":`+quoted(firstArguments)+`}}]}`, "null")
		second = chunk(`{"tool_calls":[{"index":0,"function":{"arguments":`+quoted(secondArguments(who))+`}}]}`, "null")
		end, finish = chunk(`{}`, `"tool_calls"`), "tool_calls"
		message = `{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"look","arguments":` + quoted(firstArguments+secondArguments(who)) + `}}]}`
	}
	usage := openAIUsage(who)
	return reply{
		preamble: ": processing\n\n" + chunk(`{"role":"assistant","content":""}`, "null"),
		first:    first,
		rest:     second + end + frame(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"x","choices":[],"usage":`+usage+`}`) + frame("[DONE]"),
		failure:  frame(overloadBody),
		whole:    `{"id":"c1","object":"chat.completion","created":1,"model":"x","choices":[{"index":0,"message":` + message + `,"finish_reason":"` + finish + `"}],"usage":` + usage + `}`,
	}
}

func completionReply(who string) reply {
	chunk := func(text, finish string) string {
		return frame(`{"id":"c1","object":"text_completion","created":1,"model":"x","choices":[{"index":0,"text":` + quoted(text) + `,"logprobs":null,"finish_reason":` + finish + `}]}`)
	}
	usage := openAIUsage(who)
	return reply{
		preamble: chunk("", "null"),
		first:    chunk(firstPiece, "null"),
		rest:     chunk(secondPiece(who), "null") + chunk("", `"stop"`) + frame(`{"id":"c1","object":"text_completion","created":1,"model":"x","choices":[],"usage":`+usage+`}`) + frame("[DONE]"),
		failure:  frame(overloadBody),
		whole:    `{"id":"c1","object":"text_completion","created":1,"model":"x","choices":[{"index":0,"text":` + quoted(firstPiece+secondPiece(who)) + `,"logprobs":null,"finish_reason":"stop"}],"usage":` + usage + `}`,
	}
}

func responsesReply(who string, tools bool) reply {
	in, out := tokens(who)
	item := func(status, text string) string {
		return `{"type":"message","id":"i1","role":"assistant","status":"` + status + `","content":[{"type":"output_text","annotations":[],"text":` + quoted(text) + `}]}`
	}
	delta := func(n int, text string) string {
		return event(fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"i1","output_index":0,"content_index":0,"delta":%s}`, n, quoted(text)))
	}
	begin := `{"type":"message","id":"i1","role":"assistant","status":"in_progress","content":[]}`
	parts := [2]string{firstPiece, secondPiece(who)}
	if tools {
		item = func(status, arguments string) string {
			return `{"type":"function_call","id":"i1","call_id":"t1","name":"look","status":"` + status + `","arguments":` + quoted(arguments) + `}`
		}
		delta = func(n int, arguments string) string {
			return event(fmt.Sprintf(`{"type":"response.function_call_arguments.delta","sequence_number":%d,"item_id":"i1","output_index":0,"delta":%s}`, n, quoted(arguments)))
		}
		begin = item("in_progress", "")
		parts = [2]string{firstArguments, secondArguments(who)}
	}
	response := func(status, output, usage string) string {
		return `{"id":"resp_` + who + `","object":"response","created_at":1,"status":"` + status + `","error":null,"model":"x","output":[` + output + `],"usage":` + usage + `}`
	}
	done := response("completed", item("completed", parts[0]+parts[1]), fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}`, in, out, in+out))
	return reply{
		preamble: event(`{"type":"response.created","sequence_number":0,"response":`+response("in_progress", "", "null")+`}`) +
			event(`{"type":"response.in_progress","sequence_number":1,"response":`+response("in_progress", "", "null")+`}`),
		first: event(`{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":`+begin+`}`) + delta(3, parts[0]),
		rest: delta(4, parts[1]) +
			event(`{"type":"response.output_item.done","sequence_number":5,"output_index":0,"item":`+item("completed", parts[0]+parts[1])+`}`) +
			event(`{"type":"response.completed","sequence_number":6,"response":`+done+`}`),
		failure: event(`{"type":"error","sequence_number":9,"code":"server_is_overloaded","message":"` + canary + `","param":null}`),
		whole:   done,
	}
}

func messageReply(who string, tools bool) reply {
	in, out := tokens(who)
	start, stop := `{"type":"text","text":""}`, "end_turn"
	delta := func(text string) string {
		return event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + quoted(text) + `}}`)
	}
	parts := [2]string{firstPiece, secondPiece(who)}
	content := `{"type":"text","text":` + quoted(parts[0]+parts[1]) + `}`
	if tools {
		start, stop = `{"type":"tool_use","id":"t1","name":"look","input":{}}`, "tool_use"
		delta = func(arguments string) string {
			return event(`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":` + quoted(arguments) + `}}`)
		}
		parts = [2]string{firstArguments, secondArguments(who)}
		content = `{"type":"tool_use","id":"t1","name":"look","input":` + parts[0] + parts[1] + `}`
	}
	return reply{
		preamble: event(fmt.Sprintf(`{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":1}}}`, in)) +
			event(`{"type":"ping"}`),
		first: event(`{"type":"content_block_start","index":0,"content_block":`+start+`}`) + delta(parts[0]),
		rest: delta(parts[1]) + event(`{"type":"content_block_stop","index":0}`) +
			event(fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":%d}}`, stop, out)) +
			event(`{"type":"message_stop"}`),
		failure: event(overloadBody),
		whole:   fmt.Sprintf(`{"id":"m1","type":"message","role":"assistant","model":"x","content":[%s],"stop_reason":%q,"stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":%d}}`, content, stop, in, out),
	}
}
