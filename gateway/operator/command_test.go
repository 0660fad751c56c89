package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

func newRequest() (*http.Request, error) {
	return http.NewRequest(http.MethodPost, "http://x/operator/v1/upstreams/a/share", nil)
}

func TestCommandsReachTheGateway(t *testing.T) {
	ts := start(t, nil)
	ctx := t.Context()
	for _, over := range []string{"tcp", "unix"} {
		c := ts.client(t, over, anaToken, "console-1")
		for name, do := range map[string]func() (*api.Result, error){
			"share":   func() (*api.Result, error) { return c.SetShare(ctx, "a", api.Command{Share: new(5)}) },
			"breaker": func() (*api.Result, error) { return c.SetBreaker(ctx, "a:text", api.Command{Action: "open"}) },
			"auto":    func() (*api.Result, error) { return c.SetBreaker(ctx, "a:b:tools", api.Command{Action: "auto"}) },
			"passthrough": func() (*api.Result, error) {
				return c.Passthrough(ctx, api.Command{Action: "on", Order: []string{"a", "b"}})
			},
			"off":    func() (*api.Result, error) { return c.Passthrough(ctx, api.Command{Action: "off", Reason: "over"}) },
			"reload": func() (*api.Result, error) { return c.Reload(ctx, api.Command{Reason: "new key"}) },
		} {
			res, err := do()
			if err != nil || res.Message == "" || res.AuditPending {
				t.Errorf("%s: %+v %v", name, res, err)
			}
		}
	}
	made := ts.control.made()
	slices.Sort(made)
	want := []string{
		"breaker a:b:tools auto for  by ana", "breaker a:b:tools auto for  by ana",
		"breaker a:text open for 1h by ana", "breaker a:text open for 1h by ana",
		"passthrough off [] for  by ana", "passthrough off [] for  by ana",
		"passthrough on [a b] for 30m by ana", "passthrough on [a b] for 30m by ana",
		"reload by ana", "reload by ana",
		"share a by ana via socket token", "share a by ana via tcp token",
	}
	if !slices.Equal(made, want) {
		t.Errorf("made %q", made)
	}
	st, err := ts.client(t, "tcp", vicToken, "other").State(ctx)
	if err != nil || len(st.Sessions) != 2 || st.Sessions[0].Name != "ana" || st.Sessions[0].Writes.IsZero() || st.Sessions[0].You || !st.Sessions[1].You {
		t.Errorf("sessions %+v %v", st.Sessions, err)
	}
}

// Names with slashes, percents, dots and escapes in them arrive as they are.
func TestNamesInPaths(t *testing.T) {
	ts := start(t, nil)
	for _, name := range []string{"a/b", "a%2Fb", "ü", "a b", "x..y", "\x1b[2J", "a?b#c", ":"} {
		_, err := ts.ana(t).SetShare(t.Context(), name, api.Command{Share: new(0)})
		apiError(t, err, 404, api.CodeNotFound)
		if made := ts.control.made(); made[len(made)-1] != "share "+name+" by ana via tcp token" {
			t.Errorf("%q became %q", name, made[len(made)-1])
		}
	}
	for _, name := range []string{"", ".", ".."} {
		_, err := ts.ana(t).SetShare(t.Context(), name, api.Command{Share: new(0)})
		apiError(t, err, 422, api.CodeInvalid)
	}
}

