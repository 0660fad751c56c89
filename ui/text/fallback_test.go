package text

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"failback/gateway/operator/api"
)

func ptr[T any](v T) *T { return &v }

// reports are the fallback ratio in each of its states; h is put wherever text
// comes from outside.
func reports(h string) map[string]Fallback {
	age := func(s float64) *float64 { return &s }
	limit := ptr(0.02)
	return map[string]Fallback{
		"over": {Window: "5m", Ratio: Fact{State: "value", Value: ptr(0.381), At: now, AgeSeconds: age(4)}, Traffic: Fact{State: "value", Value: ptr(412.0)}, Series: SeriesPresent, Limit: limit, OverLimit: ptr(true)},
		"zero": {Window: "5m", Ratio: Fact{State: "value", Value: ptr(0.0)}, Traffic: Fact{State: "value", Value: ptr(412.0)}, Series: SeriesPresent, Limit: limit, OverLimit: ptr(false), Prometheus: "https://prom.example" + h,
			Notes: []string{"3 of 40 series are younger than 5m" + h}, ClockSkewSeconds: -180},
		"ageing":  {Window: "5m", Ratio: Fact{State: "ageing", Value: ptr(0.002), AgeSeconds: age(41)}, Traffic: Fact{State: "ageing", Value: ptr(4.1), AgeSeconds: age(41)}, Series: SeriesPresent},
		"idle":    {Window: "5m", Ratio: Fact{State: "idle", Why: "no requests in 5m" + h}, Traffic: Fact{State: "idle"}, Series: SeriesPresent, Limit: limit},
		"none":    {Window: "5m", Ratio: Fact{State: "none", Why: "no series ai_model_requests_total: check the selector and the target" + h}, Traffic: Fact{State: "none"}, Series: SeriesAbsent},
		"waiting": {Window: "5m", Ratio: Fact{State: "waiting", Why: "a rate needs two samples of ai_model_requests_total"}, Traffic: Fact{State: "waiting"}, Series: SeriesPresent},
		"unknown": {Window: "5m", Ratio: Fact{State: "unknown", Why: "the newest sample is 3m old" + h}, Traffic: Fact{State: "unknown"}, Series: SeriesPresent, Warnings: []string{"a store did not answer" + h}},
		"silent":  {Window: "5m", Ratio: Fact{State: "unknown"}, Traffic: Fact{State: "unknown"}, Series: SeriesUnknown, Limit: limit, Error: "503: no quorum" + h},
	}
}

// The three facts, and what is said where nobody answers.
func TestFallback(t *testing.T) {
	var b strings.Builder
	for _, name := range []string{"over", "zero", "ageing", "idle", "none", "waiting", "unknown", "silent"} {
		f := reports("")[name]
		b.WriteString(name + "\n" + f.lines() + "\n")
	}
	golden(t, "fallback.txt", b.String())
	r := StatusReport{State: stateWith(""), Fallback: reports("")["over"]}
	golden(t, "status-fallback.txt", r.Status())
}

// No two states look the same.
func TestFallbackStates(t *testing.T) {
	seen := make(map[string]string)
	for name, f := range reports("") {
		first, _, _ := strings.Cut(f.lines(), "\n")
		if other := seen[first]; other != "" {
			t.Errorf("%s and %s both read %q", name, other, first)
		}
		seen[first] = name
	}
}

// The report keeps the fields of the state where they were and adds one.
func TestStatusReportJSON(t *testing.T) {
	s := stateWith("")
	s.StartedAt = s.StartedAt.Round(time.Second)
	both, err := json.Marshal(&StatusReport{State: s, Fallback: reports("")["silent"]})
	if err != nil {
		t.Fatal(err)
	}
	alone, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]json.RawMessage
	if json.Unmarshal(both, &got) != nil || json.Unmarshal(alone, &want) != nil {
		t.Fatal("it is no object")
	}
	for key, v := range want {
		if string(got[key]) != string(v) {
			t.Errorf("%s is %s, %s in the state", key, got[key], v)
		}
	}
	if len(got) != len(want)+1 || got["fallback"] == nil {
		t.Errorf("%d fields, %d in the state", len(got), len(want))
	}
	var f struct {
		Ratio struct {
			State string   `json:"state"`
			Value *float64 `json:"value"`
		} `json:"ratio"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(got["fallback"], &f); err != nil || f.Ratio.State != "unknown" || f.Ratio.Value != nil || f.Error == "" {
		t.Errorf("%v: %s", err, got["fallback"])
	}
	var back api.State
	if err := json.Unmarshal(both, &back); err != nil || back.Instance != s.Instance {
		t.Errorf("it does not read as a state: %v", err)
	}
}

// What comes from outside drives no terminal and adds no line.
func TestFallbackHostile(t *testing.T) {
	for _, h := range []string{"\x1b[2J", "\x1b]52;c;eA==\a", "\u202e", "\r", "\nFAKE", "\u009b", "\xff", "\t"} {
		for name, f := range reports(h) {
			r := StatusReport{State: stateWith(h), Fallback: f}
			got := r.Status()
			for _, c := range got {
				if c != '\n' && !unicode.IsGraphic(c) {
					t.Errorf("%s with %q prints %U", name, h, c)
				}
			}
			plain := StatusReport{State: stateWith("x"), Fallback: reports("x")[name]}
			if n, want := heads(got), heads(plain.Status()); n != want {
				t.Errorf("%s with %q has %d lines, %d without", name, h, n, want)
			}
		}
	}
}
