package ui

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
	"failback/sources"
)

// An upstream that answers and streams nothing is not idle.
func TestNoStreams(t *testing.T) {
	inSituation(t, "calm", 110, 30, func(t *testing.T, m *model) {
		s := baseState()
		s.Upstreams = []api.Upstream{up("alpha", "here", true, 10), up("beta", "there", false, 0)}
		s.Upstreams[0].FirstOutputP95 = idle()
		s.Upstreams[1].RPS, s.Upstreams[1].FirstOutputP95, s.Upstreams[1].ErrorRatio = val(0), idle(), idle()
		give(m, s, nil, nil)
		got := screenOf(m)
		if !strings.Contains(got, "10.0   0.1%  no streams") || strings.Count(got, "no streams") != 1 {
			t.Error(got)
		}
		keys(m, "enter")
		if got := screenOf(m); !strings.Contains(got, "first output p95 no streams") {
			t.Error(got)
		}
	})
}

// A bucket that was forced open says who did it and the command that ends it.
func TestForcedOpenSaysHow(t *testing.T) {
	inSituation(t, "calm", 130, 30, func(t *testing.T, m *model) {
		s := baseState()
		u := up("alpha", "here", true, 10)
		b := &u.Breakers[1]
		b.State, b.Forced, b.ForcedBy, b.ForcedUntil = "open", "open", "root", time.Now().Add(time.Hour).Truncate(time.Hour).Add(time.Minute)
		u.Share, u.NextStep = 5, api.NextStep{Share: 25, BlockedBy: "breaker is OPEN"}
		s.Upstreams = []api.Upstream{u}
		give(m, s, nil, nil)
		want := "forced open by root until " + b.ForcedUntil.UTC().Format("15:04Z") + ": failback breaker alpha:text auto"
		for _, k := range []string{"o", "b", "enter"} {
			keys(m, "o", k)
			if got := screenOf(m); !strings.Contains(got, want) {
				t.Errorf("%s: it lacks %q:\n%s", k, want, got)
			}
		}
	})
}

// What an hour ago was goes before any age does, and has no age of its own.
func TestUsersWidths(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		k := incidentNumbers()
		k.overview.FailedBefore.Number, k.overview.FirstOutputP95Before.Number = none(), none()
		keep(m, k)
		bubble.Sleep(35 * time.Second)
		incident(m)
		for w := 40; w <= 200; w++ {
			d, now := m.d()
			got := m.users(d, now, w).text()
			if !strings.HasSuffix(strings.TrimRight(got, " "), "0s old") {
				t.Errorf("%d: no age: %s", w, got)
			}
			if !strings.Contains(got, "failed 0.8%") {
				t.Errorf("%d: what users get is cut: %s", w, got)
			}
			if strings.Contains(got, "none ") {
				t.Errorf("%d: nothing has an age: %s", w, got)
			}
			if full := m.users(d, now, 200).text(); w < 70 && strings.Contains(got, "none") && len(got) < len(full) {
				t.Errorf("%d: none takes the place of something: %s", w, got)
			}
		}
	})
}

// A key that did nothing is told for a shorter time than what was done.
func TestOffIsShort(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		keys(m, "o")
		if !strings.Contains(m.message.text, "o is off") {
			t.Fatal(m.message.text)
		}
		bubble.Sleep(6 * time.Second)
		if m.Update(tickMsg{}); m.message.text != "" {
			t.Errorf("it is said still: %q", m.message.text)
		}
		keys(m, "W")
		bubble.Sleep(6 * time.Second)
		if m.Update(tickMsg{}); m.message.text == "" {
			t.Error("what was done is said no more")
		}
	})
}

// `?` says what each column is and over which time, and what the words mean.
func TestGlossary(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		got := joinRows(m.helpBody(100, &sieve{}))
		for _, w := range []string{"UPSTREAM ", "BREAKER ", "FOR ", "SHARE ", "LIVE ", "REQ/S ", "ERR ", "P95 ", "stranded ", "spare ", "ramp ", "overflow ", "... "} {
			if !strings.Contains(got, "\n   "+w) {
				t.Errorf("? does not explain %q", w)
			}
		}
		// Two numbers of one name are of two things.
		if all := strings.Join(strings.Fields(got), " "); !strings.Contains(all, "95 of 100 of its attempts") || !strings.Contains(all, "In USERS of all requests") {
			t.Error("? does not say of what P95 is")
		}
	})
}

// At 80 columns a row of a decision says who answered and what the client got, before
// how long it took and all of the primary's name; so does its line in the log.
func TestRowsKeepWhoAnswered(t *testing.T) {
	inSituation(t, "incident", 80, 24, func(t *testing.T, m *model) {
		ds := decisionsOf("breaker_open")
		v := ds[0]
		v.Candidates[0].Provider, v.PrimaryProvider, v.Attempts[0].Provider, v.SelectedProvider = "anthropic-us-east-1", "anthropic-us-east-1", "vertex-us-central1", "vertex-us-central1"
		v.Candidates[0].Skipped = "upstream_degraded"
		got := m.decisionRow(&v, m.now, 78).fit(78, "~").text()
		if !strings.Contains(got, " > vert~al1 ok ") || !strings.Contains(got, " 200 degraded_completed") {
			t.Error(got)
		}
		r := logRow{at: m.now, text: "req-0123456789abcdef policy_question degraded_completed upstream_degraded: anthropic-us-east-1 skipped: upstream_degraded > vertex-us-central1 ok", decides: true}
		for w, want := range map[int]string{
			160: "req-0123456789abcdef policy_question degraded_completed upstream_degraded: anthropic-us-east-1 skipped: upstream_degraded > vertex-us-central1 ok",
			110: "req-0123456789abcdef policy_question degraded_completed upstream_degra… > vertex-us-central1 ok",
			60:  "req-0123456789abcdef… > vertex-us-central1 ok",
			77:  "req~ef policy_question degraded_completed > vertex-~ntral1 ok",
		} {
			if got := m.logRow(&r, w).text()[len("04:12:31.000Z  "):]; got != want {
				t.Errorf("%d: %q, want %q", w, got, want)
			}
		}
	})
}

// Where no Loki answers, the screen names the way on: the decision log itself.
func TestDeadLokiNamesTheWayOn(t *testing.T) {
	inSituation(t, "incident", 110, 40, func(t *testing.T, m *model) {
		s := incidentState()
		s.Log.Target = "/var/log/failback/decisions.jsonl"
		give(m, s, nil, nil)
		keys(m, "l", "j", "j", "j")
		q := m.picked()
		m.logs.asked, m.logs.err, m.logs.errAt, m.logs.reading = &q, &sources.RemoteError{Kind: sources.RemoteUnreachable, Source: "loki"}, m.now, true
		if got := screenOf(m); !strings.Contains(got, "failback query "+q.Name+" --file /var/log/failback/decisions.jsonl") {
			t.Error(got)
		}
		m.logs.err = &sources.RemoteError{Kind: sources.RemoteQuery, Source: "loki", Message: "parse error at line 1, col 2: no"}
		if got := screenOf(m); strings.Contains(got, "--file") {
			t.Errorf("of a query that is wrong:\n%s", got)
		}
	})
}