func TestMalformedCommands(t *testing.T) {
	ts := start(t, nil)
	share, state, breaker, pass, reload := "upstreams/a/share", "upstreams/a/state", "breakers/a:text", "passthrough", "reload"
	for _, tc := range []struct{ path, body, says string }{
		{share, ``, "share or undo is missing"},
		{share, `{}`, "share or undo is missing"},
		{share, `null`, "not a JSON object"},
		{share, `[1]`, "not a JSON object"},
		{share, `{"share":5`, "not a JSON object"},
		{share, `{"share":5} {"share":100}`, "not a JSON object"},
		{share, `{"share":"5"}`, "share: a string does not fit"},
		{share, `{"share":5.5}`, "share: a number 5.5 does not fit"},
		{share, `{"share":-1}`, "not a percentage"},
		{share, `{"share":101}`, "not a percentage"},
		{share, `{"share":25,"from":101}`, "from 101 is not a percentage"},
		{share, `{"undo":true,"from":5}`, "undo takes none"},
		{share, `{"action":"plan","revision":1,"from":5}`, "takes no share, from"},
		{share, `{"share":0,"share":100}`, `"share" is given twice`},
		{share, `{"share":0,"sh\u0061re":100}`, `"share" is given twice`},
		{share, `{"Share":0}`, `"Share" means nothing`},
		{share, `{"share":0,"dry_run":true}`, `"dry_run" means nothing`},
		{share, `{"share":0,"for":"1h"}`, `"for" means nothing`},
		{share, `{"share":5,"undo":true}`, "takes no share"},
		{share, `{"undo":true,"override":true,"reason":"x"}`, "takes none"},
		{share, `{"share":5,"override":true}`, "needs a reason"},
		{share, `{"share":5,"override":true,"reason":" "}`, "needs a reason"},
		{share, `{"share":5,"revision":-1}`, "revision: a number -1 does not fit"},
		{share, `{"share":5,"reason":"` + strings.Repeat("x", 1001) + `"}`, "over 1000 bytes"},
		{share + "?share=5", `{"share":0}`, "no parameters"},
		{share, `{"action":"go"}`, "not plan or manual"},
		{share, `{"action":"plan"}`, "needs the revision"},
		{share, `{"action":"plan","revision":1,"share":5}`, "takes no share"},
		{share, `{"action":"manual","override":true,"reason":"x"}`, "takes no share, from, undo or override"},
		{state, `{}`, "not degraded or recovering"},
		{state, `{"state":"healthy"}`, "healthy and suspect are measured"},
		{state, `{"state":"recovering","override":true}`, "needs a reason"},
		{state, `{"state":"degraded","override":true,"reason":"x"}`, "takes no override"},
		{state, `{"state":"degraded","share":0}`, "means nothing"},
		{"upstreams/" + strings.Repeat("x", 257) + "/share", `{"share":0}`, "over 256 bytes"},
		{"breakers/a", `{"action":"open"}`, "no bucket"},
		{"breakers/a:none", `{"action":"open"}`, "no bucket"},
		{"breakers/:text", `{"action":"open"}`, "no bucket"},
		{breaker, `{}`, "not open, close or auto"},
		{breaker, `{"action":"on"}`, "not open, close or auto"},
		{breaker, `{"action":"open","for":"x"}`, "not a time"},
		{breaker, `{"action":"open","for":"-1h"}`, "not a time"},
		{breaker, `{"action":"open","for":"25h"}`, "not a time"},
		{breaker, `{"action":"auto","for":"1h"}`, "takes no for"},
		{breaker, `{"action":"open","share":5}`, "means nothing"},
		{pass, `{}`, "not on or off"},
		{pass, `{"action":"on"}`, "order is missing"},
		{pass, `{"action":"on","order":["a",""]}`, "no name"},
		{pass, `{"action":"on","order":["a","a"]}`, "twice"},
		{pass, `{"action":"on","order":[` + strings.Repeat(`"x",`, 64) + `"x"]}`, "over 64"},
		{pass, `{"action":"on","order":["a"],"for":"0s"}`, "not a time"},
		{pass, `{"action":"off","order":["a"]}`, "takes no order"},
		{reload, `{"action":"on"}`, "means nothing"},
	} {
		status, body := ts.raw(t, "POST", "/operator/v1/"+tc.path, tc.body, "Authorization", "Bearer "+anaToken)
		if says := strings.ReplaceAll(body, `\"`, `"`); status != 422 || !strings.Contains(says, tc.says) || !strings.Contains(body, `"code":"invalid"`) {
			t.Errorf("%s %.80s: %d %s", tc.path, tc.body, status, body)
		}
		l := ts.auditLines(t)
		if e := l[len(l)-1]; e.Phase != api.PhaseRefused || e.Status != 422 || e.By != "ana" || e.Result != api.ResultRefused {
			t.Errorf("%s %.80s: audit %+v", tc.path, tc.body, e)
		}
	}
	if status, body := ts.raw(t, "POST", "/operator/v1/reload", `{"reason":"`+strings.Repeat("x", maxBody)+`"}`, "Authorization", "Bearer "+anaToken); status != 413 {
		t.Errorf("a large body: %d %s", status, body)
	}
	if made := ts.control.made(); len(made) != 0 {
		t.Errorf("control was called: %v", made)
	}
}

