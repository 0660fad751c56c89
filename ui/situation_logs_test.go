package ui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/sources"
)

// fakeLoki answers with what a test set.
type fakeLoki struct {
	addr  string
	make  func(a *sources.LogAnswer)
	err   error
	asked []sources.LogQuery
	// tail is what it tells of a query that is followed; it blocks until then.
	tail []sources.TailNews
}

func (f *fakeLoki) Tail(ctx context.Context, _ sources.LogQuery, take func(sources.TailNews)) error {
	for _, n := range f.tail {
		take(n)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fakeLoki) Addr() string { return f.addr }

func (*fakeLoki) Told(api.Source) {}

func (f *fakeLoki) Query(_ context.Context, gen uint64, q sources.LogQuery) sources.Answer[sources.LogAnswer] {
	f.asked = append(f.asked, q)
	a := sources.LogAnswer{Query: q, Kind: sources.LogLines, SearchedBytes: 1_234_000_000, Unparsed: -1}
	if f.make != nil {
		f.make(&a)
	}
	return answered(gen, a, f.err)
}

// withLoki is an incident on whose log screen nothing was asked yet.
func withLoki(m *model, f *fakeLoki) {
	s := incidentState()
	s.Tasks = []api.Task{
		{Name: "policy_question", Fallback: "any", OnUnavailable: "queue"}, {Name: "document_summary", Fallback: "any", OnUnavailable: "fail"},
		{Name: "refund", Fallback: "same_model", OnUnavailable: "human"}, {Name: "permission_change", Fallback: "never", OnUnavailable: "human"},
	}
	give(m, s, incidentEvents(), decisionsOf("breaker_open"))
	m.ask.logs = f
}

// answerLogs runs what was asked, as the program does.
func answerLogs(m *model, cmds []tea.Cmd) {
	for _, c := range cmds {
		if c == nil {
			continue
		}
		if msg, ok := c().(logsMsg); ok {
			m.Update(msg)
		}
	}
}

// followLogs presses T and takes the first news. What follows the log ends with
// the tail.
func followLogs(m *model) {
	cmd := keys(m, "T")[0]
	m.Update(tailNews(m, cmd))
	m.logs.tail.cancel()
}

// tailNews runs what follows the log and what waits for its news, and returns
// these.
func tailNews(_ *model, cmd tea.Cmd) tea.Msg {
	cmds := cmd().(tea.BatchMsg)
	go cmds[0]()
	return cmds[1]()
}

// run presses keys and lets what was asked be answered.
func runKeys(m *model, ks ...string) { answerLogs(m, keys(m, ks...)) }

// typedKeys are the keys of a text and enter.
func typedKeys(s string) []string {
	ks := strings.Split(s, "")
	return append(ks, "enter")
}

// down is n times down.
func downKeys(n int) []string { return strings.Split(strings.Repeat("j", n), "") }

// eventful are lines as the gateway writes them, the newest first.
func eventful(a *sources.LogAnswer) {
	labels := map[string]string{"service_name": "failback", "instance": "gw-1"}
	lines := []string{
		`{"event":"model_route_selected","time":"2000-01-01T04:12:30Z","request_id":"req-100","task_type":"policy_question","workflow_status":"degraded_completed","reason":"breaker_open","candidates":[{"provider":"anthropic-us-east-1","skipped":"breaker_open"},{"provider":"vertex-us-central1"}],"attempts":[{"provider":"vertex-us-central1","class":"ok"}],"duration_ms":2700}`,
		`{"event":"model_route_selected","request_id":"req-099","task_type":"document_summary","workflow_status":"unavailable","reason":"overloaded","candidates":[{"provider":"anthropic-us-east-1","skipped":"breaker_open"},{"provider":"vertex-us-central1"}],"attempts":[{"provider":"vertex-us-central1","class":"overloaded","status":529}]}`,
		`{"event":"breaker_transition","provider":"anthropic-us-east-1","capability":"text","from":"half_open","to":"open","reason":"server_error","detail":"1/1 probes failed (server_error)"}`,
		`{"event":"model_route_selected","request_id":"req-098","task_type":"policy_question","workflow_status":"completed","reason":"primary_completed","attempts":[{"provider":"anthropic-eu-west-1","class":"ok"}]}`,
		`{"event":"operator_command","provider":"anthropic-eu-west-1","action":"share","from":"0","to":"5","by":"ana","why":"probe ok","result":"ok","revision":118}`,
		`a line that is none of the gateway's`,
	}
	for i := range 17 {
		a.Rows = append(a.Rows, sources.LogRow{TS: a.Query.End.Add(-time.Duration(i)*1300*time.Millisecond - time.Second).UnixNano(), Labels: labels, Line: lines[i%len(lines)]})
	}
}

func byReason(a *sources.LogAnswer) {
	a.Kind = sources.LogVector
	for i, r := range []string{"breaker_open", "overloaded", "first_output_timeout"} {
		a.Series = append(a.Series, sources.LogSeries{Labels: map[string]string{"reason": r}, Points: []sources.LogPoint{{At: a.Query.End, Value: float64(117 / (1 + 3*i))}}})
	}
}

func hostileLines(a *sources.LogAnswer) {
	for i, h := range hostile {
		a.Rows = append(a.Rows, sources.LogRow{TS: a.Query.End.Add(-time.Duration(i) * time.Second).UnixNano(), Labels: map[string]string{h: h}, Line: h})
		a.Rows = append(a.Rows, sources.LogRow{TS: a.Query.End.Add(-time.Duration(i) * time.Second).UnixNano(), Line: fmt.Sprintf(`{"event":%q,"request_id":%q,%q:%q}`, h, h, h, h)})
	}
	a.Warnings = hostile
}

// refused is how a Loki's refusal of a query arrives.
func refused(message string) error {
	return &sources.RemoteError{Kind: sources.RemoteQuery, Source: "Loki", Status: 400, Message: message}
}

func init() {
	logSituation := func(name string, f *fakeLoki, ks ...[]string) {
		situations = append(situations, situation{name, func(m *model) {
			withLoki(m, f)
			keys(m, "l")
			for _, k := range ks {
				runKeys(m, k...)
			}
		}})
	}
	some := func(f func(a *sources.LogAnswer)) *fakeLoki { return &fakeLoki{make: f} }
	affected, reason := append(downKeys(2), "enter"), append(downKeys(4), "enter")
	own := func(q string) []string { return append([]string{"a", "ctrl+u"}, typedKeys(q)...) }

	logSituation("logs", &fakeLoki{addr: "https://loki.example:3100"})
	logSituation("logs-answer", some(eventful), affected, []string{"j", "j"})
	logSituation("logs-vector", some(byReason), reason)
	logSituation("logs-queries", some(byReason), reason, []string{"esc"})
	logSituation("logs-none", some(func(*sources.LogAnswer) {}), []string{"j", "[", "[", "[", "enter"})
	logSituation("logs-alarm", some(eventful), []string{"j", "enter"})
	logSituation("logs-cut-off", some(func(a *sources.LogAnswer) { eventful(a); a.CutOff = true }), affected)
	logSituation("logs-partial", some(func(a *sources.LogAnswer) {
		eventful(a)
		a.Unparsed, a.Warnings = 12, []string{"one of three ingesters did not answer"}
	}), affected)
	logSituation("logs-down", &fakeLoki{err: errors.New("503: too many outstanding requests")}, affected)
	logSituation("logs-refused", &fakeLoki{err: refused("parse error at line 1, col 38: syntax error: unexpected IDENTIFIER, expecting STRING")}, own(`{service_name="failback"} | json | x=`+"y"))
	logSituation("logs-typing", some(eventful), []string{"a"}, strings.Split(` | json | reason="overloaded"`, ""))
	logSituation("logs-asking", some(eventful))
	situations[len(situations)-1].make = func(m *model) {
		withLoki(m, some(eventful))
		keys(m, "l", "enter")
		bubble.Sleep(4 * time.Second)
		withLoki(m, some(eventful))
	}
	logSituation("logs-filtered", some(eventful), affected, append([]string{"/"}, typedKeys("overloaded")...))
	logSituation("log-line", some(eventful), affected, []string{"j", "enter"})
	logSituation("logs-hostile", some(hostileLines), affected, []string{"j"})
	logSituation("log-line-hostile", some(hostileLines), affected, []string{"j", "j", "j", "enter"})
	logSituation("logs-matrix", some(func(a *sources.LogAnswer) {
		a.Kind = sources.LogMatrix
		for i, r := range []string{"primary", "fallback"} {
			s := sources.LogSeries{Labels: map[string]string{"route": r}}
			for j := range 12 {
				s.Points = append(s.Points, sources.LogPoint{At: a.Query.End.Add(time.Duration(j-11) * time.Minute), Value: float64(100*(1-i) + j)})
			}
			a.Series = append(a.Series, s)
		}
	}), own(`sum by (route) (rate({service_name="failback"} | json [5m]))`), []string{"M"})
	tailed := func(name string, state sources.TailState) {
		logSituation(name, nil)
		situations[len(situations)-1].make = func(m *model) {
			f := some(eventful)
			withLoki(m, f)
			keys(m, "l", "j", "j")
			a := sources.LogAnswer{Query: m.lookedAt().q}
			eventful(&a)
			slices.Reverse(a.Rows)
			f.tail = []sources.TailNews{{Rows: a.Rows, State: state}}
			followLogs(m)
		}
	}
	tailed("logs-tail", sources.TailState{Mode: sources.TailLive, Dropped: 1200})
	tailed("logs-tail-polling", sources.TailState{Mode: sources.TailPolling, Why: "1011: max concurrent tail requests limit exceeded, count > limit (11 > 10)"})
	tailed("logs-tail-hostile", sources.TailState{Mode: sources.TailReconnecting, Why: strings.Join(hostile, " ")})
	logSituation("logs-page", some(func(a *sources.LogAnswer) { eventful(a); a.CutOff, a.More = true, new(sources.LogMark) }), affected, []string{"G"})
	logSituation("logs-range", some(eventful), []string{"R"})
	logSituation("decision-why", some(eventful))
	situations[len(situations)-1].make = func(m *model) {
		withLoki(m, some(eventful))
		keys(m, "d", "j", "enter", "G")
	}
	logSituation("logs-of-request", some(eventful))
	situations[len(situations)-1].make = func(m *model) {
		withLoki(m, some(eventful))
		keys(m, "d", "j", "enter")
		runKeys(m, "L")
	}
}
