package ui

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/sources"
)

// ofThePast are rows that tell with a time what happened, which stays so.
var ofThePast = regexp.MustCompile(`^\W*\d\d:\d\d(:\d\d)?Z`)

// greens are the rows of the frame that say that something is well now: the
// strip, which judges each source by itself, and the message left out.
func greens(m *model) []string {
	rows, _ := m.frame()
	var gs []string
	for i, r := range rows {
		if i == 1 || i == len(rows)-1 || ofThePast.MatchString(r.text()) {
			continue
		}
		for _, s := range r {
			if s.style == good && strings.TrimSpace(s.text) != "" {
				gs = append(gs, r.text())
				break
			}
		}
	}
	return gs
}

// TestNothingStaleIsGreen: on no screen, at no size, is anything green of a
// gateway that fell silent, also before its numbers are unknown.
func TestNothingStaleIsGreen(t *testing.T) {
	makes := map[string]func(m *model){
		"calm": func(m *model) { calm(m) }, "well": func(m *model) { give(m, healthyState(), nil, nil) },
		"places": func(m *model) { give(m, placesState(), nil, nil) }, "way back": comeback, "quiet": func(m *model) { give(m, quiet(), nil, nil) },
		"planned": planned, "degraded": func(m *model) { give(m, degradedState(true), nil, nil) },
	}
	seen := map[screen]bool{}
	tinyGreen := false
	for name, make := range makes {
		for _, silent := range []bool{false, true} {
			inBubble(t, make, func(t *testing.T, m *model, _ *recorder) {
				m.runbookSet()
				openRunbook(m, "manual-failback")
				m.showRunbook(m.runbook.open)
				m.armedUntil = m.now.Add(time.Hour)
				if silent {
					refuseConnection(m)
					bubble.Sleep(4 * time.Second)
					m.Update(nil)
				}
				for on := range screens {
					if slices.Contains([]screen{change, changes, decision, decisions, logLine, incidents}, on) {
						continue // of the past
					}
					for _, size := range []tea.WindowSizeMsg{{Width: 120, Height: 50}, {Width: 80, Height: 24}, {Width: 30, Height: 10}} {
						m.Update(size)
						m.screen = on
						gs := greens(m)
						if silent && len(gs) > 0 {
							t.Errorf("%s, %s, %dx%d: green although it is 4 s old: %q", name, on, size.Width, size.Height, gs)
						}
						if !silent && len(gs) > 0 {
							seen[on] = seen[on] || !m.tiny()
							tinyGreen = tinyGreen || m.tiny()
						}
					}
				}
			})
		}
	}
	for _, on := range []screen{overview, detail, failback, runbook, faultMap} {
		if !seen[on] {
			t.Errorf("nothing fresh is green on %s", on)
		}
	}
	if !tinyGreen {
		t.Error("nothing fresh is green in a tiny window")
	}
}

// No violation is none only where Prometheus has samples of this gateway, and
// fresh ones.
func TestNoViolationIsKnown(t *testing.T) {
	for _, tt := range []struct {
		name    string
		sampled time.Duration // ago; 0: never
		want    string
		not     string
	}{
		{"fresh", 4 * time.Second, "none in the last hour", "ago"},
		{"never", 0, "?? prometheus has no series", "none in"},
		{"ageing", 40 * time.Second, "none in the last hour, 40s ago", "??"},
		{"stale", 5 * time.Minute, "?? newest sample 5m", "none in"},
	} {
		inSituation(t, "calm", 120, 40, func(t *testing.T, m *model) {
			k := calmNumbers()
			k.overview.Sampled = time.Time{}
			if tt.sampled > 0 {
				k.overview.Sampled = time.Now().Add(-tt.sampled)
			}
			keep(m, k)
			d, now := m.d()
			l := live{m: m, d: d, now: now, w: 80}
			l.violations()
			got := joinRows(l.rows)
			if !strings.Contains(got, tt.want) || strings.Contains(got, tt.not) {
				t.Errorf("%s: %s", tt.name, got)
			}
		})
	}
}

// The live values of a runbook say how old they are, by source, at any width
// that has room for them.
func TestLiveValuesHaveAnAge(t *testing.T) {
	for _, size := range []struct{ w, h int }{{120, 40}, {100, 30}, {80, 24}, {60, 24}} {
		inSituation(t, "runbook-failback", size.w, size.h, func(t *testing.T, m *model) {
			if got := screenOf(m); !strings.Contains(got, "LIVE  0s old") && !strings.Contains(got, "LIVE  gateway 0s old") {
				t.Errorf("%dx%d: no age:\n%s", size.w, size.h, got)
			}
		})
		inSituation(t, "incident", size.w, size.h, func(t *testing.T, m *model) {
			openRunbook(m, "fallback-ratio-high")
			for !slices.Contains(m.liveNames(), "ratio") {
				keys(m, "j")
			}
			if got := m.liveHead(80).text(); !strings.Contains(got, "prom 4s old") {
				t.Errorf("the ratio has no age of its own: %s", got)
			}
			if got := screenOf(m); !strings.Contains(got, "prom 4s old") {
				t.Errorf("%dx%d:\n%s", size.w, size.h, got)
			}
		})
	}
}

// Loki is asked for lines of the gateway's time, whatever this host's clock says.
func TestLokiIsProbedByTheGatewaysClock(t *testing.T) {
	for _, skew := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
			now := time.Now()
			s := *m.live.state.Value()
			s.At = now.Add(skew)
			m.Update(stateMsg{Gen: ask(&m.live.state, now), Clock: sources.Clock{Sent: now, Received: now, At: s.At}, Value: &s})
			f := &fakeLoki{}
			m.ask.logs, m.ask.probe = f, time.Time{}
			m.live.loki = sources.Feed[sources.LogAnswer]{Period: probeEvery}
			cmd := m.askLoki()
			if cmd == nil {
				t.Fatal("not probed")
			}
			cmd()
			if q := f.asked[0]; !q.Start.Equal(s.At.Add(-probeRange)) || !q.End.Equal(s.At) {
				t.Errorf("the gateway's clock is %s off: asked from %s to %s, it is %s there", skew, q.Start, q.End, s.At)
			}
		})
	}
}