// Every command leaves who, from, to, why, revision and result in the audit
// and among the events, whatever comes of it.
func TestAuditOfEveryResult(t *testing.T) {
	ts := start(t, nil)
	ctx := t.Context()
	seq := ts.events.newest()
	ana, vic, nobody := ts.ana(t), ts.client(t, "tcp", vicToken, ""), ts.client(t, "tcp", "", "")
	up := func(share int, rev uint64) api.Command {
		return api.Command{Share: &share, Revision: &rev, Reason: "probe ok"}
	}
	steps := []struct {
		name   string
		do     func() error
		status int
		want   []string // phase, by, from, to, result, code, revision afterwards
	}{
		{"lower", func() error { _, err := ana.SetShare(ctx, "a", up(5, 1)); return err }, 200,
			[]string{"done ana 25 5 ok  8"}},
		{"raise", func() error { _, err := ana.SetShare(ctx, "a", up(25, 8)); return err }, 200,
			[]string{"asked ana 25 - - - 0", "done ana 5 25 ok  9"}},
		{"stale", func() error { _, err := ana.SetShare(ctx, "a", up(75, 8)); return err }, 409,
			[]string{"asked", "done ana 25 75 stale stale_revision 0"}},
		{"blocked", func() error { _, err := ana.SetShare(ctx, "a", up(100, 9)); return err }, 409,
			[]string{"asked", "done ana 25 100 refused blocked 0"}},
		{"not found", func() error { _, err := ana.SetShare(ctx, "b", up(5, 9)); return err }, 404,
			[]string{"asked", "done ana  5 refused not_found 0"}},
		{"invalid", func() error { _, err := ana.SetShare(ctx, "a", up(101, 9)); return err }, 422,
			[]string{"refused ana  101 refused invalid 0"}},
		{"viewer", func() error { _, err := vic.SetShare(ctx, "a", up(0, 9)); return err }, 403,
			[]string{"refused vic  0 refused forbidden 0"}},
		{"nobody", func() error { _, err := nobody.SetShare(ctx, "a", up(0, 9)); return err }, 401,
			[]string{"refused unknown   refused unauthorized 0"}},
		{"plan", func() error {
			_, err := ana.SetShare(ctx, "a", api.Command{Action: api.ActionPlan, Revision: new(uint64(9)), Reason: "probe ok"})
			return err
		}, 200,
			[]string{"asked", "done ana 25 plan ok  9"}},
		{"degrade", func() error {
			_, err := ana.SetState(ctx, "a", api.Command{State: api.Degraded, Reason: "x"})
			return err
		}, 200,
			[]string{"done ana healthy degraded ok  9"}},
		{"recover", func() error {
			_, err := ana.SetState(ctx, "a", api.Command{State: api.Recovering, Revision: new(uint64(9))})
			return err
		}, 409,
			[]string{"asked", "done ana degraded recovering refused blocked 0"}},
		{"undo", func() error { _, err := ana.SetShare(ctx, "a", api.Command{Undo: true}); return err }, 200,
			[]string{"asked", "done ana 25 100 ok  10"}},
		{"breaker", func() error { _, err := ana.SetBreaker(ctx, "a:text", api.Command{Action: "open"}); return err }, 200,
			[]string{"done ana closed open ok  0"}},
		{"passthrough", func() error {
			_, err := ana.Passthrough(ctx, api.Command{Action: "on", Order: []string{"a"}})
			return err
		}, 200, []string{"done ana off on ok  0"}},
	}
	for _, step := range steps {
		before := len(ts.auditLines(t))
		err := step.do()
		if e, ok := errors.AsType[*api.Error](err); (err != nil || step.status != 200) && (!ok || e.HTTPStatus != step.status) {
			t.Errorf("%s: %v", step.name, err)
		}
		l := ts.auditLines(t)[before:]
		if len(l) != len(step.want) {
			t.Errorf("%s: %+v", step.name, l)
			continue
		}
		for i, e := range l {
			if e.Phase == api.PhaseAsked {
				if !strings.HasPrefix(step.want[i], "asked") || e.ID != l[1].ID || e.Result != "" || e.By != "ana" || e.Time.After(l[1].Time) {
					t.Errorf("%s: %+v", step.name, e)
				}
				continue
			}
			got := fmt.Sprintf("%s %s %s %s %s %s %d", e.Phase, e.By, e.From, e.To, e.Result, e.Code, e.NewRevision)
			if got != step.want[i] || e.Status != step.status {
				t.Errorf("%s: %d %q, want %q", step.name, e.Status, got, step.want[i])
			}
			if e.Undo != (step.name == "undo") || e.Undo && !e.Override {
				t.Errorf("%s: %+v", step.name, e)
			}
			if e.Action == actionShare && e.Via == viaTCPToken && !e.Undo && (e.Why != "probe ok" || e.Revision == nil) {
				t.Errorf("%s: %+v", step.name, e)
			}
		}
		last := l[len(l)-1]
		events, _, _ := ts.events.since(seq, 10)
		if len(events) != 1 {
			t.Fatalf("%s: events %+v", step.name, events)
		}
		seq = events[0].Seq
		if v := events[0]; v.Event != "operator_command" || v.By != last.By || v.Result != last.Result || v.From != last.From ||
			v.To != last.To || v.Action != last.Action || v.Why != last.Why || v.Revision != last.NewRevision || !strings.HasPrefix(last.Target, v.Provider) {
			t.Errorf("%s: event %+v", step.name, v)
		}
	}
	trail, err := vic.Audit(ctx, 2)
	if err != nil || len(trail.Entries) != 2 || trail.Entries[0].Action != actionPassthrough || trail.Entries[0].Phase != api.PhaseDone || trail.Pending != 0 {
		t.Errorf("trail %+v %v", trail, err)
	}
}

