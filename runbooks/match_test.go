package runbooks_test

import (
	"slices"
	"strings"
	"testing"

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
		is("keys", runbooks.Condition{Kind: runbooks.CoolingKeys, Words: []string{"credential"}}),
		is("5xx", runbooks.Condition{Kind: runbooks.OpenBreaker, Words: []string{"consecutive", "failure_rate"}, Classes: []string{"server_error"}}, runbooks.Condition{Kind: runbooks.LoweredShare}),
		is("net", runbooks.Condition{Kind: runbooks.OpenBreaker, Classes: []string{"connect", "dns"}}),
		is("slow", runbooks.Condition{Kind: runbooks.OpenBreaker, Words: []string{"slow"}}),
	}
	one := func(u api.Upstream) runbooks.Situation { return runbooks.Situation{Upstreams: []api.Upstream{u}} }
	with := func(u api.Upstream, f func(*api.Upstream)) runbooks.Situation { f(&u); return one(u) }
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
		{"passthrough", runbooks.Situation{Passthrough: true, Upstreams: with(bucket("closed", "", ""), func(u *api.Upstream) { u.Share, u.Health = 25, "degraded" }).Upstreams}, ""},
		{"the most frequent class counts", one(bucket("open", "failure_rate", "12/20 failed (connect x11, server_error x1)")), "net: breaker class connect @ u:text"},
		{"equally frequent", one(bucket("open", "failure_rate", "12/20 failed (connect x6, server_error x6)")), "5xx: breaker reason failure_rate, class server_error @ u:text | net: breaker class connect @ u:text"},
		{"a part of a word is none", one(bucket("open", "failure_rate", "12/20 failed (server_errors x11, my_server_error)")), ""},
		{"another reason", one(bucket("open", "weight", "12/20 failed, weight 3 of 100 is below the next candidate's 80")), ""},
		{"in shadow", with(bucket("open", "slow", ""), func(u *api.Upstream) { u.Breakers[1].Mode = "shadow" }), "slow: breaker reason slow (shadow: nothing is blocked) @ u:text"},
		{"forced closed", with(bucket("open", "slow", ""), func(u *api.Upstream) { u.Breakers[1].Forced = "closed" }), ""},
		{"forced open is not slow", with(bucket("open", "slow", ""), func(u *api.Upstream) { u.Breakers[1].Forced = "open" }), ""},
		{"share", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Share = 25 }), "share: share below 100% @ u | 5xx: share below 100% @ u"},
		{"keys", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Credential = "credential" }), "keys: credential state credential @ u"},
		{"other keys", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Credential = "quota_exhausted" }), ""},
		{"health", with(bucket("closed", "", ""), func(u *api.Upstream) { u.Health = "degraded" }), "health: health degraded @ u"},
		{"over the limit", runbooks.Situation{Ratio: num(0.021), Limit: num(0.02)}, "ratio: fallback ratio over its limit @ "},
		{"at the limit", runbooks.Situation{Ratio: num(0.02), Limit: num(0.02)}, ""},
		{"no limit", runbooks.Situation{Ratio: num(1)}, ""},
		{"ratio unknown", runbooks.Situation{Limit: num(0)}, ""},
		{
			"the gravest first, then the order of the runbooks",
			runbooks.Situation{
				Upstreams: []api.Upstream{
					with(bucket("open", "consecutive", "(server_error x5)"), func(u *api.Upstream) { u.Share, u.Credential, u.Health = 0, "credential", "degraded" }).Upstreams[0],
					with(bucket("open", "consecutive", "(server_error x9)"), func(u *api.Upstream) { u.Name = "v" }).Upstreams[0],
				},
				Ratio: num(0.5), Limit: num(0.1),
			},
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
		{bucket("open", "consecutive", "5 failed in a row (connect x5)"), nil},
	} {
		var got []string
		for _, m := range runbooks.Propose(rs, runbooks.Situation{Upstreams: []api.Upstream{tc.u}}) {
			got = append(got, m.Runbook.ID)
		}
		got = slices.DeleteFunc(got, func(id string) bool { return id != "provider-5xx" && id != "manual-failback" })
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s %s: %v, want %v", tc.u.Breakers[1].Reason, tc.u.Breakers[1].Detail, got, tc.want)
		}
	}
	lowered := bucket("open", "consecutive", "5 failed in a row (server_error x5)")
	lowered.Share = 0
	ms := runbooks.Propose(rs, runbooks.Situation{Upstreams: []api.Upstream{lowered}})
	if len(ms) < 2 || ms[0].Runbook.ID != "provider-5xx" {
		t.Errorf("a lowered upstream whose breaker is open: %+v", ms)
	}
}
