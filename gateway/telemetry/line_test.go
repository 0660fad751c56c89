package telemetry

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

func TestLine(t *testing.T) {
	d := fellOver()
	d.TraceID, d.Conversation, d.Turn, d.OperationID, d.StateVersion = "trace", "conv", "turn", "op", "7"
	d.Substitute, d.RemainingDeadline, d.RetryTokens, d.ClientRetry = true, 57*time.Second, 9.5, 1
	d.Candidates[1].Skipped = decision.BreakerOpen
	d.Attempts[1].Outcome.UpstreamRequestID = "up-1"
	first, second := 1300.0, 300.0
	want := api.Decision{
		Event: "model_route_selected", Time: d.Time, RequestID: "req-1", TraceID: "trace", Conversation: "conv",
		Turn: "turn", OperationID: "op", StateVersion: "7", TaskType: "summary", Model: "sonnet", Endpoint: "messages",
		Stream: true, PrimaryProvider: "a", SelectedProvider: "b", SelectedModel: "claude-sonnet-4-5",
		ResponseModel: "claude-sonnet-4-5", Substitute: true, Route: "fallback", FallbackTriggered: true,
		WorkflowStatus: "degraded_completed", Reason: "server_error", FailedProvider: "a",
		Candidates: []api.DecisionCandidate{
			{Provider: "a", Model: "claude-sonnet-4-5", Weight: 100, Share: 100},
			{Provider: "b", Model: "claude-sonnet-4-5", Weight: 80, Share: 100, Skipped: "breaker_open"},
		},
		Attempts: []api.DecisionAttempt{
			{Provider: "a", Region: "us", Capability: "stream", Class: "server_error", Status: 500, DurationMS: 1000, Code: "api_error", Detail: "500 from upstream"},
			{Provider: "b", Region: "eu", Capability: "stream", Class: "ok", Status: 200, FirstOutputMS: &second, DurationMS: 2000, UpstreamRequestID: "up-1"},
		},
		FirstOutputMS: &first, DurationMS: 3000, RemainingDeadlineMS: 57000, RetryTokens: 9.5, HTTPStatus: 200, ClientRetry: 1,
		ServiceVersion: "1.2.3", Instance: "gw-1",
	}
	if diff := cmp.Diff(want, Line(d, Meta{Version: "1.2.3", Instance: "gw-1"})); diff != "" {
		t.Error(diff)
	}
}

// An attempt says what followed it and why, and how things stood.
func TestLineSaysWhy(t *testing.T) {
	d := fellOver()
	d.TraceID, d.Span, d.Sampled = "trace", decision.SpanID{1}, true
	d.Candidates[0].SkippedWhy = "text open since 03:48:10Z: 12/20 failed"
	a := &d.Attempts[0]
	a.Started, a.Remaining, a.RetryTokens, a.Share, a.Weight = time.Millisecond, 59*time.Second, 9, 25, 50
	a.Next, a.Why, a.Span = decision.NextSwitch, decision.WhyRepeated, decision.SpanID{0xab, 7: 1}
	l := Line(d, Meta{})
	if l.Candidates[0].SkippedWhy != d.Candidates[0].SkippedWhy {
		t.Errorf("%+v", l.Candidates[0])
	}
	got := l.Attempts[0]
	if got.Next != "switch" || got.Why != "repeated" || got.SpanID != "ab00000000000001" || got.WaitMS != nil ||
		*got.StartedMS != 1 || *got.RemainingDeadlineMS != 59000 || *got.RetryTokens != 9 || *got.Share != 25 || *got.Weight != 50 {
		t.Errorf("%+v", got)
	}
	if second := l.Attempts[1]; second.StartedMS != nil || second.Share != nil || second.SpanID != "" {
		t.Errorf("of an attempt without all that: %+v", second)
	}
	a.Wait, d.Sampled = 250*time.Millisecond, false
	if got := Line(d, Meta{}).Attempts[0]; got.WaitMS == nil || *got.WaitMS != 250 || got.SpanID != "" {
		t.Errorf("after a back-off, not exported: %+v", got)
	}
}