// A field takes what the gateway takes, and says what it does not take.
func TestFullFieldsSaySo(t *testing.T) {
	long := strings.Repeat("é", fieldMost/2)
	for name, open := range map[string]func(m *model) (value func() string){
		"why": func(m *model) func() string {
			typed(m, "W", "<", "tab")
			return m.dialog.why.Value
		},
		"note": func(m *model) func() string {
			m.openForm(&form{title: "Note", label: "note", body: func(*model, *form, int) []row { return nil }})
			bubble.Sleep(time.Second)
			return func() string { return m.form.field.Value() }
		},
		"filter": func(m *model) func() string {
			typed(m, "/")
			return func() string { return m.filter.Value() }
		},
	} {
		inBubble(t, calm, func(t *testing.T, m *model, _ *recorder) {
			value := open(m)
			if m.dialog != nil {
				value = func() string { return m.dialog.why.Value() }
			}
			m.message = message{}
			m.Update(tea.PasteMsg{Content: long})
			if value() != long || m.message.text != "" {
				t.Fatalf("%s: %d bytes are not taken: %q", name, len(long), m.message.text)
			}
			for what, msg := range map[string]tea.Msg{"a key": press("x"), "a paste": tea.PasteMsg{Content: "more"}} {
				m.message = message{}
				m.Update(msg)
				if value() != long || !strings.Contains(m.message.text, "not taken") {
					t.Errorf("%s, %s: %d bytes, said %q", name, what, len(value()), m.message.text)
				}
			}
			m.message = message{}
			m.Update(press("backspace"))
			if value() == long || m.message.text != "" {
				t.Errorf("%s: a full field cannot be shortened: %q", name, m.message.text)
			}
		})
	}
}

// A decision that another model of the same upstream answered says so.
func TestDecisionOfTwoModels(t *testing.T) {
	inSituation(t, "decision", 100, 40, func(t *testing.T, m *model) {
		v := decisionsOf("primary_completed")[0]
		v.Candidates = []api.DecisionCandidate{{Provider: "a", Model: "big"}, {Provider: "a", Model: "small"}}
		v.SelectedProvider, v.SelectedModel = "a", "small"
		v.Attempts = []api.DecisionAttempt{{Provider: "a", Class: "overloaded", Next: "switch"}, {Provider: "a", Class: "ok", Next: "answered"}}
		rows := m.decisionCandidates(&v, 100)
		for i, want := range []string{"attempted", "answered"} {
			if got := rows[i+1].text(); !strings.Contains(got, want) {
				t.Errorf("%q lacks %q", got, want)
			}
		}
	})
}

// The map has each kind that an upstream declares.
func TestMapHasEveryKind(t *testing.T) {
	for _, w := range []int{200, 70} {
		inSituation(t, "map", w, 50, func(t *testing.T, m *model) {
			s := placesState()
			s.Upstreams[0].FaultDomains["power\x1b[2J"] = "row-7"
			give(m, s, nil, nil)
			if got := strings.ToLower(screenOf(m)); !strings.Contains(got, `power\x1b`) || !strings.Contains(got, "row-7") {
				t.Errorf("at %d columns:\n%s", w, got)
			}
		})
	}
}

// Only y is deaf behind a change of the step: keys that choose follow each other.
func TestStepsAreChosenQuickly(t *testing.T) {
	inBubble(t, calm, func(t *testing.T, m *model, r *recorder) {
		typed(m, "W", "<")
		bubble.Sleep(time.Second)
		keys(m, "left", "left")
		if m.dialog.to != 5 {
			t.Errorf("left twice leads to %d%%", m.dialog.to)
		}
		bubble.Sleep(quietFor + time.Millisecond)
		if _, cmd := m.Update(press("y")); follow(m, cmd) || len(r.sent) > 0 || !strings.Contains(m.message.text, "just changed") {
			t.Errorf("sent %+v, said %q", r.sent, m.message.text)
		}
		if typed(m, "y"); len(r.sent) != 1 || *r.sent[0].Share != 5 {
			t.Errorf("sent %+v: %s", r.sent, m.message.text)
		}
	})
}

// What was written of incidents pushes no trip off the first screen.
func TestTripsStayInView(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		var es []api.Event
		for i, name := range []string{"one", "two", "three", "four"} {
			es = append(es, api.Event{Seq: uint64(i + 1), Event: api.KindBreaker, Time: time.Now().Add(-time.Hour), Provider: name, Capability: "text", From: "closed", To: "open", Detail: "why"})
		}
		trips := len(es)
		for i := range 6 {
			es = append(es, api.Event{Seq: uint64(trips + i + 1), Event: api.KindCommand, Time: time.Now(), Action: "incident_note", By: "ana", Why: "noted", Result: api.ResultOK})
		}
		give(m, *m.live.state.Value(), es, nil)
		got := screenOf(m)
		for _, e := range es[:trips] {
			if !strings.Contains(got, e.Provider+" text CLOSED > OPEN") {
				t.Errorf("the trip of %s is not in view:\n%s", e.Provider, got)
			}
		}
		if strings.Contains(got, "noted") {
			t.Errorf("notes are in view:\n%s", got)
		}
		typed(m, "e")
		if got := screenOf(m); !strings.Contains(got, "noted") {
			t.Errorf("the list of changes has no note:\n%s", got)
		}
	})
}