func TestStaleRevisionShowsWhoWasFaster(t *testing.T) {
	ts := start(t, nil)
	ben := func() []Token {
		return append(testTokens(), Token{Name: "ben", Role: api.RoleOperator, Hash: HashToken("fbk_ben")})
	}
	ts.o.Tokens = ben
	c := ts.client(t, "tcp", "fbk_ben", "")
	if _, err := c.SetShare(t.Context(), "a", api.Command{Share: new(5), Reason: "errors"}); err != nil {
		t.Fatal(err)
	}
	_, err := ts.ana(t).SetShare(t.Context(), "a", api.Command{Share: new(75), Revision: new(uint64(7))})
	e := apiError(t, err, 409, api.CodeStaleRevision)
	if e.Upstream == nil || e.Upstream.Revision != 8 || e.LastWrite == nil || e.LastWrite.By != "ben" || e.LastWrite.Why != "errors" || e.LastWrite.To != "5" {
		t.Errorf("%+v %+v", e.Upstream, e.LastWrite)
	}
	st, err := ts.ana(t).State(t.Context())
	if err != nil || st.LastWrite == nil || st.LastWrite.By != "ben" {
		t.Errorf("last write %+v %v", st.LastWrite, err)
	}
}

// The last write is known after a restart, from the audit.
func TestLastWriteSurvivesRestart(t *testing.T) {
	ts := start(t, nil)
	if _, err := ts.ana(t).SetShare(t.Context(), "a", api.Command{Share: new(5)}); err != nil {
		t.Fatal(err)
	}
	if _, err := ts.ana(t).SetShare(t.Context(), "nobody", api.Command{Share: new(5)}); err == nil {
		t.Fatal("no error")
	}
	if err := ts.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := New(ts.o)
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	if w := s.writes.newest(""); w == nil || w.By != "ana" || w.To != "5" || w.Provider != "a" || w.Revision != 8 {
		t.Errorf("%+v", w)
	}
}

