package sources_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/sources"
	"failback/sources/embedded/logs"
	"failback/sources/logql"
)

func task(name, fallback string) api.Task { return api.Task{Name: name, Fallback: fallback} }

const oddTask = `a"} | json or {b="` + "`|(日本\n\u202e"

// Every canned query stays within the subset that the gateway's own log
// understands, whatever tasks and selector the configuration has.
func TestCannedQueriesStayInTheSubset(t *testing.T) {
	end := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	for name, tasks := range map[string][]api.Task{
		"none":     nil,
		"all":      {task("a", "any"), task("b", "same_model"), task("c", "never")},
		"any":      {task("a", "any")},
		"hostile":  {task(oddTask, "any"), task("back\\slash|`tick`", "same_model")},
		"as regex": {task("a.*(b", "any"), task("[5m]", "same_model")},
	} {
		for _, selector := range []string{"", `{service_name="failback"}`, `{app=~"fail.+", env="prod"}`} {
			for _, c := range sources.CannedQueries(tasks, selector) {
				q := c.At(end.Add(-c.Range), end)
				for text, metric := range map[string]bool{q.Query: c.Instant, q.Unparsed: true} {
					parsed, err := logql.Parse(text)
					if err != nil {
						t.Errorf("%s with tasks %s: %s: %v", c.Name, name, text, err)
						continue
					}
					if parsed.IsMetric() != metric {
						t.Errorf("%s: metric %t, want %t", c.Name, parsed.IsMetric(), metric)
					}
				}
			}
		}
	}
}

