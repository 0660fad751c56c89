package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"failback/gateway/operator/api"
)

// An outage of every upstream is spent from the model's budget: the operator
// API, /metrics, `failback status` and its JSON name the same upstream, reason and number.
// It survives a stop, and a kill -9 as far as it was written.
func TestBudgetOfAnOutage(t *testing.T) {
	a, b := newStub(t), newStub(t)
	dir := t.TempDir()
	path := configure(t, dir, a, b, "breaker: {mode: shadow}\nhealth: {mode: shadow}\nretry: {base: 1ms, cap: 1ms, patience: 1ms}\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "  m: {candidates", "  m: {slo: {availability: 0.95, window: 168h}, candidates", 1))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, path)
	ask := func(n, want int) {
		t.Helper()
		for i := range n {
			if status, err := chat(http.DefaultClient, g.url, fmt.Sprint("u", i)); err != nil || status == http.StatusOK != (want == http.StatusOK) {
				t.Fatalf("status %d, %v", status, err)
			}
		}
	}
	budget := func(s *api.State) api.Budget {
		if len(s.Models) != 1 || len(s.Models[0].Budgets) != 1 {
			t.Fatalf("%+v", s.Models)
		}
		return s.Models[0].Budgets[0]
	}
	check := func(what string, good, bad uint64) {
		t.Helper()
		until(t, fmt.Sprintf("%s: %d good, %d bad", what, good, bad), func() bool {
			s := budget(g.state(t))
			return s.Good == good && s.Bad == bad
		})
		if s := budget(g.state(t)); len(s.By) != 1 || s.By[0] != (api.BudgetSpend{Provider: "a", Reason: "server_error", Bad: bad}) {
			t.Errorf("%s: spent on %+v", what, s.By)
		}
		res, err := http.Get(g.metrics)
		if err != nil {
			t.Fatal(err)
		}
		metrics, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`failback_slo_budget_bad_requests{model="m",objective="availability",provider="a",reason="server_error"} %d`, bad)
		if !strings.Contains(string(metrics), want+"\n") {
			t.Errorf("%s: /metrics lacks %s", what, want)
		}
		out, errs, code := cli(t, dir, "status")
		if code != 0 || !strings.Contains(out, "availability 95%") || !strings.Contains(out, fmt.Sprintf("spent on    a server_error %d\n", bad)) {
			t.Errorf("%s: status ends with %d: %s%s", what, code, out, errs)
		}
		var s api.State
		if out, errs, code = cli(t, dir, "status", "--json"); code != 0 || json.Unmarshal([]byte(out), &s) != nil || budget(&s).Bad != bad || budget(&s).By[0].Provider != "a" {
			t.Errorf("%s: status --json ends with %d: %s%s", what, code, out, errs)
		}
	}
	ask(20, http.StatusOK)
	a.broken.Store(true)
	ask(5, http.StatusOK) // b answers: nothing is spent
	b.broken.Store(true)
	ask(3, 0)
	check("the outage", 25, 3)
	if err := g.term(t); err != nil {
		t.Fatal(err)
	}
	g = start(t, path)
	check("after a stop", 25, 3)
	ask(2, 0)
	check("and on", 25, 5)
	if err := g.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	g.kill()
	g = start(t, path)
	// The last minute is what a kill may cost, if nothing was written in it.
	if s := budget(g.state(t)); s.Good != 25 || s.Bad != 3 && s.Bad != 5 {
		t.Errorf("after a kill: %+v", s)
	}
}
