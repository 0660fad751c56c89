package api

import "testing"

// What happened is said in words: nobody reads an identifier where it has them, and
// what decides comes before what may be cut.
func TestTheWordsOfEvents(t *testing.T) {
	for want, e := range map[string]Event{
		`a SUSPECT > DEGRADED  30s`:                                             {Event: KindHealth, Provider: "a", From: "suspect", To: "degraded", Detail: "30s", Action: "state"},
		`a HEALTHY > DEGRADED  "their status page"  operator`:                   {Event: KindHealth, Provider: "a", From: "healthy", To: "degraded", Why: "their status page", Detail: "operator"},
		`a share 5% > 25%  "probe ok" rev 118`:                                  {Event: KindStep, Provider: "a", Action: "share", From: "5", To: "25", Reason: "raised", Detail: "failback 2026-11-30T17", Why: "probe ok", Revision: 118},
		`a share 5% > 75%  "probe ok" rev 119 (override)`:                       {Event: KindStep, Provider: "a", From: "5", To: "75", Reason: "override", Detail: "failback 2026-11-30T17.2", Why: "probe ok", Revision: 119},
		`a share 5% > 25%`:                                                      {Event: KindStep, Provider: "a", Action: "share", From: "5", To: "25", Reason: "raised", Detail: "failback 2026-11-30T17.2"},
		`a share 25% > 5% (retreat)  ok 90%`:                                    {Event: KindStep, Provider: "a", Action: "share", From: "25", To: "5", Reason: "retreat", Detail: "failback 2026-11-30T17.2: ok 90%"},
		`a share 25% > 5%  3 conversations split by request: ok 90%`:            {Event: KindStep, Provider: "a", From: "25", To: "5", Detail: "failback 2026-11-30T17.2, 3 conversations split by request: ok 90%"},
		`a plan approved`:                                                       {Event: KindStep, Provider: "a", Action: "plan", Reason: "approved", Detail: "failback 2026-11-30T17"},
		`config reload ok`:                                                      {Event: KindReload, To: "ok"},
		`a text breaker auto REFUSED  "why"`:                                    {Event: KindCommand, Provider: "a", Capability: "text", Action: "breaker", To: "auto", Result: "refused", Why: "why"},
		`incident note  "their status page says so"`:                            {Event: KindCommand, Action: "incident_note", Why: "their status page says so", Result: ResultOK},
		`incident close REFUSED  questions are unanswered`:                      {Event: KindCommand, Action: "incident_close", Result: "refused", Detail: "questions are unanswered"},
		`a share 5% > 25% STALE  stale revision`:                                {Event: KindCommand, Provider: "a", Action: "share", From: "5", To: "25", Result: "stale", Reason: "stale_revision"},
		`a text OPEN > HALF  cooldown over`:                                     {Event: KindBreaker, Provider: "a", Capability: "text", From: "open", To: "half_open", Reason: "cooldown_over"},
		`a text HALF > RAMP  probes ok`:                                         {Event: KindBreaker, Provider: "a", Capability: "text", From: "half_open", To: "ramping", Reason: "probes_ok"},
		`model cooling a  cools`:                                                {Event: KindCooling, Model: "a", Detail: "cools"},
		`a degraded, nobody was told so far: needs an operator  two groups red`: {Event: KindEscalation, Provider: "a", Reason: "degraded", Required: "an operator", Notified: "none", Detail: "two groups red"},
		`a shared fault, nobody was told, given up: needs whoever runs it`:      {Event: KindEscalation, Provider: "a", Reason: "shared_fault", Required: "whoever runs it", Notified: "none", Result: ResultFailed},
		`a waiting, told webhook: needs an operator, to decide`:                 {Event: KindEscalation, Provider: "a", Reason: "waiting", Required: "an operator, to decide", Notified: "webhook"},
	} {
		if got := e.Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