// What is on the safe side takes effect although nothing can be audited, and
// its entry is written when that works; nothing else takes effect.
func TestUnwritableAudit(t *testing.T) {
	ts := start(t, nil)
	unblock := block(t, ts.o.AuditPath)
	c := ts.ana(t)
	ctx := t.Context()
	for name, do := range map[string]func() (*api.Result, error){
		"raise": func() (*api.Result, error) {
			return c.SetShare(ctx, "a", api.Command{Share: new(75), Revision: new(uint64(7))})
		},
		"plan": func() (*api.Result, error) {
			return c.Plan(ctx, "a", api.Command{Action: api.ActionPlan, Revision: new(uint64(7))})
		},
		"recovering": func() (*api.Result, error) {
			return c.SetState(ctx, "a", api.Command{State: api.Recovering, Revision: new(uint64(7))})
		},
		"undo":          func() (*api.Result, error) { return c.SetShare(ctx, "a", api.Command{Undo: true}) },
		"breaker close": func() (*api.Result, error) { return c.SetBreaker(ctx, "a:text", api.Command{Action: "close"}) },
		"a raise that would lower": func() (*api.Result, error) {
			return c.SetShare(ctx, "a", api.Command{Share: new(25), From: new(5), Revision: new(uint64(7))})
		},
		"breaker auto": func() (*api.Result, error) { return c.SetBreaker(ctx, "a:text", api.Command{Action: "auto"}) },
		"reload":       func() (*api.Result, error) { return c.Reload(ctx, api.Command{}) },
	} {
		_, err := do()
		if e := apiError(t, err, 503, api.CodeFailed); !strings.Contains(e.Message, "nothing was changed") || !strings.Contains(e.Hint, "passthrough") {
			t.Errorf("%s: %v", name, e)
		}
	}
	if made := ts.control.made(); len(made) != 0 {
		t.Fatalf("control was called: %v", made)
	}
	for _, share := range []int{5, 5, 0} {
		res, err := c.SetShare(ctx, "a", api.Command{Share: &share})
		if err != nil || !res.AuditPending || res.Upstream.Share != share {
			t.Errorf("lowering to %d: %+v %v", share, res, err)
		}
	}
	safe := map[string]func() (*api.Result, error){
		"degraded":     func() (*api.Result, error) { return c.SetState(ctx, "a", api.Command{State: api.Degraded}) },
		"manual":       func() (*api.Result, error) { return c.Plan(ctx, "a", api.Command{Action: api.ActionManual}) },
		"breaker open": func() (*api.Result, error) { return c.SetBreaker(ctx, "a:text", api.Command{Action: "open"}) },
		"passthrough on": func() (*api.Result, error) {
			return c.Passthrough(ctx, api.Command{Action: "on", Order: []string{"a"}})
		},
		"passthrough off": func() (*api.Result, error) { return c.Passthrough(ctx, api.Command{Action: "off"}) },
	}
	for name, do := range safe {
		before := len(ts.control.made())
		res, err := do()
		if err != nil || !res.AuditPending || len(ts.control.made()) != before+1 {
			t.Errorf("%s: %+v %v", name, res, err)
		}
	}
	// A refused command stays refused.
	_, err := ts.client(t, "tcp", vicToken, "").Reload(ctx, api.Command{})
	apiError(t, err, 403, api.CodeForbidden)
	st, err := c.State(ctx)
	if err != nil || st.Audit.Pending != 25 || st.Audit.Error == "" {
		t.Errorf("%+v %v", st.Audit, err)
	}
	unblock()
	if _, err := c.Reload(ctx, api.Command{}); err != nil {
		t.Error(err)
	}
	if n := len(ts.auditLines(t)); n != 27 {
		t.Errorf("%d lines", n)
	}
}

// A State that fails is no reason not to lower a share.
func TestLoweringWithoutState(t *testing.T) {
	ts := start(t, nil)
	ts.control.onState = func() { panic("no state today") }
	if _, err := ts.ana(t).SetShare(t.Context(), "a", api.Command{Share: new(0)}); err != nil {
		t.Error(err)
	}
	if _, err := ts.ana(t).State(t.Context()); err == nil {
		t.Error("no error")
	} else {
		apiError(t, err, 500, api.CodeFailed)
	}
	if s := ts.log.text(); !strings.Contains(s, "no state today at ") || strings.Contains(s, "goroutine") {
		t.Errorf("log: %s", s)
	}
}

