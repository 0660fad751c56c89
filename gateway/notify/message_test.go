package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestHostileText(t *testing.T) {
	fields := map[string]string{"\x1b]0;x\a": "\u202eevil"}
	for i := range 2 * maxFields {
		fields[fmt.Sprintf("k%03d", i)] = strings.Repeat("v", 2*maxField)
	}
	p := newPending(Message{
		Kind: "x\ny", Upstream: "<!channel>", Fields: fields,
		Text: "<https://evil.example|click> @all & \x1b[2J\u202e\u2066\u009b\n\r\t\x00\xff \u00a0\u2028" + strings.Repeat("é", 2*maxText),
	}, time.Now())
	raw, err := p.encode("P\nROD", "gw\x07")
	if err != nil {
		t.Fatal(err)
	}
	var b body
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	texts := []string{b.Text, b.Upstream, b.Detail, b.Environment, b.Instance, b.Required}
	for k, v := range b.Fields {
		texts = append(texts, k, v)
	}
	for _, s := range texts {
		for _, r := range s {
			if !unicode.IsGraphic(r) || r == utf8.RuneError || unicode.IsSpace(r) && r != ' ' {
				t.Errorf("%q is posted as it came: %q", r, s)
			}
		}
	}
	if strings.ContainsAny(b.Text, "<>@") || !strings.Contains(b.Text, `&lt;!channel&gt;`) || !strings.Contains(b.Text, "(at)all &amp; ") {
		t.Errorf("text is not disarmed: %q", b.Text)
	}
	if !strings.HasPrefix(b.Text, `[P\nROD] &lt;`) || !strings.Contains(b.Detail, `\x1b[2J\u202e\u2066\u009b\n\r\t\x00\xff `) {
		t.Errorf("%q", b.Text[:200])
	}
	if n := utf8.RuneCountInString(b.Detail); n < maxText || n > 2*maxText || !strings.HasSuffix(b.Detail, "…") {
		t.Errorf("detail has %d characters", n)
	}
	if len(b.Fields) != maxFields || utf8.RuneCountInString(b.Fields["k000"]) != maxField+1 {
		t.Errorf("%d fields", len(b.Fields))
	}
}

func TestLine(t *testing.T) {
	for _, tc := range []struct {
		b    body
		want string
	}{
		{body{Kind: SharedFault, Detail: "dns fails"}, "shared fault: dns fails"},
		{body{Kind: Waiting, Upstream: "a", Environment: "PROD"}, "[PROD] a asks for a step"},
		{body{Kind: Credential, Upstream: "a", Detail: "ends in 3 days", Repeated: 2}, "a credential: ends in 3 days (last of 3 within a minute)"},
	} {
		if got := line(tc.b); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
	seen := map[string]Kind{}
	for _, k := range []Kind{Degraded, Credential, SharedFault, Retreat, Waiting} {
		if other, ok := seen[k.required()]; ok || k.required() == Kind("x").required() {
			t.Errorf("%s needs nobody of its own, as %s", k, other)
		}
		seen[k.required()] = k
	}
}

func TestPause(t *testing.T) {
	last := time.Duration(0)
	for failures := 1; failures < 100; failures++ {
		least, most := pause(failures, 0), pause(failures, 1)
		if least*2 != most || most < last || most > maxPause {
			t.Errorf("after %d: %s to %s", failures, least, most)
		}
		last = most
	}
	if pause(1, 1) != firstPause || last != maxPause {
		t.Errorf("from %s to %s", pause(1, 1), last)
	}
}

func TestOf(t *testing.T) {
	at := time.Date(2026, 3, 1, 23, 59, 59, 0, time.UTC)
	for _, tc := range []struct {
		told time.Duration
		want string
	}{
		{0, ""}, {999 * time.Millisecond, ""}, {-time.Second, " (of 23:59:59Z)"},
		{time.Second, " (of 2026-03-01 23:59:59Z)"}, {time.Hour, " (of 2026-03-01 23:59:59Z)"},
	} {
		if got := of(at, at.Add(tc.told).In(time.FixedZone("CET", 3600))); got != tc.want {
			t.Errorf("%v after: %q, want %q", tc.told, got, tc.want)
		}
	}
}
