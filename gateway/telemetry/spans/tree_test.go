package spans

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"failback/gateway/decision"
)

// shown is a span as the tests below have it: name, start and end in
// milliseconds, attributes, events, error.
func shown(d *decision.Decision) (l []string) {
	for _, s := range render(nil, d) {
		at := func(ns uint64) int64 { return (int64(ns) - d.Time.UnixNano()) / int64(time.Millisecond) }
		line := fmt.Sprintf("%s %d-%d", s.Name, at(s.StartTimeUnixNano), at(s.EndTimeUnixNano))
		for _, a := range s.Attributes {
			switch a.Key {
			case attrNext, attrWhy, attrClass, attrProvider:
				line += " " + strings.TrimPrefix(a.Key, "ai.") + "=" + a.Value.GetStringValue()
			case attrWait:
				line += fmt.Sprintf(" wait=%g", a.Value.GetDoubleValue())
			case attrAllowed:
				if !a.Value.GetBoolValue() {
					line += " forbidden"
				}
			}
		}
		for _, e := range s.Events {
			line += fmt.Sprintf(" [%s %d %s]", e.Name, at(e.TimeUnixNano), e.Attributes[0].Value.GetStringValue())
		}
		if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			line += " ERROR " + s.Status.Message
		}
		l = append(l, line)
	}
	return l
}

func TestTree(t *testing.T) {
	plain := func(change func(*decision.Decision)) *decision.Decision {
		d := sampled()
		d.Time = time.Unix(1_800_000_000, 0)
		change(d)
		return d
	}
	for _, tt := range []struct {
		name string
		d    *decision.Decision
		want []string
	}{
		{"a failover", plain(func(d *decision.Decision) { d.Attempts[0].Wait = 5 * time.Millisecond }), []string{
			"ai.workflow 0-100 provider=b error_class=server_error",
			"model.primary 1-10 provider=a error_class=server_error ERROR server_error",
			"failover.policy 10-20 provider=b next=switch why=repeated wait=5",
			"model.fallback 20-90 provider=b",
			"response.parser 50-90 provider=b",
		}},
		{"the primary answers", plain(func(d *decision.Decision) {
			d.Attempts = d.Attempts[1:]
			d.Attempts[0].Primary, d.Attempts[0].Provider, d.Selected = true, "a", "a"
			d.Candidates[1].Skipped = decision.NotAllowed
		}), []string{
			"ai.workflow 0-100 provider=a forbidden",
			"model.primary 20-90 provider=a",
			"response.parser 50-90 provider=a",
		}},
		{"the primary's breaker is open", plain(func(d *decision.Decision) {
			d.Attempts = d.Attempts[1:]
			c := &d.Candidates[0]
			c.Skipped, c.Blocked, c.SkippedAt = decision.BreakerOpen, true, 3*time.Millisecond
		}), []string{
			"ai.workflow 0-100 provider=b",
			"failover.policy 0-20 provider=b next=switch why=breaker_open [breaker.blocked 3 a]",
			"model.fallback 20-90 provider=b",
			"response.parser 50-90 provider=b",
		}},
		{"the other's breaker is open when the primary fails", plain(func(d *decision.Decision) {
			d.Attempts = d.Attempts[:1]
			d.Attempts[0].Next, d.Attempts[0].Why = decision.NextEnd, "breaker_open"
			c := &d.Candidates[1]
			c.Skipped, c.Blocked, c.SkippedAt = decision.BreakerOpen, true, 11*time.Millisecond
			d.Status, d.Route, d.Selected, d.Duration = decision.Unavailable, decision.RouteNone, "", 12*time.Millisecond
		}), []string{
			"ai.workflow 0-12 provider=none error_class=server_error ERROR server_error",
			"model.primary 1-10 provider=a error_class=server_error ERROR server_error",
			"failover.policy 10-12 next=end why=breaker_open [breaker.blocked 11 b]",
		}},
		{"a breaker opens between two attempts", plain(func(d *decision.Decision) {
			c := &d.Candidates[1]
			c.Skipped, c.Blocked, c.SkippedAt = decision.BreakerOpen, true, 0
			d.Attempts[0].Started = 5 * time.Millisecond
			d.Candidates = append(d.Candidates, decision.Candidate{Provider: "c", Skipped: decision.BreakerOpen, Blocked: true, SkippedAt: 17 * time.Millisecond})
		}), []string{
			"ai.workflow 0-100 provider=b error_class=server_error",
			"failover.policy 0-5 provider=a next=switch why=breaker_open [breaker.blocked 0 b]",
			"model.primary 5-14 provider=a error_class=server_error ERROR server_error",
			"failover.policy 14-20 provider=b next=switch why=repeated [breaker.blocked 17 c]",
			"model.fallback 20-90 provider=b",
			"response.parser 50-90 provider=b",
		}},
		{"the client leaves in the middle of a stream", plain(func(d *decision.Decision) {
			o := &d.Attempts[1].Outcome
			o.Class, o.Relayed = decision.ClientGone, true
			d.Attempts[1].Next, d.Attempts[1].Why, d.Status = decision.NextEnd, decision.WhyRelayed, decision.Cancelled
		}), []string{
			"ai.workflow 0-100 provider=b error_class=client_gone",
			"model.primary 1-10 provider=a error_class=server_error ERROR server_error",
			"failover.policy 10-20 provider=b next=switch why=repeated",
			"model.fallback 20-90 provider=b error_class=client_gone",
			"response.parser 50-90 provider=b error_class=client_gone",
		}},
		{"nobody may be asked", plain(func(d *decision.Decision) {
			d.Attempts, d.Reason, d.Status, d.Selected = nil, decision.BreakerOpen, decision.Human, ""
			d.Candidates[0].Skipped, d.Candidates[0].Blocked = decision.BreakerOpen, true
			d.Candidates[1].Skipped = decision.NotAllowed
		}), []string{
			"ai.workflow 0-100 provider=none forbidden ERROR breaker_open",
			"failover.policy 0-100 forbidden next=end why=breaker_open [breaker.blocked 0 a]",
		}},
		{"a stream that broke", plain(func(d *decision.Decision) {
			o := &d.Attempts[1].Outcome
			o.Class, o.Relayed = decision.Interrupted, true
			d.Attempts[1].Next, d.Attempts[1].Why, d.Status = decision.NextEnd, decision.WhyRelayed, decision.Incomplete
		}), []string{
			"ai.workflow 0-100 provider=b error_class=interrupted ERROR server_error",
			"model.primary 1-10 provider=a error_class=server_error ERROR server_error",
			"failover.policy 10-20 provider=b next=switch why=repeated",
			"model.fallback 20-90 provider=b error_class=interrupted ERROR interrupted",
			"response.parser 50-90 provider=b error_class=interrupted ERROR interrupted",
		}},
		{"the client left", plain(func(d *decision.Decision) {
			d.Attempts = d.Attempts[:1]
			d.Attempts[0].Outcome.Class = decision.ClientGone
			d.Attempts[0].Next, d.Attempts[0].Why, d.Status = decision.NextEnd, "client_gone", decision.Cancelled
		}), []string{
			"ai.workflow 0-100 provider=b error_class=client_gone",
			"model.primary 1-10 provider=a error_class=client_gone",
			"failover.policy 10-100 next=end why=client_gone",
		}},
		{"a mistake that no upstream saw", plain(func(d *decision.Decision) {
			d.Attempts, d.Candidates, d.Status, d.Selected = nil, nil, decision.Rejected, ""
		}), []string{"ai.workflow 0-100 provider=none forbidden"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := shown(tt.d)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if n := count(tt.d); n != len(got) {
				t.Errorf("counted as %d spans", n)
			}
			all := render(nil, tt.d)
			ids := map[string]bool{}
			for i, s := range all {
				ids[string(s.SpanId)] = true
				if root := s.Name == workflow; root != (i == 0) || root && len(s.ParentSpanId) != 0 || !root && string(s.ParentSpanId) != string(all[0].SpanId) {
					t.Errorf("%s hangs on %x", s.Name, s.ParentSpanId)
				}
				if s.EndTimeUnixNano < s.StartTimeUnixNano || s.EndTimeUnixNano > all[0].EndTimeUnixNano {
					t.Errorf("%s ends at the wrong time", s.Name)
				}
			}
			if len(ids) != len(all) {
				t.Error("two spans have one id")
			}
		})
	}
}

