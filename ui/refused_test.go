package ui

import (
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/internal/bubble"
)

// A token that is not accepted is no silence: the screen names the file and the
// way out, and nothing else.
func TestRefusedToken(t *testing.T) {
	for _, file := range []string{"", "ops/token"} {
		for _, was := range []string{"waiting", "incident"} {
			t.Run(was+" "+file, func(t *testing.T) {
				inSituation(t, was, 120, 40, func(t *testing.T, m *model) {
					m.o.TokenFile = file
					for range 12 {
						bubble.Sleep(time.Second)
						err := &api.Error{Code: api.CodeUnauthorized, Message: "a token is needed: curl -H 'Authorization: Bearer ...'", HTTPStatus: 401}
						m.Update(stateMsg{Gen: ask(&m.live.state, time.Now()), Err: err})
						m.Update(eventsMsg{Gen: ask(&m.live.events, time.Now()), Err: err})
						m.Update(decisionsMsg{Gen: ask(&m.live.decisions, time.Now()), Err: err})
					}
					want := "gateway REFUSED: it wants a token; leave with q and name one with --token-file"
					if file != "" {
						want = "gateway REFUSED: the token in ops/token is not accepted; leave with q and name another with --token-file"
					}
					for _, k := range []string{"o", "b", "1", "l"} {
						keys(m, "o", k)
						got := screenOf(m)
						if !strings.Contains(got, want) {
							t.Errorf("%s: it does not say so:\n%s", k, got)
						}
						for _, no := range []string{"curl", "does not answer", "has not answered", "waits and asks again"} {
							if strings.Contains(got, no) {
								t.Errorf("%s: it says %q:\n%s", k, no, got)
							}
						}
					}
				})
			})
		}
	}
}

// A frozen screen that is copied says how old it is.
func TestFrozenAges(t *testing.T) {
	inSituation(t, "incident", 100, 30, func(t *testing.T, m *model) {
		keys(m, "f")
		bubble.Sleep(75 * time.Second)
		calm(m)
		got := m.screenText()
		if n := strings.Count(got, "1m15s old"); n < 2 || strings.Contains(got, "0s old") {
			t.Errorf("ages stand still:\n%s", got)
		}
		keys(m, "e")
		if got := m.screenText(); !strings.Contains(got, "1m15s old") {
			t.Errorf("the list:\n%s", got)
		}
	})
}

// Arming while nobody answers says so, and START knows nothing.
func TestArmUnanswered(t *testing.T) {
	inSituation(t, "calm", 100, 30, func(t *testing.T, m *model) {
		for range 12 {
			bubble.Sleep(time.Second)
			refuseConnection(m)
		}
		keys(m, "W")
		if got := screenOf(m); !strings.Contains(got, "armed for 15m, but the gateway does not answer") || !strings.Contains(got, "START WITH  not known which runbook fits: the gateway does not answer") {
			t.Error(got)
		}
	})
}
