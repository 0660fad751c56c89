package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"failback/gateway/decision"
	"failback/gateway/incident"
	"failback/gateway/operator"
	"failback/gateway/operator/api"
	"failback/gateway/store"
)

// patient is a wait that no machine is slow enough for.
const patient = time.Minute

// outcomesFleet is two gateways of a store that hear each other, and wait for each
// other patiently.
func outcomesFleet(t *testing.T, server *natsserver.Server) []*Gateway {
	t.Helper()
	u := newSpentUpstream(t)
	shared := fmt.Sprintf("store: {nats: %q}\n", server.ClientURL())
	gs := make([]*Gateway, 2)
	for i := range gs {
		gs[i] = spending(t, t.TempDir(), fmt.Sprint("g", i), u.URL, bothObjectives, shared)
	}
	for _, g := range gs {
		eventually(t, "the gateways hear each other", func() bool {
			return report(t, g, "nobody's", api.LayerTask, true).Peers == heardAll
		})
		g.reported.wait = patient
	}
	return gs
}

// report posts an outcome to g.
func report(t *testing.T, g *Gateway, id, layer string, good bool) outcomesAnswer {
	t.Helper()
	return reportBody(t, g, fmt.Sprintf(`{"request_id":%q,"layer":%q,"good":%v,"by":"judge","note":"of %s"}`, id, layer, good, id))
}

func reportBody(t *testing.T, g *Gateway, body string) (a outcomesAnswer) {
	t.Helper()
	res, err := http.Post("http://"+g.ClientAddr()+outcomesPath, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%d %v", res.StatusCode, err)
	}
	return a
}

