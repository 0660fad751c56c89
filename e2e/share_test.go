package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"failback/gateway/operator/api"
)

// Ten thousand requests while an upstream is stepped from 0 to 100 percent.
func TestStepsGiveEachShareToTheSameMembers(t *testing.T) {
	a, b := newStub(t), newStub(t)
	dir := t.TempDir()
	path := configure(t, dir, a, b, "")
	g := start(t, path)

	users := make([]string, 2000)
	for i := range users {
		users[i] = fmt.Sprintf("user-%d", i)
	}
	sent := 0
	inside := map[string]int{}
	var restarted *running
	for _, share := range []int{0, 5, 25, 75, 100} {
		if share == 0 {
			// An operator takes it to 0 at once.
			zero := 0
			if _, err := g.client.SetShare(t.Context(), "a", api.Command{Share: &zero}); err != nil {
				t.Fatal(err)
			}
		} else {
			g.step(t, "a", share)
		}
		a.members()
		b.members()
		chatAll(t, g.url, users)
		sent += len(users)
		in, out := a.members(), b.members()
		if len(in)+len(out) != len(users) {
			t.Errorf("at %d%%: %d + %d answered, %d sent", share, len(in), len(out), len(users))
		}
		p, n := float64(share)/100, float64(len(users))
		if z := math.Abs(float64(len(in))-n*p) / math.Max(math.Sqrt(n*p*(1-p)), 1e-9); p > 0 && p < 1 && z > 4 {
			t.Errorf("at %d%%: %d of %d, z %.1f", share, len(in), len(users), z)
		}
		if (p == 0 && len(in) != 0) || (p == 1 && len(out) != 0) {
			t.Errorf("at %d%%: %d in, %d out", share, len(in), len(out))
		}
		for u := range inside {
			if in[u] == 0 {
				t.Errorf("%s was inside a lower share and left at %d%%", u, share)
				break
			}
		}
		inside = in
		if share == 25 {
			restarted = sameMembersElsewhere(t, g, path, users, in, a, b)
		}
	}
	countsAgree(t, g, sent, a, b)
	if restarted == nil {
		t.Error("the restart was never tried")
	}
}

// sameMembersElsewhere asks a second process on a copy of the data directory:
// what a restart would read.
func sameMembersElsewhere(t *testing.T, g *running, path string, users []string, want map[string]int, a, b *stub) *running {
	t.Helper()
	dir := t.TempDir()
	table, err := os.ReadFile(filepath.Join(g.dir, "traffic.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "traffic.json"), table, 0o600); err != nil {
		t.Fatal(err)
	}
	second := start(t, configure(t, dir, a, b, ""))
	before := a.seen.Load() + b.seen.Load()
	a.members()
	for range 2 { // as it is, and after a restart of the same process
		chatAll(t, second.url, users)
		if got := a.members(); !maps.Equal(got, want) {
			t.Errorf("a second process has %d members, the first %d", len(got), len(want))
		}
		if err := second.term(t); err != nil {
			t.Errorf("it ended with %v", err)
		}
		second = start(t, filepath.Join(dir, "failback.yaml"))
	}
	_ = second.term(t)
	extra := a.seen.Load() + b.seen.Load() - before
	a.seen.Add(-int64(len(want)) * 2)
	b.seen.Add(-(extra - int64(len(want))*2))
	return second
}

// countsAgree: metrics, decision log and operator state tell what the stubs saw.
func countsAgree(t *testing.T, g *running, sent int, a, b *stub) {
	t.Helper()
	text := g.scrape(t)
	for name, s := range map[string]*stub{"a": a, "b": b} {
		if got := sum(text, "ai_model_attempts_total", `provider="`+name+`"`); got != float64(s.seen.Load()) {
			t.Errorf("attempts of %s: metrics say %g, the stub saw %d", name, got, s.seen.Load())
		}
	}
	if got := sum(text, "ai_model_requests_total", ""); got != float64(sent) {
		t.Errorf("requests: metrics say %g, %d were sent", got, sent)
	}
	var lines, toA int
	until(t, "the decision log is written", func() bool {
		lines, toA = 0, 0
		f, err := os.Open(filepath.Join(g.dir, "decisions.jsonl"))
		if err != nil {
			return false
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			var d api.Decision
			if json.Unmarshal(s.Bytes(), &d) == nil && d.Event == "model_route_selected" {
				lines++
				if d.SelectedProvider == "a" {
					toA++
				}
			}
		}
		return lines >= sent
	})
	if lines != sent || int64(toA) != a.seen.Load() {
		t.Errorf("the log has %d decisions, %d by a; %d were sent, a saw %d", lines, toA, sent, a.seen.Load())
	}
	ds, err := g.client.Decisions(t.Context(), api.Filter{Limit: 1})
	if err != nil || ds.Total != uint64(sent) {
		t.Errorf("the operator API counts %d decisions: %v", ds.Total, err)
	}
}

// sum adds the values of a metric's series that contain label.
func sum(text, name, label string) float64 {
	total := 0.0
	for line := range strings.Lines(text) {
		var v float64
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if of, _, _ := strings.Cut(series, "{"); of == name && strings.Contains(series, label) {
			if _, err := fmt.Sscan(value, &v); err == nil {
				total += v
			}
		}
	}
	return total
}

// Two operators on stale screens: one wins, the other is told; a lowering
// always works; each command is in the audit, refused ones too.
func TestStaleCommandsAreRefusedAndLoweringNever(t *testing.T) {
	g := start(t, configure(t, t.TempDir(), newStub(t), newStub(t), ""))
	set := func(share int, revision uint64) error {
		_, err := g.client.SetShare(t.Context(), "a", api.Command{Share: &share, Revision: &revision, Reason: "test"})
		return err
	}
	first := g.upstream(t, "a").Revision
	if err := set(0, first); err != nil {
		t.Fatal(err)
	}
	now := g.upstream(t, "a").Revision
	if err := set(5, now); err != nil {
		t.Fatal(err)
	}
	e, ok := errors.AsType[*api.Error](set(25, now))
	if !ok || e.Code != api.CodeStaleRevision || e.HTTPStatus != http.StatusConflict || e.Upstream == nil || e.Upstream.Share != 5 {
		t.Errorf("a stale raise: %+v", e)
	}
	if err := set(0, first); err != nil {
		t.Errorf("a stale lowering: %v", err)
	}
	if e, ok := errors.AsType[*api.Error](set(75, g.upstream(t, "a").Revision)); !ok {
		t.Errorf("a jump over two steps went through: %v", e)
	}
	trail, err := g.client.Audit(context.Background(), 100)
	if err != nil {
		t.Fatal(err)
	}
	var results []string
	for _, entry := range trail.Entries {
		b, _ := json.Marshal(entry)
		results = append(results, string(b))
	}
	all := strings.Join(results, "\n")
	for _, want := range []string{"stale", "refused", `"a"`} {
		if !strings.Contains(all, want) {
			t.Errorf("the audit lacks %q:\n%s", want, all)
		}
	}
	if !slices.ContainsFunc(results, func(s string) bool { return strings.Contains(s, "root") || strings.Contains(s, "by") }) {
		t.Error("the audit names nobody")
	}
}
