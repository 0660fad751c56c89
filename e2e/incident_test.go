package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"failback/gateway/operator/api"
)

// incident is the only one that r has.
func (r *running) incident(t *testing.T) *api.Incident {
	t.Helper()
	all, err := r.client.Incidents(t.Context())
	if err != nil || len(all.Incidents) != 1 {
		t.Fatalf("%+v %v", all, err)
	}
	in, err := r.client.Incident(t.Context(), all.Incidents[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func entries(in *api.Incident, kind string) (texts []string) {
	for _, e := range in.Timeline {
		if e.Kind == kind {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// An incident outlives a gateway that is killed: what an operator was told is
// written is there, the outage goes on in the same record, and it is closed and
// reported from the command line.
func TestAnIncidentSurvivesAKill(t *testing.T) {
	t.Parallel()
	a, b := newPatient(t), newPatient(t)
	w := startWard(t, admit(t, a.url, b.url, ""))
	traffic := newLoad(t, w.url)
	until(t, "there is traffic to judge by", func() bool { return traffic.sent.Load() > 100 })
	a.mode.Store(broken)
	w.reaches(t, api.Degraded, 0)
	until(t, "an incident is open", func() bool { return len(w.state(t).Incidents) == 1 })
	before := w.incident(t)
	if before.Cause != api.CauseDegraded || before.Milestones.FirstFailure.IsZero() {
		t.Errorf("%+v", before.IncidentHead)
	}
	until(t, "the transition is in it, and the first request that went elsewhere has ended", func() bool {
		before = w.incident(t)
		return !before.Milestones.FirstSwitch.IsZero() && strings.Contains(strings.Join(entries(before, api.EntryEvent), "\n"), "> DEGRADED")
	})
	for i := range 5 {
		if out, stderr, code := cli(t, w.dir, "incident", "note", before.ID, fmt.Sprintf("note %d", i)); code != 0 {
			t.Fatalf("%s%s", out, stderr)
		}
	}
	if _, err := w.client.IncidentTick(t.Context(), before.ID, api.Tick{Runbook: "provider-5xx", Step: 2, Done: true}); err != nil {
		t.Fatal(err)
	}
	w.again(t, 0)
	in := w.incident(t)
	if in.ID != before.ID || in.State != api.IncidentOpen || in.Milestones != before.Milestones || in.Unsynced {
		t.Errorf("was %+v\nis %+v", before.IncidentHead, in.IncidentHead)
	}
	if got := entries(in, api.EntryNote); !slices.Equal(got, []string{"note 0", "note 1", "note 2", "note 3", "note 4"}) || len(entries(in, api.EntryTick)) != 1 {
		t.Errorf("%+v", in.Timeline)
	}
	for _, was := range before.Timeline {
		if !slices.ContainsFunc(in.Timeline, func(e api.IncidentEntry) bool {
			return e.Kind == was.Kind && e.At.Equal(was.At) && (e.Text == was.Text || e.Count > was.Count)
		}) {
			t.Errorf("lost: %+v", was)
		}
	}

	a.mode.Store(well)
	w.probed(t)
	until(t, "it is recovered", func() bool { return !w.incident(t).Milestones.Recovered.IsZero() })
	w.take(t, "100", "--override", "--reason", "test")
	until(t, "traffic is back", func() bool { return !w.incident(t).Milestones.TrafficBack.IsZero() })
	if _, stderr, code := cli(t, w.dir, "incident", "close", in.ID); code != 1 || !strings.Contains(stderr, "window, sampled, forbidden, users, primary, runbook") {
		t.Errorf("closed with nothing answered: %d %s", code, stderr)
	}
	for _, q := range api.ClosingQuestions {
		if _, stderr, code := cli(t, w.dir, "incident", "answer", in.ID, q, "yes, "+q); code != 0 {
			t.Errorf("%s: %s", q, stderr)
		}
	}
	// An answer that is there is replaced by one that names it alone.
	_, stderr, code := cli(t, w.dir, "incident", "answer", in.ID, api.QuestionUsers, "none of them")
	seen := regexp.MustCompile(`--seen (\S+)`).FindStringSubmatch(stderr)
	if code != 1 || seen == nil || !strings.Contains(stderr, "yes, users") {
		t.Fatalf("an answer that was not seen is replaced: %d %s", code, stderr)
	}
	if _, stderr, code := cli(t, w.dir, "incident", "answer", in.ID, api.QuestionUsers, "none of them", "--seen", seen[1]); code != 0 {
		t.Errorf("answer: %s", stderr)
	}
	if _, stderr, code := cli(t, w.dir, "incident", "close", in.ID); code != 0 {
		t.Errorf("close: %s", stderr)
	}
	w.again(t, 0)
	if in = w.incident(t); in.State != api.IncidentClosed || in.Milestones.Closed.IsZero() || len(w.state(t).Incidents) != 0 {
		t.Errorf("%+v", in.IncidentHead)
	}
	for verb, want := range map[string][]string{
		"report": {"# a degraded", "## Milestones", "note 3", "yes, users", "step 2", "## Decisions", "share"},
		"show":   {"MILESTONES", "traffic back", "note 3", "yes, users"},
	} {
		out, stderr, code := cli(t, w.dir, "incident", verb, in.ID)
		for _, text := range want {
			if code != 0 || !strings.Contains(out, text) {
				t.Errorf("%s: no %q in %s%s", verb, text, out, stderr)
			}
		}
	}
	if out, _, code := cli(t, w.dir, "incident", "list"); code != 0 || !strings.Contains(out, in.ID) || !strings.Contains(out, "closed") {
		t.Errorf("list: %s", out)
	}
	if _, _, code := cli(t, w.dir, "incident", "show"); code != 2 {
		t.Errorf("show without an id: %d", code)
	}
	if _, stderr, code := cli(t, w.dir, "incident", "show", "none"); code != 1 || !strings.Contains(stderr, "no incident") {
		t.Errorf("show of none: %d %s", code, stderr)
	}
}

// Gateways that share a store share an incident: both see the outage at once and
// open one, what operators write at either is in it once, whether the store is
// there or comes back, and it is closed for both.
func TestGatewaysShareAnIncident(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, address, port := anyNATSServer(t, dir)
	a, b := newStub(t), newStub(t)
	more := fmt.Sprintf("store: {nats: %q}\n", "nats://"+address)
	var both []*running
	for _, name := range []string{"one", "two"} {
		both = append(both, startAs(t, configure(t, t.TempDir(), a, b, more), func(c *exec.Cmd) { c.Args = append(c.Args, "--instance", name) }))
	}
	if _, err := both[0].client.SetState(t.Context(), "a", api.Command{State: api.Degraded, Reason: "drill"}); err != nil {
		t.Fatal(err)
	}
	agree := func(what string, is func(one, two *api.Incident) bool) {
		t.Helper()
		until(t, what, func() bool {
			var l []*api.Incident
			for _, r := range both {
				all, err := r.client.Incidents(t.Context())
				if err != nil || len(all.Incidents) != 1 {
					return false
				}
				in, err := r.client.Incident(t.Context(), all.Incidents[0].ID)
				if err != nil {
					return false
				}
				l = append(l, in)
			}
			return l[0].ID == l[1].ID && is(l[0], l[1])
		})
	}
	agree("both have the same one", func(one, two *api.Incident) bool { return one.Revision == two.Revision && !one.Unsynced })
	id := both[0].incident(t).ID
	if opened := entries(both[1].incident(t), api.EntryOpened); len(opened) != 1 {
		t.Errorf("opened: %q", opened)
	}

	var wg sync.WaitGroup
	var want []string
	for i, r := range both {
		for n := range 10 {
			text := fmt.Sprintf("note %d of %d", n, i)
			want = append(want, text)
			wg.Go(func() {
				if _, err := r.client.IncidentNote(t.Context(), id, text); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	complete := func(one, two *api.Incident) bool {
		for _, in := range []*api.Incident{one, two} {
			got := entries(in, api.EntryNote)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				return false
			}
		}
		return true
	}
	slices.Sort(want)
	agree("the notes of both are at both, each once", complete)

	// Without the store nothing is audited, so no command is taken; what happens by
	// itself is kept in memory, and written when the store is back.
	server.Shutdown()
	server.WaitForShutdown()
	until(t, "the loss is said", func() bool { return both[0].state(t).Store.Error != "" })
	if _, err := both[0].client.IncidentNote(t.Context(), id, "lost"); err == nil {
		t.Error("a note was taken that nobody can audit")
	}
	if _, err := both[0].client.SetShare(t.Context(), "b", api.Command{Share: new(25), Reason: "drill"}); err != nil {
		t.Fatal(err)
	}
	until(t, "it is unsynced", func() bool {
		in := both[0].incident(t)
		return in.Unsynced && strings.Contains(strings.Join(entries(in, api.EntryEvent), "\n"), `b share 100% > 25%  "drill"`)
	})
	natsServer(t, dir, port)
	agree("it is at both once the store is back", func(one, two *api.Incident) bool {
		return !one.Unsynced && strings.Count(strings.Join(entries(two, api.EntryEvent), "\n"), `b share 100% > 25%  "drill"`) == 1 && complete(one, two)
	})

	var blocked *api.Error
	if _, err := both[1].client.CloseIncident(t.Context(), id); !errors.As(err, &blocked) || blocked.Code != api.CodeBlocked {
		t.Errorf("closed with nothing answered: %v", err)
	}
	if _, err := both[1].client.CloseIncidentAnyway(t.Context(), id, "a drill"); err != nil {
		t.Fatal(err)
	}
	agree("it is closed for both", func(one, two *api.Incident) bool {
		return one.State == api.IncidentClosed && two.State == api.IncidentClosed && one.ClosedBy == two.ClosedBy
	})
}
