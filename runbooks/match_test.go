package runbooks_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
	"failback/runbooks"
)

func bucket(state, reason, detail string) api.Upstream {
	return api.Upstream{Name: "u", Share: 100, Breakers: []api.Breaker{
		{Capability: "stream", State: "closed"},
		{Capability: "text", State: state, Reason: reason, Detail: detail, Mode: "enforce"},
	}}
}

func TestPropose(t *testing.T) {
	num := func(v float64) *float64 { return &v }
	is := func(id string, cs ...runbooks.Condition) runbooks.Runbook { return runbooks.Runbook{ID: id, When: cs} }
	rs := []runbooks.Runbook{
		is("share", runbooks.Condition{Kind: runbooks.LoweredShare}),
		is("ratio", runbooks.Condition{Kind: runbooks.OverLimit}),
		is("health", runbooks.Condition{Kind: runbooks.BadHealth, Words: []string{"degraded"}}),
		is("keys", runbooks.Condition{Kind: runbooks.CoolingKeys, Words: []string{"credential"}}, runbooks.Condition{Kind: runbooks.RedSignal, Words: []string{"credential", "certificate"}}),
		is("5xx", runbooks.Condition{Kind: runbooks.OpenBreaker, Words: []string{"consecutive", "failure_rate"}, Classes: []string{"server_error"}}, runbooks.Condition{Kind: runbooks.LoweredShare}),
		is("net", runbooks.Condition{Kind: runbooks.OpenBreaker, Classes: []string{"connect", "dns"}}),
		is("shared", runbooks.Condition{Kind: runbooks.FailedDependency}, runbooks.Condition{Kind: runbooks.SharedFault}),
		is("gone", runbooks.Condition{Kind: runbooks.GoneModel}),
		is("forbidden", runbooks.Condition{Kind: runbooks.Violation}),
		is("alarm", runbooks.Condition{Kind: runbooks.FiringAlert, Words: []string{"One", "Two"}}),
		is("gateway", runbooks.Condition{Kind: runbooks.Troubled, Words: runbooks.Troubles}),
		is("burns", runbooks.Condition{Kind: runbooks.BurningBudget, Words: []string{"first_output"}}),
		is("bound", runbooks.Condition{Kind: runbooks.BoundRate}),
		is("closing", runbooks.Condition{Kind: runbooks.OpenIncident, Words: []string{"traffic_back"}}),
		is("slow", runbooks.Condition{Kind: runbooks.OpenBreaker, Words: []string{"slow"}}),
	}
	one := func(us ...api.Upstream) runbooks.Situation {
		return runbooks.Situation{State: &api.State{Upstreams: us}}
	}
	ratio := func(r, limit *float64) runbooks.Situation {
		s := runbooks.Situation{State: &api.State{}, Ratio: r}
		if limit != nil {
			s.State.Limit = &api.Limit{FallbackRatio: *limit}
		}
		return s
	}
	ill := func(f func(*api.State)) runbooks.Situation {
		s := one(bucket("closed", "", ""))
		f(s.State)
		return s
	}
	metrics := func(alerts, violations, gone []string) runbooks.Situation {
		return runbooks.Situation{State: &api.State{}, Alerts: alerts, Violations: violations, Gone: gone}
	}
	at := time.Unix(1, 0)
	with := func(u api.Upstream, f func(*api.Upstream)) runbooks.Situation { f(&u); return one(u) }
	budgets := func(burn float64, state string) runbooks.Situation {
		return ill(func(s *api.State) {
			s.Models = []api.Model{{Name: "haiku"}, {Name: "sonnet", Budgets: []api.Budget{
				{Objective: "availability", WindowSeconds: 30 * 86400, BurnFast: api.Number{State: api.StateValue, Value: 99}},
				{Objective: "first_output", WindowSeconds: 30 * 86400, BurnFast: api.Number{State: state, Value: burn}},
			}}}
		})
	}
	opened := func(s runbooks.Situation, os ...runbooks.Opening) runbooks.Situation {
		s.Openings = map[string][]runbooks.Opening{"u:text": os}
		return s
	}
	for _, tc := range []struct {
		name string
		s    runbooks.Situation
		want string // id: why @ where | ...
	}{
		{"nothing known", runbooks.Situation{}, ""},
		{"calm", one(bucket("closed", "", "")), ""},
		{"a closed bucket keeps no reason", one(bucket("closed", "consecutive", "5 failed in a row (server_error x5)")), ""},
		{"consecutive", one(bucket("open", "consecutive", "5 failed in a row (server_error x5)")), "5xx: breaker reason consecutive, class server_error @ u:text"},
		{"while it tries", one(bucket("half_open", "failure_rate", "12/20 failed (server_error x11, reset x1)")), "5xx: breaker reason failure_rate, class server_error @ u:text"},
		{"while it ramps", one(bucket("ramping", "slow", "10/10 slower than 20s")), "slow: breaker reason slow @ u:text"},
		{"after a failed probe", one(bucket("open", "consecutive", "1/1 probes failed (server_error)")), "5xx: breaker reason consecutive, class server_error @ u:text"},
		{"a probe's status", one(bucket("open", "consecutive", "1/1 probes failed (500)")), "5xx: breaker reason consecutive, class server_error @ u:text"},
		{"a status of one that is overloaded", one(bucket("open", "failure_rate", "10/20 failed (529 x6, connect x4)")), ""},
		{"the most of it comes last", one(bucket("open", "failure_rate", "12/20 failed (server_error x1, connect x11)")), "net: breaker class connect @ u:text"},
		{"statuses are counted", one(bucket("open", "failure_rate", "500/503 failed (connect x490, 502 x10)")), "net: breaker class connect @ u:text"},
		{"a status of the caller", one(bucket("open", "failure_rate", "12/20 failed (404 x12)")), ""},
		{
			"what began it counts, whatever the probe ended with",
			opened(one(bucket("open", "consecutive", "1/1 probes failed (first_output_timeout)")), runbooks.Opening{Reason: "consecutive", Detail: "5 failed in a row (server_error x5)"}),
			"5xx: breaker reason consecutive, class server_error @ u:text",
		},
		{
			"what a probe met since counts too",
			opened(one(bucket("half_open", "consecutive", "1/1 probes failed (timeout)")), runbooks.Opening{Reason: "consecutive", Detail: "5 failed in a row (server_error x5)"}, runbooks.Opening{Reason: "probe_failed", Detail: "1/1 probes failed (connect)"}),
			"5xx: breaker reason consecutive, class server_error @ u:text | net: breaker class connect @ u:text",
		},
		{"closed again", opened(one(bucket("closed", "", "")), runbooks.Opening{Reason: "consecutive", Detail: "5 failed in a row (server_error x5)"}), ""},
		{"passthrough", ill(func(s *api.State) {
			s.Passthrough, s.Upstreams[0].Share, s.Upstreams[0].Health = &api.Passthrough{}, 25, "degraded"
		}), "gateway: passthrough is on @ "},
		{"the most frequent class counts", one(bucket("open", "failure_rate", "12/20 failed (connect x11, server_error x1)")), "net: breaker class connect @ u:text"},
		{"equally frequent", one(bucket("open", "failure_rate", "12/20 failed (connect x6, server_error x6)")), "5xx: breaker reason failure_rate, class server_error @ u:text | net: breaker class connect @ u:text"},
		{"a part of a word is none", one(bucket("open", "failure_rate", "12/20 failed (server_errors x11, my_server_error)")), ""},
		{"another reason", one(bucket("open", "weight", "12/20 failed, weight 3 of 100 is below the next candidate's 80")), ""},
		{"in shadow", with(bucket("open", "slow", ""), func(u *api.Upstream) { u.Breakers[1].Mode = "shadow" }), "slow: breaker reason slow (shadow: nothing is blocked) @ u:text"},
		{"forced closed", with(bucket("open", "slow", ""), func(u *api.Upstream) { u.Breakers[1].Forced = "closed" }), "gateway: a breaker is forced @ "},
		{"forced open is not slow", with(bucket("open", "slow", ""), func(u *api.Upstream) { u.Breakers[1].Forced = "open" }), "gateway: a breaker is forced @ "},
		{"share", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Share = 25 }), "share: share below 100% @ u | 5xx: share below 100% @ u"},
		{"keys", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Credential = "credential" }), "keys: credential state credential @ u"},
		{"other keys", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Credential = "quota_exhausted" }), ""},
		{"health", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Health = "degraded" }), "health: health degraded @ u"},
		{"over the limit", ratio(num(0.021), num(0.02)), "ratio: fallback ratio over its limit @ "},
		{"at the limit", ratio(num(0.02), num(0.02)), ""},
		{"no limit", ratio(num(1), nil), ""},
		{"ratio unknown", ratio(nil, num(0)), ""},
		{"a shared fault", ill(func(s *api.State) { s.SharedFault = &api.SharedFault{Reason: "path"} }), "shared: shared fault, path @ "},
		{"of a dependency", ill(func(s *api.State) { s.SharedFault = &api.SharedFault{Reason: "vault"} }), "shared: shared fault, dependency vault @ "},
		{"a dependency", ill(func(s *api.State) { s.Dependencies = []api.Dependency{{Name: "vault", Result: "failed"}} }), "shared: dependency failed @ vault"},
		{"a dependency unknown", ill(func(s *api.State) {
			s.Dependencies = []api.Dependency{{Name: "vault", Result: "unknown"}, {Name: "dns", Result: "ok"}}
		}), ""},
		{"a red signal", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Signals = []api.Signal{{Name: "certificate", Colour: api.Red}} }), "keys: signal certificate red @ u"},
		{"another red signal", with(bucket("closed", "", ""), func(u *api.Upstream) {
			u.Signals = []api.Signal{{Name: "error_rate", Colour: api.Red}, {Name: "certificate", Colour: api.Unknown}, {Name: "credential", Colour: api.Green}}
		}), ""},
		{"a probe of a retired model", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Probes = []api.Probe{{Result: "ok"}, {Result: "model_gone"}} }), "gone: a probe ended with model_gone @ u"},
		{"probes of others", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Probes = []api.Probe{{Result: ""}, {Result: "ok"}, {Result: "server_error"}} }), ""},
		{"attempts at a retired model", metrics(nil, nil, []string{"u", "v"}), "gone: class model_gone @ u v"},
		{"a violation", metrics(nil, []string{"refund"}, nil), "forbidden: task fell back that may not @ refund"},
		{"an alert", metrics([]string{"Other", "Two"}, nil, nil), "alarm: alert Two @ "},
		{"another alert", metrics([]string{"Three"}, nil, nil), ""},
		{"the store", ill(func(s *api.State) { s.Store.Error = "disk full" }), "gateway: store cannot be written @ "},
		{"a share unsynced", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Unsynced = true }), "gateway: a share is UNSYNCED @ "},
		{"a record unsynced", ill(func(s *api.State) { s.Incidents = []api.IncidentHead{{ID: "one", State: "open", Unsynced: true}} }), "gateway: an incident's record is UNSYNCED @ "},
		{"a silent gateway", ill(func(s *api.State) { s.Gateways = []api.Peer{{Answers: true}, {}} }), "gateway: a gateway is silent @ "},
		{"a late job", ill(func(s *api.State) { s.Jobs = []api.Job{{}, {Late: true}} }), "gateway: a job is late @ "},
		{"the audit", ill(func(s *api.State) { s.Audit.Pending = 1 }), "gateway: audit cannot be written @ "},
		{"entries lost", ill(func(s *api.State) { s.Audit.Lost = 9 }), "gateway: entries of the audit were lost @ "},
		{"lines dropped", ill(func(s *api.State) { s.Log.Dropped = 9 }), "gateway: lines of the decision log were dropped @ "},
		{"what may wait is behind a share", ill(func(s *api.State) { s.Log.Dropped, s.Upstreams[0].Share = 9, 5 }),
			"share: share below 100% @ u | 5xx: share below 100% @ u | gateway: lines of the decision log were dropped @ "},
		{"what may not wait is before it", ill(func(s *api.State) { s.Log.Dropped, s.Store.Error, s.Upstreams[0].Share = 9, "disk full", 5 }),
			"gateway: store cannot be written @  | share: share below 100% @ u | 5xx: share below 100% @ u"},
		{"the decision log", ill(func(s *api.State) { s.Log.Error = "no space" }), "gateway: decision log cannot be written @ "},
		{"nobody was told", ill(func(s *api.State) { s.Notify = api.Notify{Configured: true, LastError: "503"} }), "gateway: people were not told @ "},
		{"what was to be told was given up", ill(func(s *api.State) { s.Notify = api.Notify{Configured: true, Lost: 2} }), "gateway: people were not told @ "},
		{"nobody is to be told", ill(func(s *api.State) { s.Notify.LastError = "503" }), ""},
		{"a budget burns", budgets(14.4, api.StateValue), "burns: error budget first_output burns fast @ sonnet"},
		{"a budget is spent", budgets(14.3, api.StateValue), ""},
		{"a budget of a day that is not eaten into", ill(func(s *api.State) {
			s.Models = []api.Model{{Name: "m", Budgets: []api.Budget{{Objective: "first_output", WindowSeconds: 86400, BurnFast: api.Number{State: api.StateValue, Value: 0.9}}}}}
		}), ""},
		{"a budget without requests", budgets(1e9, api.StateIdle), ""},
		{"a bound rate", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Breakers[1].AdmittedRPS = 3 }), "bound: 429s bind its rate @ u:text"},
		{"a rate that would be bound", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Breakers[1].AdmittedRPS, u.Breakers[1].Mode = 3, "shadow" }), ""},
		{"an open incident", ill(func(s *api.State) { s.Incidents = []api.IncidentHead{{ID: "one", State: "open"}} }), ""},
		{"one whose traffic is back", ill(func(s *api.State) {
			s.Incidents = []api.IncidentHead{{ID: "one", State: "open"}, {ID: "two", State: "open", Milestones: api.Milestones{TrafficBack: at}}}
		}), "closing: incident open, traffic back @ two"},
		{"a closed one", ill(func(s *api.State) {
			s.Incidents = []api.IncidentHead{{ID: "two", State: "closed", Milestones: api.Milestones{TrafficBack: at}}}
		}), ""},
		{
			"the gravest first, then the order of the runbooks",
			func() runbooks.Situation {
				s := one(bucket("open", "consecutive", "(server_error x5)"), bucket("open", "consecutive", "(server_error x9)"))
				u := &s.State.Upstreams[0]
				u.Share, u.StateBy, u.Credential, u.Health = 0, "ana", "credential", "degraded"
				s.State.Upstreams[1].Name = "v"
				s.Ratio, s.State.Limit = num(0.5), &api.Limit{FallbackRatio: 0.1}
				return s
			}(),
			"5xx: breaker reason consecutive, class server_error @ u:text v:text | keys: credential state credential @ u | health: health degraded @ u | ratio: fallback ratio over its limit @  | share: share below 100% @ u",
		},
	} {
		var got []string
		for _, m := range runbooks.Propose(rs, tc.s) {
			got = append(got, m.Runbook.ID+": "+m.Why+" @ "+strings.Join(m.Where, " "))
			if m.Short == "" {
				t.Errorf("%s: %s does not say why in short", tc.name, m.Runbook.ID)
			}
		}
		if g := strings.Join(got, " | "); g != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, g, tc.want)
		}
	}
	// What comes from outside is bounded work, and drives nothing.
	s := one(bucket("open", "failure_rate", strings.Repeat("server_error x99999999999999 ", 100_000)))
	if got := runbooks.Propose(rs, s); len(got) != 1 {
		t.Errorf("a huge detail: %d matches", len(got))
	}
}

