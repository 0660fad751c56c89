package logql

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

const (
	benchStart = int64(1_795_996_500_000_000_000)
	benchLines = 100_000
	benchGap   = int64(36 * time.Millisecond) // 100,000 lines an hour
	benchEnd   = benchStart + benchLines*benchGap
)

// decisionLine writes a line as the decision log has it, about 1 KB.
func decisionLine(r *rand.Rand, i int, ts int64) []byte {
	if i%500 == 499 {
		return fmt.Appendf(nil, `{"seq":%d,"event":"breaker_transition","time":%q,"provider":"anthropic-us-east-1","region":"us-east-1","capability":"text","from":"closed","to":"open","reason":"failure_rate"}`,
			i, time.Unix(0, ts).UTC().Format(time.RFC3339Nano))
	}
	task := []string{"policy_question", "document_summary", "permission_change", "payment"}[r.IntN(4)]
	route, triggered, status, reason, selected, failed := "primary", false, "completed", "primary_completed", "anthropic-us-east-1", ""
	class := "ok"
	if r.IntN(10) == 0 {
		reason = []string{"server_error", "rate_limited", "first_output_timeout", "breaker_open"}[r.IntN(4)]
		route, triggered, status, selected, failed, class = "fallback", true, "degraded_completed", "vertex-us-central1", "anthropic-us-east-1", reason
	} else if r.IntN(200) == 0 {
		status, reason = "incomplete", "stream_broken"
	}
	first := "null"
	if status != "incomplete" {
		first = fmt.Sprintf("%.3f", 20+r.Float64()*200)
	}
	return fmt.Appendf(nil, `{"event":"model_route_selected","time":%q,"request_id":"req-%012x","trace_id":"%016x%016x","conversation":"conv-%08x","turn":"t-%d","operation_id":"op-%010x","state_version":"v%d","task_type":%q,"model":"assistant-large","endpoint":"/v1/messages","stream":true,"primary_provider":"anthropic-us-east-1","selected_provider":%q,"selected_model":"large-2026-05","response_model":"large-2026-05","substitute":false,"route":%q,"fallback_triggered":%v,"workflow_status":%q,"reason":%q,"failed_provider":%q,"candidates":[{"provider":"anthropic-us-east-1","model":"large-2026-05","weight":1,"share":100,"skipped":""},{"provider":"vertex-us-central1","model":"large-2026-05","weight":0,"share":0,"skipped":""}],"attempts":[{"provider":"anthropic-us-east-1","region":"us-east-1","capability":"text","class":%q,"status":200,"first_output_ms":%s,"duration_ms":%.3f,"upstream_request_id":"req_%012x"}],"first_output_ms":%s,"duration_ms":%.3f,"remaining_deadline_ms":%d,"retry_tokens":%d,"cost_usd":%.6f,"http_status":200,"service_version":"1.4.2","instance":"gw-1"}`,
		time.Unix(0, ts).UTC().Format(time.RFC3339Nano), i, r.Uint64(), r.Uint64(), r.Uint32(), r.IntN(20), i, r.IntN(99), task, selected, route, triggered, status, reason, failed, class, first, r.Float64()*900, i, first, r.Float64()*900, r.IntN(20000), r.IntN(10), r.Float64()/50)
}

var benchSource = sync.OnceValue(func() *Lines {
	r := rand.New(rand.NewPCG(1, 2))
	streams := []Labels{
		{{"instance", "gw-1"}, {"service_name", "failback"}},
		{{"instance", "gw-2"}, {"service_name", "failback"}},
	}
	entries := make([]Entry, benchLines)
	for i := range entries {
		ts := benchStart + int64(i)*benchGap
		entries[i] = Entry{TS: ts, Labels: streams[r.IntN(2)], Line: decisionLine(r, i, ts)}
	}
	return NewLines(entries)
})

// canned are the forms of the console's canned queries.
var canned = []struct {
	name, query string
	forward     bool
	limit       int
}{
	{"first-switch", `{service_name="failback"} | json | fallback_triggered="true"`, true, 1},
	{"not-allowed", `{service_name="failback"} | json | fallback_triggered="true" | task_type!~"policy_question|document_summary|payment|permission_change"`, false, 1000},
	{"affected", `{service_name="failback"} | json | workflow_status="degraded_completed"`, false, 1000},
	{"affected-ids", `{service_name="failback"} | json | fallback_triggered="true" | line_format "{{.request_id}}"`, false, 5000},
	{"by-reason", `sum by (reason) (count_over_time({service_name="failback"} | json | __error__="" | fallback_triggered="true" [1h]))`, false, 0},
	{"by-task", `sum by (task_type) (count_over_time({service_name="failback"} | json | fallback_triggered="true" | __error__="" [1h]))`, false, 0},
	{"by-task-all", `sum by (task_type) (count_over_time({service_name="failback"} | json | __error__="" [1h]))`, false, 0},
	{"first-output", `sum by (failed_provider) (count_over_time({service_name="failback"} | json | reason="first_output_timeout" | __error__="" [1h]))`, false, 0},
	{"breakers", `{service_name="failback"} |= "breaker_transition" | json | event="breaker_transition"`, false, 1000},
	{"late-results", `{service_name="failback"} | json | event="late_result"`, false, 1000},
	{"incomplete", `{service_name="failback"} | json | workflow_status="incomplete"`, false, 1000},
	{"human", `{service_name="failback"} | json | event=~"escalation|queue_item"`, false, 1000},
	{"operators", `{service_name="failback"} | json | event="operator_command"`, false, 1000},
	{"quantile", `quantile_over_time(0.99, {service_name="failback"} | json | __error__="" | unwrap first_output_ms [1h]) by (selected_provider)`, false, 0},
	{"ratio", `sum(count_over_time({service_name="failback"} | json | fallback_triggered="true" [1h])) / sum(count_over_time({service_name="failback"} | json | event="model_route_selected" [1h]))`, false, 0},
}

func BenchmarkCanned(b *testing.B) {
	src := benchSource()
	for _, c := range canned {
		b.Run(c.name, func(b *testing.B) {
			q, err := Parse(c.query)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var res *Result
			for b.Loop() {
				res, err = Eval(context.Background(), src, Request{Query: q, Start: benchStart, End: benchEnd,
					Instant: q.IsMetric(), Limit: c.limit, Forward: c.forward})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(res.Stats.Lines), "lines")
		})
	}
}

// BenchmarkRange is a graph of 120 points over all lines.
func BenchmarkRange(b *testing.B) {
	src := benchSource()
	q, err := Parse(`sum by (route) (rate({service_name="failback"} | json | __error__="" [5m]))`)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Eval(context.Background(), src, Request{Query: q, Start: benchStart, End: benchEnd, Step: 30 * time.Second}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEveryLabel reads all fields of all lines and keeps none.
func BenchmarkEveryLabel(b *testing.B) {
	src := benchSource()
	q, err := Parse(`{service_name="failback"} | json | instance_extracted="nobody"`)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Eval(context.Background(), src, Request{Query: q, Start: benchStart, End: benchEnd}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(canned[4].query); err != nil {
			b.Fatal(err)
		}
	}
}
