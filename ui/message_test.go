package ui

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/sources"
)

// A message belongs to the screen it was said on, to no question, and to the
// newest change; what was not done is said to its end.
func TestAMessageEndsWithWhatItBelongsTo(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		keys(m, "esc")
		shows(t, m, "esc is off: this is the first screen")
		keys(m, "b")
		lacks(t, m, "esc is off")
		keys(m, "esc", "W")
		shows(t, m, "writing is armed for")
		keys(m, "j", "<")
		if m.dialog == nil || m.message.text != "" {
			t.Errorf("behind the dialog is %q", m.message.text)
		}
		keys(m, "esc")

		m.say(bad, "it was not done")
		keys(m, "d")
		shows(t, m, "it was not done")
		keys(m, "esc")

		s := incidentState()
		u := &s.Upstreams[0]
		m.say(good, "share 0% > 5%, revision 5")
		u.Revision = 5
		m.tell(u.Name, 5)
		give(m, s, nil, nil)
		m.Update(tickMsg{})
		shows(t, m, "revision 5")
		u.Revision = 6
		give(m, s, nil, nil)
		m.Update(tickMsg{})
		lacks(t, m, "revision 5")

		m.say(good, "copied")
		bubble.Sleep(sayFor)
		m.Update(tickMsg{})
		lacks(t, m, "copied")
	})
}

// That there is no line is asked again soon, and said with its age.
func TestNoLineIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		begin()
		m := testModel(160, 30)
		withLoki(m, &fakeLoki{})
		m.live.loki.Period = probeEvery
		give(m, baseState(), nil, nil)
		gen := ask(&m.live.loki, m.now)
		now := time.Now()
		m.Update(lokiMsg{m.ask.epoch, sources.Answer[sources.LogAnswer]{Gen: gen, Clock: sources.Clock{Sent: now, Received: now, At: now}, Value: &sources.LogAnswer{}}})
		if due := m.ask.probe.Sub(m.now); due <= 0 || due > 5*time.Second {
			t.Errorf("asked again in %s", due)
		}
		bubble.Sleep(2 * time.Second)
		give(m, baseState(), nil, nil)
		if got := m.lokiVital()[0].row.text(); got != "loki answers, has no line of the last 5m, asked 2s ago" {
			t.Errorf("got %q", got)
		}
	})
}

// The count of a gateway that is younger than a minute is not one of a minute.
func TestPaceOfAYoungGateway(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		s := incidentState()
		for age, want := range map[time.Duration]string{14 * time.Second: "24 700 in 14s", time.Minute: "24 700 a minute"} {
			s.StartedAt = time.Now().Add(-age)
			give(m, s, nil, nil)
			shows(t, m, want)
			keys(m, "d")
			shows(t, m, want)
			keys(m, "esc")
		}
	})
}

// LIVE of the last minute is not bright where nothing goes on now.
func TestLiveOfAMinuteIsNotBrightBesideNothing(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		s := incidentState()
		u := &s.Upstreams[0]
		for _, tt := range []struct {
			live, rps float64
			want      style
		}{{0.156, 0, dim}, {0.156, 3, normal}, {0, 0, normal}} {
			u.Share = 0
			at := time.Now()
			u.Live = api.Number{State: api.StateValue, Value: tt.live, At: at}
			u.RPS = api.Number{State: api.StateValue, Value: tt.rps, At: at}
			give(m, s, nil, nil)
			d, now := m.d()
			if got := m.cells(d.upstream(u.Name), d, now, false).live.style; got != tt.want {
				t.Errorf("live %g at %g a second: style %v, want %v", tt.live, tt.rps, got, tt.want)
			}
		}
		shows(t, m, "LIVE 1m")
	})
}

// On 80 columns the reason of a request that nobody answered is whole.
func TestTheReasonOfADecisionIsKept(t *testing.T) {
	inSituation(t, "incident", 80, 24, func(t *testing.T, m *model) {
		v := api.Decision{
			Time: time.Now(), TaskType: "permission_change", PrimaryProvider: "anthropic-us-east-1", WorkflowStatus: "unavailable",
			HTTPStatus: 503, DurationMS: 300, Reason: "upstream_degraded",
			Candidates: []api.DecisionCandidate{{Provider: "anthropic-us-east-1", Skipped: "upstream_degraded"}, {Provider: "vertex-us-central1", Skipped: "not_allowed"}},
		}
		for _, status := range []string{"unavailable", "degraded_completed"} {
			v.WorkflowStatus = status
			for _, w := range []int{78, 80} {
				got := m.decisionRow(&v, time.Now(), w).text()
				if !strings.Contains(got, "upstream_degraded") || !strings.Contains(got, status) || width(got) > w {
					t.Errorf("%d columns of %d: %q", width(got), w, got)
				}
			}
			v.Candidates = v.Candidates[:1]
		}
	})
}

// A row of numbers that is opened is called no line.
func TestANumberOpenedIsNoLogLine(t *testing.T) {
	onLogs(t, &fakeLoki{make: byReason}, func(m *model) {
		runKeys(m, "j", "j", "j", "j", "enter")
		keys(m, "enter")
		shows(t, m, "NUMBER of by-reason")
		lacks(t, m, "LOG LINE")
	})
}