// Of two conditions of a runbook about the gateway's own troubles one that does
// not wait is enough for its place.
func TestAHurriedTroubleIsNotBehindAnother(t *testing.T) {
	troubled := func(w string) runbooks.Condition {
		return runbooks.Condition{Kind: runbooks.Troubled, Words: []string{w}}
	}
	rs := []runbooks.Runbook{
		{ID: "share", When: []runbooks.Condition{{Kind: runbooks.LoweredShare}}},
		{ID: "gateway", When: []runbooks.Condition{troubled(runbooks.TroubleLog), troubled(runbooks.TroubleStore)}},
	}
	s := &api.State{Upstreams: []api.Upstream{{Name: "u", Share: 5}}, Store: api.Store{Error: "disk full"}, Log: api.Log{Dropped: 9}}
	for _, want := range []string{"gateway", "share"} {
		if ms := runbooks.Propose(rs, runbooks.Situation{State: s}); len(ms) != 2 || ms[0].Runbook.ID != want {
			t.Errorf("%q before all: %+v", want, ms)
		}
		s.Store.Error = ""
	}
}

// The embedded runbooks fit what they are about.
func TestEmbeddedPropose(t *testing.T) {
	rs, err := runbooks.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		u    api.Upstream
		want []string
	}{
		{bucket("closed", "", ""), nil},
		{bucket("open", "consecutive", "5 failed in a row (server_error x5)"), []string{"provider-5xx"}},
		{bucket("open", "failure_rate", "10/20 failed (overloaded x10)"), []string{"provider-5xx"}},
		{bucket("open", "failure_rate", "10/20 failed (bad_response x10)"), []string{"provider-5xx"}},
		{bucket("open", "weight", "9/30 failed, weight 70 of 100 is below the next candidate's 80"), []string{"provider-5xx"}},
		{bucket("open", "consecutive", "5 failed in a row (connect x5)"), []string{"provider-unreachable"}},
		{bucket("open", "consecutive", "5 failed in a row (first_output_timeout x5)"), []string{"provider-silent"}},
		{bucket("open", "slow", "10 waiting completed none in 2s"), []string{"provider-silent"}},
		{bucket("open", "rate_limited", "15/20 attempts got a 429"), []string{"rate-limited"}},
		{bucket("open", "failure_rate", "10/20 failed (interrupted x10)"), []string{"stream-interruptions"}},
		{bucket("open", "forced", ""), nil},
	} {
		var got []string
		for _, m := range runbooks.Propose(rs, runbooks.Situation{State: &api.State{Upstreams: []api.Upstream{tc.u}}}) {
			got = append(got, m.Runbook.ID)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s %s: %v, want %v", tc.u.Breakers[1].Reason, tc.u.Breakers[1].Detail, got, tc.want)
		}
	}
	lowered := bucket("open", "consecutive", "5 failed in a row (server_error x5)")
	lowered.Share, lowered.StateBy = 0, "ana"
	ms := runbooks.Propose(rs, runbooks.Situation{State: &api.State{Upstreams: []api.Upstream{lowered}}})
	if len(ms) < 2 || ms[0].Runbook.ID != "provider-5xx" {
		t.Errorf("a lowered upstream whose breaker is open: %+v", ms)
	}
	// An upstream of which the gateway says nothing is unknown, not lowered.
	if ms := runbooks.Propose(rs, runbooks.Situation{State: &api.State{Upstreams: []api.Upstream{{Name: "u"}}}}); len(ms) > 0 {
		t.Errorf("an upstream without a state: %+v", ms)
	}
}
