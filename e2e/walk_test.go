//go:build unix

package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"failback/gateway/operator/api"
)

var rowOfPrimary = regexp.MustCompile(`(?m)^ > anthropic-us-east-1 +([A-Z]+)\b.*? (\d+)%`)

// primaryIs waits until the overview says that of the primary.
func (tm *terminal) primaryIs(health string, share int) {
	tm.t.Helper()
	tm.await(fmt.Sprintf("the primary %s at %d%%", health, share), func(screen string) bool {
		m := rowOfPrimary.FindStringSubmatch(screen)
		return m != nil && m[1] == health && m[2] == fmt.Sprint(share)
	})
}

// The whole way on the demo, at 80x24, with keys that are on the screen: the
// first sign of an outage, what it is, where the logs say so, traffic taken
// away by the machine, the provider well again, and traffic back at 100 %, each
// step on the evidence of the one before, until it is healthy; then its incident
// is answered for, closed and reported.
func TestFromOutageToClosedIncident(t *testing.T) {
	t.Parallel()
	tmp := place(t)
	tm := newWalker(t, 80, 24, "TMPDIR="+tmp)
	tm.patience = 90 * time.Second // the outage begins and ends by the demo's own clock
	tm.console(program, "demo", "--script", "outage")
	tm.shows("DEMO windows cut to 10 s", " > anthropic-us-east-1", "q end demo")
	dirs, _ := filepath.Glob(filepath.Join(tmp, "failback-demo-*"))
	if len(dirs) != 1 {
		t.Fatalf("its directories: %v", dirs)
	}
	client, err := api.NewClient("unix:"+filepath.Join(dirs[0], "failback.sock"), api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	primary := func() api.Upstream {
		t.Helper()
		s, err := client.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Upstreams[0]
	}

	// Before: no fallback, and the screen says so, with its limit.
	tm.shows("FALLBACK 0.0%", "limit 2%")
	tm.primaryIs("HEALTHY", 100)
	// The first sign: it is suspect, its breaker opens, the ratio goes over its
	// limit, a runbook is proposed. Nothing is taken from it yet.
	tm.primaryIs("SUSPECT", 100)
	tm.shows("over limit 2%", "[1] ")
	tm.runbook("provider returns 5xx")
	tm.shows("WHAT TO CHECK FIRST")

	// The logs say when it began.
	tm.opens("l", "l logs", "LOGS of the gateway itself", "first-switch")
	tm.opens("Enter", "enter run", "first 1 only", "degraded_completed")
	tm.opens("Escape", "esc back", "not-allowed", "LOGS of the gateway itself")
	tm.opens("Escape", "esc back", "RUNBOOK provider returns 5xx")
	tm.home()

	// The machine takes its traffic away, and says who did and why.
	tm.primaryIs("DEGRADED", 0)
	if u := primary(); u.StateBy != "auto" || u.Share != 0 {
		t.Errorf("degraded: %+v", u)
	}
	tm.opens("e", "e: all", "esc back", "CHANGES AND TRIPS", "auto", "share 100% > 0%", "> DEGRADED")
	tm.home()

	// The runbook of the way back. The gate opens when the probes say so, not
	// their status page: meanwhile the screen says what is missing.
	tm.shows(" > anthropic-us-east-1", "not now: ")
	tm.runbook("manual failback by the table")
	tm.shows("WHAT IT LOOKS LIKE HERE")
	tm.home()
	tm.shows("DEMO anthropic-us-east-1 is well again")
	tm.shows("waits for ", "probes passed")
	tm.opens("W", "next 5%: W, > then y", "ARMED")

	// Back, step by step in the table, each on evidence and none with a reason
	// why it should go without.
	tm.opens("?", "? keys", "KEYS at", "the step table of the upstream under the cursor")
	tm.press("b")
	tm.shows("DEGRADED", "SHARE 0%", "EVIDENCE   to leave degraded: probes passed")
	verdict := "probes passed"
	for _, share := range []int{5, 25, 75, 100} {
		tm.shows("EVIDENCE", verdict)
		tm.key(">", "> up")
		yes := fmt.Sprintf("y  send %d%%", share)
		if share == 5 {
			yes = "y  recover at 5%"
		}
		if screen := tm.shows(yes); strings.Contains(screen, "(needed)") {
			t.Errorf("%d%% needs a reason:\n%s", share, screen)
		}
		tm.pressUntil("y", "the share is raised", func() bool { return primary().Share == share })
		tm.shows("RECOV", fmt.Sprintf("SHARE %d%%", share)) // the title is short of room
		verdict = fmt.Sprintf("EVIDENCE   pass at %d%%", share)
	}
	tm.opens("Escape", "esc back", "KEYS at")
	tm.home()
	tm.primaryIs("HEALTHY", 100)
	until(t, "the primary answers again", func() bool { return primary().Live.Value > 0.5 })
	if u := primary(); u.FailbackID != "" {
		t.Errorf("its failback has not ended: %+v", u)
	}
	tm.opens("e", "e: all", "esc back", "CHANGES AND TRIPS", "share 75% > 100%", "RECOVERING > HEALTHY")
	trail, err := client.Audit(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	raised := 0
	for _, e := range trail.Entries {
		if e.Phase == api.PhaseDone && e.Result == api.ResultOK {
			raised++
			if e.Override {
				t.Errorf("an override: %+v", e)
			}
		}
	}
	if raised != 4 {
		t.Errorf("%d commands went through, it was raised 4 times", raised)
	}

	tm.home()
	tm.opens("i", "[i] incident", "by auto, for degraded", primary().Name+" degraded")
	for i, q := range api.ClosingQuestions {
		tm.answers(i, "seen to, "+q)
	}
	tm.closes()
	all, err := client.Incidents(t.Context())
	if err != nil || len(all.Incidents) != 1 || all.Incidents[0].Milestones.TrafficBack.IsZero() {
		t.Fatalf("%+v %v", all, err)
	}
	report, stderr, code := cli(t, tmp, "incident", "report", all.Incidents[0].ID, "--connect", "unix:"+filepath.Join(dirs[0], "failback.sock"))
	for _, text := range []string{"closed by ", "| first failure | 20", "| traffic back | 20", "SUSPECT", "## Decisions", "seen to, users"} {
		if code != 0 || !strings.Contains(report, text) {
			t.Errorf("its report has no %q: %s%s", text, report, stderr)
		}
	}
	tm.home()
	tm.key("q", "q end demo")
	tm.restored(0)
}