// answered has g answer a request with the id.
func answered(t *testing.T, g *Gateway, id string) {
	t.Helper()
	body := `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.ClientAddr()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Request-Id", id)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	// A request's record comes after its answer.
	eventually(t, "the request is recorded", func() bool { return g.inflight.Load() == 0 })
}

func reportsOf(t *testing.T, g *Gateway, layer string, route decision.Route, verdict string) float64 {
	t.Helper()
	return gauge(t, g, "failback_outcomes_total", map[string]string{"layer": layer, "route": string(route), "verdict": verdict})
}

// An outcome may be posted at any gateway of a store: the one that answered the
// request counts it, once, and says what became of it.
func TestOutcomesAtAnyGatewayOfTheStore(t *testing.T) {
	gs := outcomesFleet(t, onNATS(t, t.TempDir(), 0))
	owner, other := gs[0], gs[1]
	opened, err := (*control)(owner).does(operator.ActionIncidentOpen, "", api.Command{Reason: "x"})
	if err != nil {
		t.Fatal(err)
	}
	answered(t, owner, "r")
	answered(t, other, "s")
	want := outcomesAnswer{RefusedIDs: []string{}, UnknownIDs: []string{}}
	check := func(what string, got, want outcomesAnswer) {
		t.Helper()
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	counted, repeated := want, want
	counted.Counted, counted.Peers = 1, heardAll
	check("where it was not answered", report(t, other, "r", api.LayerSemantic, false), counted)
	repeated.Repeated, repeated.Peers = 1, heardAll
	check("again", report(t, other, "r", api.LayerSemantic, true), repeated)
	repeated.Peers = heardNotNeeded
	check("again where it was answered", report(t, owner, "r", api.LayerSemantic, true), repeated)
	counted.Peers = heardNotNeeded
	check("another layer, where it was answered", report(t, owner, "r", api.LayerTask, true), counted)
	repeated.Peers = heardAll
	check("and then at the other", report(t, other, "r", api.LayerTask, true), repeated)

	// Of a list each goes its own way; the workflow is counted anew, not twice.
	check("a list", reportBody(t, other, `[
		{"request_id":"r","layer":"workflow","good":false,"by":"x"},
		{"request_id":"s","layer":"workflow","good":false,"by":"x"},
		{"request_id":"r","layer":"workflow","good":false,"by":"x"},
		{"request_id":"none","layer":"task","good":false,"by":"x"}]`),
		outcomesAnswer{Counted: 2, Repeated: 1, RefusedIDs: []string{}, Unknown: 1, UnknownIDs: []string{"none"}, Peers: heardAll})
	repeated.Peers = heardAll
	check("unknown to both", report(t, other, "none", api.LayerTask, false), repeated)

	for _, c := range []struct {
		g              *Gateway
		layer, verdict string
		route          decision.Route
		want           float64
	}{
		{owner, api.LayerSemantic, "bad", decision.RoutePrimary, 1},
		{other, api.LayerSemantic, "bad", decision.RoutePrimary, 0},
		{other, api.LayerSemantic, "bad", decision.RouteNone, 0},
		{owner, api.LayerTask, "good", decision.RoutePrimary, 1},
		{owner, api.LayerWorkflow, "bad", decision.RoutePrimary, 1},
		{other, api.LayerWorkflow, "bad", decision.RoutePrimary, 1},
		{other, api.LayerTask, "bad", decision.RouteNone, 1},
		{owner, api.LayerTask, "bad", decision.RouteNone, 0},
	} {
		if got := reportsOf(t, c.g, c.layer, c.route, c.verdict); got != c.want {
			t.Errorf("at %s %s %s with route %s counts %v, want %v", c.g.instance, c.layer, c.verdict, c.route, got, c.want)
		}
	}
	owner.incidents.flush(time.Now())
	r, _, _ := owner.incidents.book.Get(opened.Incident.ID)
	if c := r.Counts; c.Semantic.Primary != (incident.Tally{Bad: 1}) || c.Task.Primary != (incident.Tally{Good: 1}) || c.Workflow.Primary.Good != 0 || c.Workflow.Primary.Bad < 1 {
		t.Errorf("the incident counts %+v", c)
	}
	if n := r.NotesBy(byClient); n != 1 {
		t.Errorf("%d notes of clients in the incident, want that of the bad answer", n)
	}
}

// Whose workflow it is, and how many keys have judged, is the owner's to say; the key
// that reports goes with the report.
func TestOutcomesOfKeysAtAnyGatewayOfTheStore(t *testing.T) {
	gs := outcomesFleet(t, onNATS(t, t.TempDir(), 0))
	owner, other := gs[0], gs[1]
	epoch := owner.incidents.tallies.Count(time.Now(), func(*incident.Counts) {})
	owner.incidents.recent.Add("r", "web", true, true, epoch)
	take := func(g *Gateway, layer, key string) fate {
		t.Helper()
		a := g.takeOutcomes(t.Context(), []incident.Outcome{{RequestID: "r", Layer: layer, Good: new(false), By: "x", Key: key}})
		switch {
		case a.Counted == 1:
			return fateCounted
		case a.Repeated == 1:
			return fateRepeated
		case a.Refused == 1 && slices.Equal(a.RefusedIDs, []string{"r"}):
			return fateRefused
		}
		return fateUnknown
	}
	for _, c := range []struct {
		g          *Gateway
		layer, key string
		want       fate
	}{
		{other, api.LayerWorkflow, "judges", fateRefused}, {other, api.LayerWorkflow, "", fateRefused},
		{other, api.LayerWorkflow, "web", fateCounted}, {owner, api.LayerWorkflow, "web", fateRepeated},
		{other, api.LayerTask, "k1", fateCounted}, {owner, api.LayerTask, "k2", fateCounted}, {other, api.LayerTask, "k3", fateCounted},
		{owner, api.LayerTask, "k1", fateRepeated}, {other, api.LayerTask, "k2", fateRepeated}, {other, api.LayerTask, "k4", fateCounted},
		{other, api.LayerTask, "k5", fateRefused}, {owner, api.LayerTask, "k5", fateRefused},
	} {
		if got := take(c.g, c.layer, c.key); got != c.want {
			t.Errorf("%s by %q at %s: %s, want %s", c.layer, c.key, c.g.instance, got, c.want)
		}
	}
	if got := reportsOf(t, owner, api.LayerTask, decision.RouteFallback, "bad"); got != 4 {
		t.Errorf("%v verdicts count", got)
	}
}

// Without the store it is said at once that nobody was asked, as often as it is
// reported; what is known here is counted; and with the store the owner counts it.
func TestOutcomesWithoutTheStore(t *testing.T) {
	dir := t.TempDir()
	server := onNATS(t, dir, 0)
	port := server.Addr().(*net.TCPAddr).Port
	gs := outcomesFleet(t, server)
	owner, other := gs[0], gs[1]
	answered(t, owner, "r")
	server.Shutdown()
	server.WaitForShutdown()
	eventually(t, "the loss is known", func() bool { return other.store.Status().Err != nil })
	for range 2 {
		began := time.Now()
		a := report(t, other, "r", api.LayerTask, true)
		if a.Unknown != 1 || a.Repeated != 0 || !slices.Equal(a.UnknownIDs, []string{"r"}) || a.Peers != heardUnreachable {
			t.Errorf("%+v", a)
		}
		if took := time.Since(began); took > patient/2 {
			t.Errorf("that took %v", took)
		}
	}
	if got := reportsOf(t, other, api.LayerTask, decision.RouteNone, "good"); got != 2 { // and the fleet's first
		t.Errorf("%v reports without a route", got)
	}
	if a := report(t, owner, "r", api.LayerSemantic, true); a.Counted != 1 || a.Peers != heardNotNeeded {
		t.Errorf("at the owner: %+v", a)
	}
	onNATS(t, dir, port)
	t.Cleanup(func() { // while the store is there
		for _, g := range gs {
			stopSpending(t, g)
		}
	})
	other.reported.wait = outcomesWait // until the owner serves anew nobody answers
	var a outcomesAnswer
	eventually(t, "the owner counts it", func() bool {
		a = report(t, other, "r", api.LayerTask, true)
		return a.Peers == heardAll
	})
	if a.Counted+a.Repeated != 1 || reportsOf(t, owner, api.LayerTask, decision.RoutePrimary, "good") != 1 {
		t.Errorf("%+v", a)
	}
	// What they write when they stop needs it.
	eventually(t, "the store is back", func() bool { return owner.store.Status().Err == nil && other.store.Status().Err == nil })
}

// With a store of its own a gateway asks nobody.
func TestOutcomesWithAStoreOfItsOwn(t *testing.T) {
	g := spending(t, t.TempDir(), "g", newSpentUpstream(t).URL, bothObjectives, "")
	for i := range 2 {
		if a := report(t, g, "r", api.LayerTask, true); a.Unknown != 1-i || a.Repeated != i || a.Peers != heardNotNeeded {
			t.Errorf("%+v", a)
		}
	}
}

// One that is registered and does not answer, or not what is asked, is waited for no
// longer than is bounded, and never taken for one that does not know.
func TestOutcomesOfAGatewayThatDoesNotAnswer(t *testing.T) {
	server := onNATS(t, t.TempDir(), 0)
	m, s := join(t, server.ClientURL(), "mute", peerEvery)
	g := spending(t, t.TempDir(), "g", newSpentUpstream(t).URL, bothObjectives, fmt.Sprintf("store: {nats: %q}\n", server.ClientURL()))
	eventually(t, "it is registered", func() bool {
		boots, more := g.peers.others(time.Now())
		return boots[m.self.Boot] && !more
	})
	for range 2 {
		began := time.Now()
		a := report(t, g, "r", api.LayerTask, true)
		if took := time.Since(began); a.Unknown != 1 || a.Repeated != 0 || a.Peers != heardSome || took < outcomesWait || took > patient/2 {
			t.Errorf("%+v after %v", a, took)
		}
	}
	said := make(chan []fate, 1)
	q, err := store.NewQuestion[outcomesAsked, outcomesFates](s, store.QuestionOptions{Name: "outcomes", From: m.self.Boot})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		_ = q.Serve(ctx, func(string, outcomesAsked) (outcomesFates, error) { return outcomesFates{<-said}, nil })
	})
	defer serving.Wait()
	defer cancel()
	defer close(said)
	answer := func(fates ...fate) outcomesAnswer {
		said <- fates
		return report(t, g, "r", api.LayerTask, true)
	}
	eventually(t, "it answers", func() bool {
		select {
		case said <- []fate{fateCounted}:
		default:
		}
		return report(t, g, "r", api.LayerTask, true).Counted == 1
	})
	for _, wrong := range [][]fate{{}, {fateCounted, fateCounted}, {"forwarded"}, {""}} {
		if a := answer(wrong...); a.Unknown != 1 || a.Peers != heardSome {
			t.Errorf("it says %q: %+v", wrong, a)
		}
	}
	g.reported.wait = patient
	if a := answer(fateRefused); a.Refused != 1 || a.Peers != heardAll {
		t.Errorf("%+v", a)
	}
	if a := answer(fateUnknown); a.Repeated != 1 || a.Peers != heardAll {
		t.Errorf("%+v", a)
	}
}

// What other gateways ask has the bounds of what clients send.
func TestOutcomesAskedAreChecked(t *testing.T) {
	server := onNATS(t, t.TempDir(), 0)
	g := spending(t, t.TempDir(), "g", newSpentUpstream(t).URL, bothObjectives, fmt.Sprintf("store: {nats: %q}\n", server.ClientURL()))
	answered(t, g, "r")
	_, s := join(t, server.ClientURL(), "other", peerEvery)
	q, err := store.NewQuestion[outcomesAsked, outcomesFates](s, store.QuestionOptions{Name: "outcomes", From: "other", MaxBytes: maxOutcomesQuestion})
	if err != nil {
		t.Fatal(err)
	}
	good := keyedOutcome{Outcome: incident.Outcome{RequestID: "r", Layer: api.LayerTask, Good: new(true), By: "x"}}
	asks := func(wait time.Duration, l ...keyedOutcome) (fates []fate) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		if err := q.Ask(ctx, outcomesAsked{l}, func(_ string, a outcomesFates) bool { fates = a.Fates; return true }); err != nil {
			t.Fatal(err)
		}
		return fates
	}
	eventually(t, "it answers", func() bool { return slices.Equal(asks(outcomesWait, good), []fate{fateRepeated}) })
	nothing, long := good, good
	nothing.Good, long.Note = nil, strings.Repeat("n", maxOutcomeNote+1)
	for _, l := range [][]keyedOutcome{{good, nothing}, {long}, slices.Repeat([]keyedOutcome{good}, maxOutcomes+1)} {
		if fates := asks(outcomesWait, l...); fates != nil {
			t.Errorf("%d outcomes: %v", len(l), fates)
		}
	}
	if fates := asks(patient, slices.Repeat([]keyedOutcome{good}, maxOutcomes)...); len(fates) != maxOutcomes {
		t.Errorf("%v", fates)
	}
}

// Of what several gateways say of an outcome, that it was counted is the most.
func TestSettle(t *testing.T) {
	fates := []fate{fateUnknown, fateUnknown, fateUnknown}
	if settle(fates, []fate{fateRefused, fateUnknown, fateCounted}) {
		t.Error("nobody else is heard")
	}
	if settle(fates, []fate{fateUnknown, fateUnknown, fateRepeated}) || !slices.Equal(fates, []fate{fateRefused, fateUnknown, fateCounted}) {
		t.Error(fates)
	}
	if !settle(fates, []fate{fateCounted, fateRepeated, fateUnknown}) || !slices.Equal(fates, []fate{fateCounted, fateRepeated, fateCounted}) {
		t.Error(fates)
	}
}