func TestParentOfTheWorkflow(t *testing.T) {
	d := sampled()
	d.ParentSpan = decision.SpanID{1, 2, 3}
	s := render(nil, d)[0]
	if string(s.ParentSpanId) != string(d.ParentSpan[:]) || s.Flags != 0x301 || s.Kind != tracepb.Span_SPAN_KIND_SERVER {
		t.Errorf("%+v", s)
	}
	d.TraceID = "short"
	if l := render(nil, d); len(l) != 0 {
		t.Errorf("a trace without a valid id has %d spans", len(l))
	}
}

// What a client chose reaches a collector as valid text.
func TestAttributesAreUTF8(t *testing.T) {
	d := sampled()
	d.RequestID = "a\xffb"
	for _, a := range render(nil, d)[0].Attributes {
		if a.Key == attrRequestID && a.Value.GetStringValue() != "a\ufffdb" {
			t.Errorf("%q", a.Value.GetStringValue())
		}
	}
}

const reference = "../../../docs/traces.md"

// TestReference holds docs/traces.md against the names of the code, both ways.
func TestReference(t *testing.T) {
	b, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, part := range []struct {
		heading string
		names   []string
	}{
		{"## Spans", []string{workflow, primary, fallback, failover, parser}},
		{"## Events", []string{blocked}},
		{"## Attributes", []string{
			attrRoute, attrProvider, attrModel, attrRequestID, attrOperation, attrTriggered, attrAllowed, attrStatus, attrTask, attrReason,
			attrClass, attrHTTP, attrNext, attrWhy, attrWait,
		}},
	} {
		_, section, _ := strings.Cut(text, "\n"+part.heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var got []string
		for line := range strings.Lines(section) {
			if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); ok && strings.HasPrefix(line, "| `") {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, part.names) {
			t.Errorf("%s, %s: %v, want %v", reference, part.heading, got, part.names)
		}
	}
}