func TestLineOfNothing(t *testing.T) {
	l := Line(&decision.Decision{RetryTokens: math.NaN()}, Meta{})
	if l.Candidates == nil || l.Attempts == nil || l.FirstOutputMS != nil || l.CostUSD != nil || l.RetryTokens != 0 {
		t.Errorf("%+v", l)
	}
}

func TestEventLine(t *testing.T) {
	var e decision.Event
	fill(reflect.ValueOf(&e).Elem(), rand.New(rand.NewPCG(1, 1)))
	l := reflect.ValueOf(EventLine(e))
	for i := range l.NumField() {
		if name := l.Type().Field(i).Name; name != "Seq" && l.Field(i).IsZero() {
			t.Errorf("%s is lost", name)
		}
	}
}

// An escalation says who is needed, and that nobody was told unless delivery was
// confirmed, in the log as in the operator API.
func TestEscalationLine(t *testing.T) {
	e := decision.Event{
		Kind: decision.KindEscalation, Provider: "a", Reason: "degraded", Detail: "two groups red for 60 s",
		Required: "an operator, to see to the upstream", Notified: decision.NotifiedNone,
	}
	for _, notified := range []string{decision.NotifiedNone, "webhook"} {
		e.Notified = notified
		line := string(appendEvent(nil, e, Meta{}))
		for _, want := range []string{`"event":"escalation"`, `"required":"an operator, to see to the upstream"`, `"notified":"` + notified + `"`} {
			if !strings.Contains(line, want) {
				t.Errorf("%s lacks %s", line, want)
			}
		}
	}
	e.Kind, e.Required, e.Notified = decision.KindProbe, "", ""
	if line := string(appendEvent(nil, e, Meta{})); strings.Contains(line, "required") || strings.Contains(line, "notified") {
		t.Errorf("of another event: %s", line)
	}
}

// TEL-07: whatever clients and upstreams put into a request, its line stays small.
func TestLineIsBounded(t *testing.T) {
	huge := strings.Repeat("ü\x00", 1<<20)
	d := fellOver()
	d.RequestID, d.TraceID, d.Conversation, d.Turn, d.OperationID, d.StateVersion = huge, huge, huge, huge, huge, huge
	d.ResponseModel = huge
	for len(d.Attempts) < 5 {
		d.Attempts = append(d.Attempts, d.Attempts[0])
	}
	line := Line(d, Meta{})
	typical := fellOver()
	typical.RequestID, typical.Conversation = strings.Repeat("r", 36), strings.Repeat("c", 64)
	for len(typical.Attempts) < 5 {
		typical.Attempts = append(typical.Attempts, typical.Attempts[0])
	}
	usual := Line(typical, Meta{})
	if n := len(appendDecision(nil, &usual)); n > 4096 {
		t.Errorf("a request with five attempts has a line of %d bytes", n)
	}
	for i := range d.Attempts {
		d.Attempts[i].Outcome.Detail, d.Attempts[i].Outcome.Code, d.Attempts[i].Outcome.UpstreamRequestID = huge, huge, huge
	}
	line = Line(d, Meta{})
	if n := len(appendDecision(nil, &line)); n > 16<<10 {
		t.Errorf("a hostile request has a line of %d bytes", n)
	}
	e := EventLine(decision.Event{Why: huge, Detail: huge, By: huge, Required: huge})
	if len(e.Required) > eventRoom || len(e.Why) > eventRoom || len(e.Detail) > eventRoom || len(e.By) > idRoom {
		t.Errorf("event of %d, %d, %d bytes", len(e.Why), len(e.Detail), len(e.By))
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"12345678", "12345678"},
		{"123456789", "12345…"},
		{"1234ü6789", "1234…"},
		{"123€56789", "123…"},
		{"12𝄞56789", "12…"},
		{strings.Repeat("\xff", 9), "\xff\xff\xff\xff\xff…"},
		{strings.Repeat("\x80", 9), "\x80\x80…"},
	} {
		got := cut(tt.in, 8)
		if got != tt.want || len(got) > 8 || utf8.ValidString(tt.in) && !utf8.ValidString(got) {
			t.Errorf("cut(%q): %q, want %q", tt.in, got, tt.want)
		}
	}
}