func TestFailingCommands(t *testing.T) {
	ts := start(t, nil)
	for says, fail := range map[string]func() (api.Result, error){
		"the disk is full":      func() (api.Result, error) { return api.Result{}, errors.New("the disk is full") },
		"it is not known":       func() (api.Result, error) { panic("boom") },
		"did not finish within": func() (api.Result, error) { return api.Result{}, fmt.Errorf("x: %w", context.DeadlineExceeded) },
		"a wrapped explanation": func() (api.Result, error) {
			return api.Result{}, fmt.Errorf("x: %w", &api.Error{Code: api.CodeFailed, Message: "a wrapped explanation"})
		},
		"an error without codes": func() (api.Result, error) { return api.Result{}, &api.Error{Message: "an error without codes"} },
	} {
		ts.control.onShare = func(context.Context, Actor, api.Command) (api.Result, error) { return fail() }
		_, err := ts.ana(t).SetShare(t.Context(), "a", api.Command{Share: new(0)})
		if e := apiError(t, err, 500, api.CodeFailed); !strings.Contains(e.Message, says) {
			t.Errorf("%s: %v", says, e)
		}
		l := ts.auditLines(t)
		if e := l[len(l)-1]; e.Phase != api.PhaseDone || e.Result != api.ResultFailed || !strings.Contains(e.Message, says) {
			t.Errorf("%s: %+v", says, e)
		}
	}
}

// Who gives a command and leaves does not undo it halfway: it is carried out
// and audited. Stop waits for it.
func TestCommandOutlivesItsConnection(t *testing.T) {
	ts := start(t, nil)
	begun, goOn := make(chan struct{}), make(chan struct{})
	ts.control.onShare = func(ctx context.Context, _ Actor, _ api.Command) (api.Result, error) {
		close(begun)
		<-goOn
		return api.Result{Message: "done"}, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := ts.ana(t).SetShare(ctx, "a", api.Command{Share: new(0)})
		answered <- err
	}()
	<-begun
	cancel()
	u, ok := errors.AsType[*api.UnreachableError](<-answered)
	if !ok || !u.MayHaveHappened || !strings.Contains(u.Error(), "not known whether") {
		t.Errorf("%v", u)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- ts.Stop(context.Background()) }()
	<-ts.closing
	select {
	case err := <-stopped:
		t.Errorf("Stop did not wait: %v", err)
	default:
	}
	close(goOn)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if l := ts.auditLines(t); len(l) != 1 || l[0].Result != api.ResultOK {
		t.Errorf("%+v", l)
	}
}

// A command that does not end is told to when Stop gives up.
func TestStopGivesUpOnCommands(t *testing.T) {
	ts := start(t, nil)
	begun := make(chan struct{})
	ended := make(chan error, 1)
	ts.control.onShare = func(ctx context.Context, _ Actor, _ api.Command) (api.Result, error) {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return api.Result{}, ctx.Err()
	}
	go ts.ana(t).SetShare(context.Background(), "a", api.Command{Share: new(0)})
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := ts.Stop(ctx)
	if err == nil || !strings.Contains(err.Error(), "still under way") {
		t.Errorf("Stop: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the command was not told")
	}
	if l := ts.auditLines(t); len(l) != 1 || l[0].Phase != api.PhaseDone || l[0].Result != api.ResultFailed {
		t.Errorf("audit: %+v", l)
	}
	ts.mu.Lock()
	ts.stopErr = nil // said; the test's own cleanup stops again
	ts.mu.Unlock()
}

// A command that arrives while the server stops is refused and audited.
func TestCommandsWhileStopping(t *testing.T) {
	ts := start(t, nil)
	c := ts.ana(t)
	ts.mu.Lock()
	ts.state = stateStopped
	ts.mu.Unlock()
	_, err := c.SetShare(t.Context(), "a", api.Command{Share: new(0)})
	apiError(t, err, 503, api.CodeFailed)
	ts.mu.Lock()
	ts.state = stateServing
	ts.mu.Unlock()
	if l := ts.auditLines(t); len(l) != 1 || l[0].Phase != api.PhaseRefused || len(ts.control.made()) != 0 {
		t.Errorf("%+v", l)
	}
}

