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

// follow presses a key that the screen names, as it names it.
func (tm *terminal) follow(key, named string) {
	tm.t.Helper()
	tm.await(fmt.Sprintf("%q, which names the key %s", named, key), func(screen string) bool { return strings.Contains(screen, named) })
	tm.press(key)
}

var rowOfPrimary = regexp.MustCompile(`(?m)^ > anthropic-us-east-1 +\S.*? (\d+)%`)

var whyTyped = regexp.MustCompile(`why( \(needed\))?: p`)

// The whole way on the demo, at 80x24, with keys that are on the screen: the
// first sign of an outage, what it is, where the logs say so, traffic taken
// away, the provider well again, and traffic back at 100 %.
func TestFromOutageToTrafficBack(t *testing.T) {
	t.Parallel()
	tmp := place(t)
	tm := newTerminal(t, "TMPDIR="+tmp)
	tm.patience = 90 * time.Second // the outage begins and ends by the demo's own clock
	tm.console(program, "demo")
	tm.shows("DEMO", " > anthropic-us-east-1", "q end demo")
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
	// The first sign: a breaker opens, the ratio goes over its limit, a runbook
	// is proposed.
	tm.shows("OPEN", "over limit 2%", "[1] provider returns 5xx")
	tm.follow("1", "[1]")
	tm.shows("RUNBOOK provider returns 5xx", "WHAT TO CHECK FIRST")

	// The logs say when it began.
	tm.follow("l", "l logs")
	tm.shows("first-switch")
	tm.follow("Enter", "enter run")
	tm.shows("first 1 only", "degraded_completed")

	// Traffic is taken away by hand, a step at a time.
	tm.follow("Escape", "esc back")
	tm.shows("LOGS of the gateway itself", "not-allowed")
	tm.follow("Escape", "esc back")
	tm.shows("RUNBOOK provider returns 5xx")
	tm.follow("Escape", "esc back")
	tm.shows(" > anthropic-us-east-1")
	tm.follow("W", "W arm")
	tm.shows("ARMED")
	for _, share := range []int{75, 25, 5, 0} {
		tm.follow("<", "< down")
		tm.shows(fmt.Sprintf("y  lower to %d%%", share))
		tm.pressUntil("y", "the share is lowered", func() bool { return primary().Share == share })
		tm.await(fmt.Sprintf("SHARE %d%%", share), func(screen string) bool {
			m := rowOfPrimary.FindStringSubmatch(screen)
			return m != nil && m[1] == fmt.Sprint(share)
		})
	}

	// The provider is well again when its breaker says so, not its status page.
	tm.await("the end of the outage", func(screen string) bool { return strings.Contains(screen, "DEMO healthy again") })
	// Back, step by step: each waits until LIVE has followed.
	for _, share := range []int{5, 25, 75, 100} {
		until(t, "the next step is not barred", func() bool {
			n := primary().NextStep
			return n.Share == share && n.BlockedBy == ""
		})
		tm.follow(">", "> up")
		// The breaker is open until traffic brings its probe: the first step asks why.
		if strings.Contains(tm.shows(fmt.Sprintf("Send %d%% back", share), "why"), "why (needed)") {
			tm.pressUntil("p", "a reason is typed", func() bool { return whyTyped.MatchString(tm.screen()) })
			tm.follow("Enter", "enter or tab ends typing")
		}
		tm.shows(fmt.Sprintf("y  send %d%%", share))
		tm.pressUntil("y", "the share is raised", func() bool { return primary().Share == share })
		tm.await(fmt.Sprintf("SHARE %d%%", share), func(screen string) bool {
			m := rowOfPrimary.FindStringSubmatch(screen)
			return m != nil && m[1] == fmt.Sprint(share)
		})
	}
	tm.shows(" > anthropic-us-east-1", "100%", "CLOSED")
	until(t, "the primary answers again", func() bool { return primary().Live.Value > 0.1 })
	tm.follow("e", "e: all")
	tm.shows("share 75% > 100%") // newest first; breakers may have filled the rest of the screen
	tm.follow("q", "q end demo")
	tm.restored(0)
}