// The encoder writes what encoding/json does, and escapes what would drive a
// terminal or hide there: for every field of a line, with
// and without a value, and whatever text is in it.
func TestEncoderIsJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 31))
	for i := range 3000 {
		var l api.Decision
		if i > 0 {
			fill(reflect.ValueOf(&l).Elem(), r)
		} else {
			l.Candidates, l.Attempts = []api.DecisionCandidate{}, []api.DecisionAttempt{}
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(l); err != nil {
			t.Fatal(err)
		}
		if got := appendDecision(nil, &l); !bytes.Equal(got, api.VisibleJSON(want.Bytes())) {
			t.Fatalf("encoded\n%s\nwant\n%s", got, api.VisibleJSON(want.Bytes()))
		}
	}
}

// fill sets every field of v to something, now and then to nothing.
func fill(v reflect.Value, r *rand.Rand) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), r)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(v.Index(i), r)
		}
	case reflect.Pointer:
		if r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), r)
		}
	case reflect.String:
		v.SetString(text(r))
	case reflect.Bool:
		v.SetBool(r.IntN(2) > 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64N(1000) - 1)
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(1 + r.Uint64N(200))
	case reflect.Float64:
		v.SetFloat([]float64{0, 1, -1, 0.1, 1e-7, 1e-6, 1e20, 1e21, -2.5e-9, 1e-300, math.MaxFloat64, r.NormFloat64(), float64(r.IntN(1e6)) / 1000}[r.IntN(13)])
	default:
		panic(v.Kind())
	}
}

// text is short text of all kinds that need care.
func text(r *rand.Rand) string {
	pieces := []string{"a", "ü", "€", "𝄞", `"`, `\`, "/", "<", "&", "\n", "\r", "\t", "\b", "\f", "\x00", "\x1b", "\x7f",
		"\u2028", "\u2029", "\xff", "\xc3", "\xe2\x80", "\ufffd", "\u202e"}
	var b strings.Builder
	for range 1 + r.IntN(6) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

func BenchmarkLine(b *testing.B) {
	d := fellOver()
	meta := Meta{Version: "1.2.3", Instance: "gw-1"}
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		report := cpu(b)
		var buf []byte
		for b.Loop() {
			l := Line(d, meta)
			buf = appendDecision(buf[:0], &l)
		}
		report()
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		for b.Loop() {
			buf.Reset()
			if err := enc.Encode(Line(d, meta)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Numbers are written as encoding/json does it, those of whole thousandths too.
func TestFloatsAsJSON(t *testing.T) {
	check := func(f float64) {
		t.Helper()
		if math.IsInf(f, 0) {
			return
		}
		want, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendFloat(nil, f)); got != string(want) {
			t.Errorf("%v is written %s, want %s", f, got, want)
		}
	}
	for _, f := range []float64{0, math.Copysign(0, -1), 0.001, 0.01, 0.1, 1, 10, 0.0005, 0.0015, 999.999, 1000, 1e11 + 0.001, 1e12 - 0.001, 1e12, 1e15, 1e20, 1e21, -0.5, -1, 1e-7, 0.1 + 0.2, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		check(f)
		check(math.Nextafter(f, math.Inf(1)))
		check(math.Nextafter(f, 0))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		check(float64(random.Int64N(1e15)) / 1000)
		check(float64(random.Int64N(1e9)) / 1000)
		check(random.Float64() * 1e6)
	}
}