// A body that does not come does not hold a command for ever.
func TestHalfABody(t *testing.T) {
	ts := start(t, nil)
	c, err := net.Dial("tcp", ts.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /operator/v1/upstreams/a/share HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{\"share\":100", anaToken)
	c.(*net.TCPConn).CloseWrite()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	b := make([]byte, 512)
	if n, _ := c.Read(b); !strings.Contains(string(b[:n]), " 422 ") {
		t.Errorf("%q", b[:n])
	}
	if made := ts.control.made(); len(made) != 0 {
		t.Errorf("control was called: %v", made)
	}
}

// Refusals of strangers are written sparingly and counted, and a flood of them
// does not push the operators' own commands out.
func TestFloodOfStrangers(t *testing.T) {
	ts := start(t, nil)
	c := ts.client(t, "tcp", "", "")
	for range 200 {
		_, err := c.Reload(t.Context(), api.Command{})
		apiError(t, err, 401, api.CodeUnauthorized)
	}
	if n := len(ts.auditLines(t)); n != 10 {
		t.Errorf("%d lines", n)
	}
	ts.anonymous.mu.Lock()
	ts.anonymous.last = ts.anonymous.last.Add(-time.Minute)
	ts.anonymous.mu.Unlock()
	if _, err := c.Reload(t.Context(), api.Command{}); err == nil {
		t.Error("no error")
	}
	l := ts.auditLines(t)
	if e := l[len(l)-1]; e.Suppressed != 190 || e.Action != actionReload {
		t.Errorf("%+v", e)
	}
}

// A hundred commands at once: exactly as many raises take effect as revisions
// allow, and each command has its two lines.
func TestManyCommandsAtOnce(t *testing.T) {
	ts := start(t, nil)
	if _, err := ts.ana(t).SetShare(t.Context(), "a", api.Command{Share: new(0)}); err != nil {
		t.Fatal(err)
	}
	const n = 100
	var all sync.WaitGroup
	var mu sync.Mutex
	results := map[string]int{}
	clients := []*api.Client{ts.client(t, "tcp", anaToken, "1"), ts.client(t, "unix", anaToken, "2")}
	for i := range n {
		all.Go(func() {
			_, err := clients[i%2].SetShare(context.Background(), "a", api.Command{Share: new(5 + i%2*20), Revision: new(uint64(8)), Reason: fmt.Sprint("command ", i)})
			what := "ok"
			if e, ok := errors.AsType[*api.Error](err); ok {
				what = e.Code
			} else if err != nil {
				what = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			results[what]++
		})
	}
	all.Wait()
	// A lower one that comes late lowers, whatever the revision.
	if results["ok"] < 1 || results["ok"]+results[api.CodeStaleRevision] != n {
		t.Errorf("%v", results)
	}
	type pair struct{ asked, done int }
	by := map[string]*pair{}
	for _, e := range ts.auditLines(t)[1:] {
		p := by[e.Why]
		if p == nil {
			p = &pair{}
			by[e.Why] = p
		}
		switch e.Phase {
		case api.PhaseAsked:
			p.asked++
			if p.done > 0 {
				t.Errorf("%s was done before it was asked", e.Why)
			}
		case api.PhaseDone:
			p.done++
		}
	}
	for why, p := range by {
		if p.done != 1 || p.asked > 1 {
			t.Errorf("%s: %+v", why, p)
		}
	}
	if len(by) != n {
		t.Errorf("%d commands in the audit", len(by))
	}
	events, _, _ := ts.events.since(0, keptEvents)
	if len(events) != n+1 {
		t.Errorf("%d events", len(events))
	}
}

func TestOnEventIsTheFanOut(t *testing.T) {
	got := make(chan decision.Event, 10)
	ts := start(t, func(s *Server) { s.o.OnEvent = func(e decision.Event) { got <- e } })
	if _, err := ts.ana(t).SetBreaker(t.Context(), "a:tools", api.Command{Action: "close", For: "5m", Reason: "fixed"}); err != nil {
		t.Fatal(err)
	}
	e := <-got
	if e.Kind != decision.KindOperatorCommand || e.Provider != "a" || e.Capability != decision.Tools || e.By != "ana" || e.To != "close" || e.Why != "fixed" || e.Result != api.ResultOK {
		t.Errorf("%+v", e)
	}
	if events, _, _ := ts.events.since(0, 10); len(events) != 0 {
		t.Errorf("the server recorded it by itself: %+v", events)
	}
}