// ownLog is a gateway's own log with these lines, and a client of it.
func ownLog(t *testing.T, lines ...any) sources.Logs {
	t.Helper()
	store, err := logs.Open(logs.Options{Dir: t.TempDir(), Labels: map[string]string{"service_name": "failback", "instance": "gw-1"}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(store.Handler())
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := store.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, l := range lines {
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Write(append(b, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		written, dropped, err := store.Stats()
		if err != nil || dropped > 0 {
			t.Fatalf("%d lines dropped: %v", dropped, err)
		}
		if written == uint64(len(lines)) {
			break
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d of %d lines are written", written, len(lines))
		}
	}
	_, client, err := sources.Connect(overHTTP{server.URL}, api.Sources{}, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// What each canned query says of one eventful hour.
func TestCannedQueriesOfAnHour(t *testing.T) {
	end := time.Now().Truncate(time.Second)
	at := func(minutes int) time.Time { return end.Add(-time.Duration(minutes) * time.Minute) }
	decision := func(minutes int, id, task, status, reason string, fallback, substitute bool, failed string) api.Decision {
		return api.Decision{
			Event: "model_route_selected", Time: at(minutes), RequestID: id, TaskType: task, Model: "sonnet", WorkflowStatus: status, Reason: reason,
			FallbackTriggered: fallback, Substitute: substitute, FailedProvider: failed, PrimaryProvider: "east",
			Candidates: []api.DecisionCandidate{}, Attempts: []api.DecisionAttempt{},
		}
	}
	client := ownLog(t,
		decision(50, "req-1", "policy_question", "completed", "primary_completed", false, false, ""),
		decision(40, "req-2", "refund", "degraded_completed", "server_error", true, false, "east"),
		api.Event{Event: "breaker_transition", Time: at(35), Provider: "east", From: "closed", To: "open", Reason: "failure_rate"},
		decision(30, "req-3", "policy_question", "degraded_completed", "first_output_timeout", true, true, "east"),
		decision(25, "req-4", "refund", "degraded_completed", "server_error", true, true, "east"), // another model
		decision(20, "req-5", "permission_change", "degraded_completed", "server_error", true, false, "east"),
		decision(15, "req-6", "unheard_of", "incomplete", "interrupted", true, false, "west"),
		decision(12, "req-7", oddTask, "degraded_completed", "breaker_open", true, true, ""),
		decision(10, "req-8", "permission_change", "human", "breaker_open", false, false, ""),
		decision(9, "req-9", "refund", "cancelled", "client_gone", false, false, ""),
		decision(19, "req-10", "refund", "unavailable", "server_error", false, false, "east"), // nothing left its primary, and every user is hurt
		decision(18, "req-11", "refund", "unavailable", "server_error", false, false, "east"),
		decision(17, "req-12", "refund", "refused", "capacity", false, false, ""),
		decision(16, "req-13", "refund", "refused", "cost_ceiling", false, false, ""), // its caller's own limit
		decision(13, "req-14", "refund", "rejected", "bad_request", false, false, ""),
		decision(14, "req-15", "refund", "queued", "server_error", false, false, ""), // not decided yet
		api.Event{Event: "operator_command", Time: at(8), By: "ana", Why: "model_route_selected breaker_transition", Result: "ok"},
		api.Event{Event: "traffic_step", Time: at(6), Provider: "east", From: "100", To: "0", Reason: "lowered", By: "auto"},
		api.Event{Event: "health_transition", Time: at(5), Provider: "east", From: "suspect", To: "degraded"},
		api.Event{Event: "config_reload", Time: at(4), By: "SIGHUP", Action: "reload", Result: "ok"},
		api.Event{Event: "passthrough", Time: at(3), From: "off", To: "on", By: "ana", Why: "config_reload"},
		api.Event{Event: "credential", Time: at(2), Provider: "east", Why: "traffic_step"},
		map[string]any{"event": "late_result", "time": at(7), "request_id": "req-3"},
	)
	tasks := []api.Task{task("policy_question", "any"), task("refund", "same_model"), task("permission_change", "never"), task(oddTask, "any")}
	want := map[string]string{
		"first-switch": "req-2",
		"not-allowed":  "req-6 req-5 req-4",
		"affected": "req-8 permission_change human breaker_open|req-7 " + oddTask + " degraded_completed breaker_open|req-15 refund queued server_error|" +
			"req-6 unheard_of incomplete interrupted|req-13 refund refused cost_ceiling|req-12 refund refused capacity|" +
			"req-11 refund unavailable server_error|req-10 refund unavailable server_error|req-5 permission_change degraded_completed server_error|req-4 refund degraded_completed server_error|" +
			"req-3 policy_question degraded_completed first_output_timeout|req-2 refund degraded_completed server_error",
		"failed":       "permission_change breaker_open 1|refund capacity 1|refund server_error 2|unheard_of interrupted 1",
		"by-reason":    "breaker_open 1|first_output_timeout 1|interrupted 1|server_error 3",
		"by-task":      oddTask + " 1|permission_change 1|policy_question 1|refund 2|unheard_of 1",
		"first-output": "east 1",
		"breakers":     "breaker_transition",
		"late-results": "late_result",
		"incomplete":   "req-6",
		"human":        "req-8",
		"operators":    "operator_command",
		"changes":      "passthrough config_reload health_transition traffic_step operator_command",
	}
	for _, c := range sources.CannedQueries(tasks, "") {
		a := client.Query(t.Context(), 1, c.At(end.Add(-time.Hour), end))
		if a.Err != nil {
			t.Errorf("%s: %v", c.Name, a.Err)
			continue
		}
		if len(a.Value.Warnings) != 0 || a.Value.CutOff != (c.Name == "first-switch") {
			t.Errorf("%s: cut off %t, warnings %q", c.Name, a.Value.CutOff, a.Value.Warnings)
		}
		got := shown(t, c, a.Value)
		if got != want[c.Name] {
			t.Errorf("%s:\n got %q\nwant %q", c.Name, got, want[c.Name])
		}
	}
	// A quiet hour answers none to every one of them.
	quiet := ownLog(t, decision(50, "req-1", "policy_question", "completed", "primary_completed", false, false, ""))
	for _, c := range sources.CannedQueries(tasks, "") {
		if a := quiet.Query(t.Context(), 1, c.At(end.Add(-time.Hour), end)); a.Err != nil || !a.Value.Empty() {
			t.Errorf("%s of a quiet hour: %+v, %v", c.Name, a.Value, a.Err)
		}
	}
}

// shown is what of an answer tells it from others: request ids or events, whole
// lines, or numbers by name.
func shown(t *testing.T, c sources.Canned, a *sources.LogAnswer) string {
	t.Helper()
	var all []string
	for _, s := range a.Series {
		var names []string
		for _, label := range []string{"task_type", "reason", "failed_provider"} {
			if name, ok := s.Labels[label]; ok {
				names = append(names, name)
			}
		}
		if len(names) != len(s.Labels) {
			t.Errorf("%s: labels %v", c.Name, s.Labels)
		}
		all = append(all, fmt.Sprintf("%s %g", strings.Join(names, " "), s.Points[0].Value))
	}
	if c.Instant {
		slices.Sort(all)
		return strings.Join(all, "|")
	}
	for _, r := range a.Rows {
		if c.Name == "affected" {
			all = append(all, r.Line)
			continue
		}
		var line struct {
			Event     string `json:"event"`
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(r.Line), &line); err != nil {
			t.Errorf("%s: %v in %q", c.Name, err, r.Line)
		}
		if line.Event != "model_route_selected" {
			all = append(all, line.Event)
		} else {
			all = append(all, line.RequestID)
		}
	}
	if c.Name == "affected" {
		return strings.Join(all, "|")
	}
	return strings.Join(all, " ")
}
